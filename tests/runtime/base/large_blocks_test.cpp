#include "runtime/base/large_blocks.h"

#include <thread>
#include <vector>

#include "runtime/base/array.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {
constexpr size_t kMb = size_t{1} << 20;
}

TEST_CASE("large_blocks: a block is reused only after it was given back, also for nearly the same size") {
  LargeBlocks blocks;
  std::byte* a = blocks.take(10 * kMb);
  std::byte* b = blocks.take(10 * kMb);
  CHECK(a != b);
  CHECK(reinterpret_cast<uintptr_t>(a) % LargeBlocks::kAlignment == 0);
  CHECK(blocks.idle_bytes() == 0);
  blocks.give_back(a, 10 * kMb);
  CHECK(blocks.idle_bytes() >= 10 * kMb);
  CHECK(blocks.take(10 * kMb - 1) == a);
  a[10 * kMb - 2] = std::byte{1};
  CHECK(blocks.idle_bytes() == 0);
  blocks.give_back(a, 10 * kMb - 1);
  std::byte* c = blocks.take(20 * kMb);
  CHECK(c != a);
  blocks.give_back(c, 20 * kMb);
  blocks.give_back(b, 10 * kMb);
}

TEST_CASE("large_blocks: unused blocks are limited by those in use or 256 MB; the longest unused are freed first") {
  LargeBlocks blocks;
  std::vector<std::byte*> taken;
  for (int i = 0; i < 100; ++i) taken.push_back(blocks.take(8 * kMb));
  for (int i = 0; i < 50; ++i) blocks.give_back(taken[i], 8 * kMb);
  CHECK(blocks.idle_bytes() == 400 * kMb);  // as many are in use
  for (int i = 50; i < 60; ++i) blocks.give_back(taken[i], 8 * kMb);
  CHECK(blocks.idle_bytes() == 320 * kMb);
  for (int i = 60; i < 100; ++i) blocks.give_back(taken[i], 8 * kMb);
  CHECK(blocks.idle_bytes() == LargeBlocks::kLeastIdle);
  // Of the 32 blocks that are left, the newest is reused first.
  for (int i = 99; i >= 68; --i) CHECK(blocks.take(8 * kMb) == taken[i]);
  CHECK(blocks.idle_bytes() == 0);
  for (int i = 68; i < 100; ++i) blocks.give_back(taken[i], 8 * kMb);
}

TEST_CASE("large_blocks: blocks of more than 64 MB are freed at once") {
  LargeBlocks blocks;
  blocks.give_back(blocks.take(64 * kMb), 64 * kMb);
  CHECK(blocks.idle_bytes() == 64 * kMb);
  blocks.give_back(blocks.take(65 * kMb), 65 * kMb);
  CHECK(blocks.idle_bytes() == 64 * kMb);
}

TEST_CASE("large_blocks: threads take and give back blocks concurrently") {
  LargeBlocks blocks;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&blocks, t] {
        for (size_t i = 0; i < 500; ++i) {
          const size_t bytes = kMb + (i * 7919 + static_cast<size_t>(t)) % kMb;
          std::byte* block = blocks.take(bytes);
          block[0] = block[bytes - 1] = static_cast<std::byte>(t);
          std::this_thread::yield();
          if (block[0] != static_cast<std::byte>(t) || block[bytes - 1] != static_cast<std::byte>(t))
            throw InvariantError("two threads have one block");
          blocks.give_back(block, bytes);
        }
      });
  }
  CHECK(blocks.idle_bytes() <= LargeBlocks::kLeastIdle);
}

TEST_CASE("array: a large array is zero even in reused memory, and slices keep its memory alive") {
  const int64_t bytes = 3 * static_cast<int64_t>(kMb);
  {
    Array dirty = Array::uninitialized(DType::u8, {bytes});
    for (uint8_t& byte : dirty.mutable_view<uint8_t>()) byte = 7;
  }
  const Array slice = Array(DType::u8, {bytes}).slice(1, bytes);
  Array other = Array::uninitialized(DType::u8, {bytes});
  other.mutable_view<uint8_t>()[1] = 9;
  CHECK(std::ranges::all_of(slice.view<uint8_t>(), [](uint8_t byte) { return byte == 0; }));
}
