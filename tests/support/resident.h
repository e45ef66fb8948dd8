#pragma once
// How much of some memory is in pages that the system holds.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/test.h"

namespace troupe::test {

inline size_t page_bytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Of the pages in which [memory, memory + bytes) lies. A page that was read since it was given back counts.
inline size_t resident_bytes(const void* memory, size_t bytes) {
  const size_t page = page_bytes();
  const auto begin = reinterpret_cast<uintptr_t>(memory) / page * page;
  const size_t pages = (reinterpret_cast<uintptr_t>(memory) + bytes - begin + page - 1) / page;
  std::vector<unsigned char> state(pages);
  REQUIRE(mincore(reinterpret_cast<void*>(begin), pages * page, state.data()) == 0);
  return page * static_cast<size_t>(std::ranges::count_if(state, [](unsigned char of) { return (of & 1) != 0; }));
}

}  // namespace troupe::test
