#pragma once
// Counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011).
// A stream is identified by a key, and a key is derived from the run's seed by name and index, so that no stream
// depends on the order in which others are used. Plain values: copy, save and restore freely.

#include <array>
#include <cstdint>
#include <string_view>

namespace troupe {

// The key of the stream called `name` with the given indices under a seed (or under another key).
uint64_t derive_key(uint64_t seed, std::string_view name, uint64_t index = 0, uint64_t index2 = 0);

// A well-mixed 64-bit hash of two words.
uint64_t mix(uint64_t a, uint64_t b);

// Where `index`, below `size`, is in the permutation of 0 to size - 1 that `key` chooses. Takes no memory, and constant
// time on average.
uint64_t permuted(uint64_t key, uint64_t index, uint64_t size);

class Rng {
 public:
  explicit Rng(uint64_t key = 0, uint64_t counter = 0) : key_(key), counter_(counter) {}

  uint64_t key() const { return key_; }
  // Blocks of four words drawn so far; Rng(key(), counter()) continues at the next block.
  uint64_t counter() const { return counter_; }

  // 32-bit words drawn so far; at(key(), position()) continues exactly from here.
  uint64_t position() const { return counter_ * 4 - (4 - used_); }
  // The stream of `key` after `position` words.
  static Rng at(uint64_t key, uint64_t position);

  uint32_t next_u32();
  uint64_t next_u64();
  // Uniform in [0, 1) with 24 bits.
  float uniform();
  // Uniform in [low, high).
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  double uniform_double();
  // Standard normal (Box-Muller).
  float normal();
  // Uniform in [0, bound); bound must be at least 1. Unbiased.
  uint64_t below(uint64_t bound);

 private:
  uint64_t key_;
  uint64_t counter_;
  std::array<uint32_t, 4> block_{};
  unsigned used_ = 4;
};

}  // namespace troupe
