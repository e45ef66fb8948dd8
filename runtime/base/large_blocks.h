#pragma once
// LargeBlocks: the allocator of arrays of a megabyte and more. It reuses blocks: a new block costs page faults, and if
// malloc returned blocks to the system and took them again, the resident memory of a run would vary by whole batches
// (tools/soak). Any thread.

#include <cstddef>
#include <list>

#include "runtime/base/mutex.h"

namespace troupe {

class LargeBlocks {
 public:
  static constexpr size_t kLeast = size_t{1} << 20;
  static constexpr size_t kAlignment = 64;

  // The allocator of the process.
  static LargeBlocks& shared();

  LargeBlocks() = default;
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;
  ~LargeBlocks();

  // At least `bytes` (kLeast or more) of unspecified contents. Throws std::bad_alloc.
  std::byte* take(size_t bytes);
  // `bytes` is the size with which it was taken.
  void give_back(std::byte* block, size_t bytes);

  // Larger blocks are not kept: their page faults take little time in relation to the work on them.
  static constexpr size_t kMostKept = size_t{64} << 20;
  // Other unused blocks are kept while their total size is at most that of the blocks in use, or kLeastIdle if that is
  // more. Those unused for the longest are freed first.
  static constexpr size_t kLeastIdle = size_t{256} << 20;
  size_t idle_bytes() const;

 private:
  struct Idle {
    std::byte* block;
    size_t bytes;
  };

  mutable Mutex mutex_;
  std::list<Idle> idle_ TROUPE_GUARDED_BY(mutex_);  // the longest unused first
  size_t idle_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;
  size_t used_bytes_ TROUPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace troupe
