#include "runtime/base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace troupe {

namespace {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter) {
  constexpr uint32_t kMultiply0 = 0xD2511F53, kMultiply1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  std::array<uint32_t, 4> x{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiply0) * x[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiply1) * x[2];
    x = {static_cast<uint32_t>(p1 >> 32) ^ x[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ x[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += kWeyl0;
    k1 += kWeyl1;
  }
  return x;
}

}  // namespace

uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9E3779B97F4A7C15ULL * (b + 1);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

uint64_t derive_key(uint64_t seed, std::string_view name, uint64_t index, uint64_t index2) {
  uint64_t hash = 0xCBF29CE484222325ULL;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return mix(mix(mix(seed, hash), index), index2);
}

// A Feistel network over the smallest even number of bits that holds the indices. Results outside of the range are
// permuted again until one is inside (Black and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
uint64_t permuted(uint64_t key, uint64_t index, uint64_t size) {
  constexpr uint64_t kRounds = 12;  // with 6, permutations of few indices are visibly uneven
  if (size <= 1) return 0;
  const int half = (std::bit_width(size - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t next = left ^ (mix(mix(key, round), right) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= size);
  return index;
}

Rng Rng::at(uint64_t key, uint64_t position) {
  Rng rng(key, position / 4);
  for (uint64_t i = 0; i < position % 4; ++i) rng.next_u32();
  return rng;
}

uint32_t Rng::next_u32() {
  if (used_ == 4) {
    block_ = philox(key_, counter_++);
    used_ = 0;
  }
  return block_[used_++];
}

uint64_t Rng::next_u64() {
  const uint64_t high = next_u32();
  return high << 32 | next_u32();
}

float Rng::uniform() { return static_cast<float>(next_u32() >> 8) * 0x1.0p-24f; }

double Rng::uniform_double() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

float Rng::normal() {
  const float u = (static_cast<float>(next_u32() >> 8) + 1.0f) * 0x1.0p-24f;  // (0, 1]
  const float v = uniform();
  return std::sqrt(-2.0f * std::log(u)) * std::cos(2.0f * std::numbers::pi_v<float> * v);
}

uint64_t Rng::below(uint64_t bound) {
  const uint64_t limit = -bound % bound;
  for (;;) {
    const uint64_t x = next_u64();
    if (x >= limit) return x % bound;
  }
}

}  // namespace troupe
