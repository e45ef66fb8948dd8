#pragma once
// LargeBlocks: where the memory of arrays of a megabyte and more comes from. A fresh block costs its page faults,
// and blocks that malloc gives back and takes again make the resident memory of a run wander by whole batches
// (tools/soak). A used block is handed out again instead. Any thread.

#include <cstddef>
#include <list>

#include "runtime/base/mutex.h"

namespace troupe {

class LargeBlocks {
 public:
  static constexpr size_t kLeast = size_t{1} << 20;
  static constexpr size_t kAlignment = 64;

  // Of the process.
  static LargeBlocks& shared();

  LargeBlocks() = default;
  LargeBlocks(const LargeBlocks&) = delete;
  LargeBlocks& operator=(const LargeBlocks&) = delete;
  ~LargeBlocks();

  // At least `bytes` (kLeast or more) of unspecified contents. Throws std::bad_alloc.
  std::byte* take(size_t bytes);
  // `bytes` as it was taken with.
  void give_back(std::byte* block, size_t bytes);

  // Blocks wait for their next use as long as those that wait are no larger together than those in use, or than
  // kLeastIdle; the longest unused go first.
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
