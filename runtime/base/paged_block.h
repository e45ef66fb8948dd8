#pragma once
// PagedBlock: memory whose parts can be given back to the system and written again at the same addresses. One thread at
// a time.

#include <cstddef>
#include <memory>
#include <span>

namespace troupe {

class PagedBlock {
 public:
  // So many bytes, at least 1, all 0. They take memory, page by page, when they are written. Throws std::bad_alloc.
  explicit PagedBlock(size_t bytes);

  size_t bytes() const { return memory_.get_deleter().bytes; }
  // The same memory as numbers; what is left of the bytes is left out.
  std::span<float> floats() const { return {reinterpret_cast<float*>(memory_.get()), bytes() / sizeof(float)}; }
  // Sets the bytes [begin, end) to 0. Pages that lie completely inside that range go back to the system.
  void clear(size_t begin, size_t end);

 private:
  struct Unmap {
    size_t bytes;
    void operator()(std::byte* memory) const;
  };

  std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace troupe
