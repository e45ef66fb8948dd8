#pragma once
// BlockPool: 64-byte aligned blocks of memory that come back when the last Array over them goes. A fresh block of 100 MB costs
// its page faults (tens of milliseconds), more than the checksum of its contents; a used one costs nothing.

#include <cstddef>
#include <memory>

#include "runtime/array.h"

namespace troupe {

class BlockPool {
 public:
  // Keeps at most `keep` unused blocks; a block of another size than the one asked for is released.
  explicit BlockPool(size_t keep = 2);
  // A uint8 array [bytes] with unspecified contents. Any thread.
  Array take(size_t bytes);
  // Blocks that wait for their next use.
  size_t unused() const;

 private:
  struct Shelf;
  std::shared_ptr<Shelf> shelf_;  // shared with the arrays, which may outlive the pool
};

}  // namespace troupe
