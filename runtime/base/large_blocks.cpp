#include "runtime/base/large_blocks.h"

#include <algorithm>
#include <bit>
#include <new>

namespace troupe {

namespace {

// Rounds up by at most an eighth, so that a block can be reused for a similar size. Pages that are never written take
// no memory.
size_t rounded(size_t bytes) {
  const size_t step = std::bit_floor(std::max(bytes, LargeBlocks::kLeast)) / 8;
  return (bytes + step - 1) / step * step;
}

std::byte* allocate_aligned(size_t bytes) {
  return static_cast<std::byte*>(::operator new(bytes, std::align_val_t(LargeBlocks::kAlignment)));
}

void release(std::byte* block) { ::operator delete(block, std::align_val_t(LargeBlocks::kAlignment)); }

}  // namespace

LargeBlocks& LargeBlocks::shared() {
  static auto& blocks = *new LargeBlocks;  // never destroyed: arrays may outlive any static object
  return blocks;
}

LargeBlocks::~LargeBlocks() {
  for (const Idle& each : idle_) release(each.block);
}

std::byte* LargeBlocks::take(size_t bytes) {
  bytes = rounded(bytes);
  {
    const MutexLock lock(mutex_);
    used_bytes_ += bytes;
    // The most recently used one, whose contents may still be in a cache.
    const auto found =
        std::find_if(idle_.rbegin(), idle_.rend(), [=](const Idle& each) { return each.bytes == bytes; });
    if (found != idle_.rend()) {
      std::byte* block = found->block;
      idle_bytes_ -= bytes;
      idle_.erase(std::next(found).base());
      return block;
    }
  }
  try {
    return allocate_aligned(bytes);
  } catch (const std::bad_alloc&) {
    const MutexLock lock(mutex_);
    used_bytes_ -= bytes;
    throw;
  }
}

void LargeBlocks::give_back(std::byte* block, size_t bytes) {
  bytes = rounded(bytes);
  std::list<Idle> surplus;
  {
    const MutexLock lock(mutex_);
    used_bytes_ -= bytes;
    if (bytes > kMostKept) {
      surplus.push_back({block, bytes});
    } else {
      idle_bytes_ += bytes;
      idle_.push_back({block, bytes});
    }
    while (idle_bytes_ > std::max(used_bytes_, kLeastIdle)) {
      idle_bytes_ -= idle_.front().bytes;
      surplus.splice(surplus.end(), idle_, idle_.begin());
    }
  }
  for (const Idle& each : surplus) release(each.block);
}

size_t LargeBlocks::idle_bytes() const {
  const MutexLock lock(mutex_);
  return idle_bytes_;
}

}  // namespace troupe
