#include "runtime/base/paged_block.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

size_t page_bytes() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

std::byte* map_pages(size_t bytes) {
  TROUPE_CHECK(bytes > 0, bytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

}  // namespace

PagedBlock::PagedBlock(size_t bytes) : memory_(map_pages(bytes), Unmap{bytes}) {}

void PagedBlock::Unmap::operator()(std::byte* memory) const { munmap(memory, bytes); }

void PagedBlock::clear(size_t begin, size_t end) {
  TROUPE_CHECK(begin <= end && end <= bytes(), begin, end, bytes());
  const size_t page = page_bytes();
  const auto whole = [page](size_t bytes) { return (bytes + page - 1) / page * page; };
  std::byte* memory = memory_.get();
  const size_t first = whole(begin), last = end == bytes() ? whole(end) : end / page * page;
  // Private pages without a file are 0 when they are read again.
  if (first >= last || madvise(memory + first, last - first, MADV_DONTNEED) != 0) {
    std::memset(memory + begin, 0, end - begin);
    return;
  }
  std::memset(memory + begin, 0, first - begin);
  if (last < end) std::memset(memory + last, 0, end - last);
}

}  // namespace troupe
