#pragma once
// Random sequences for the scan family with all options, their placement in memory in any layout, and plain-loop
// float64 oracles that process one sequence at a time.

#include <cstring>
#include <functional>
#include <vector>

#include "algorithms/advantages/gae.h"
#include "algorithms/advantages/returns.h"
#include "algorithms/advantages/vtrace.h"
#include "tests/algorithms/common/random_rollout.h"
#include "tests/algorithms/common/tokens.h"

namespace troupe::test {

// Which optional inputs are given.
struct Options {
  bool mask = false, valid = false, ends = false, next = false, bootstrap = false, gammas = false, lambdas = false;
  bool carry = false, cut_is_end = false, packed = false;
};

// Values that are exact in bfloat16.
struct Sequence {
  std::vector<float> rewards, values, next, log_rho, gammas, lambdas;
  std::vector<uint8_t> terminated, truncated, mask;
  float bootstrap = 0;

  Sequence(Rng& rng, int64_t steps, uint64_t one_in, double masked) {
    const auto number = [&] { return std::clamp(std::round(32 * rng.normal()), -127.0f, 127.0f) / 32; };
    const auto factor = [&] { return rng.below(8) == 0 ? 0.0f : static_cast<float>(224 + rng.below(33)) / 256; };
    bootstrap = number();
    const bool padded = rng.below(2) == 0;
    const auto length = static_cast<int64_t>(rng.below(static_cast<uint64_t>(steps) + 1));
    for (int64_t t = 0; t < steps; ++t) {
      rewards.push_back(number());
      values.push_back(number());
      next.push_back(number());
      log_rho.push_back(number() / 2);
      gammas.push_back(factor());
      lambdas.push_back(factor());
      terminated.push_back(rng.below(one_in) == 0 ? 3 : 0);
      truncated.push_back(rng.below(one_in) == 0);
      mask.push_back((!padded || t < length) && rng.uniform_double() >= masked);
    }
  }
  int64_t steps() const { return static_cast<int64_t>(rewards.size()); }
};

// How arrays are placed: each in a separate buffer filled with NaN, with a distance between rows of memory.
struct Placement {
  Layout layout = Layout::rows;
  int64_t gap = 0;      // elements between the rows
  int64_t offset = 0;   // bytes from a cache line's start
  bool halves = false;  // bfloat16
  bool exact = false;   // the buffer ends with the array and begins `offset` bytes before it, for the sanitizers
};

class Memory {
 public:
  Memory(const std::vector<Sequence>& sequences, const Placement& place, const Options& options)
      : sequences_(sequences), place_(place), packed_(options.packed) {
    offsets.push_back(0);
    for (const Sequence& s : sequences) offsets.push_back(offsets.back() + s.steps());
    steps = sequences.empty() ? 0 : sequences.front().steps();
    length_ = packed_ ? offsets.back() : place.layout == Layout::rows ? steps : count();
    rows_ = packed_ ? 1 : place.layout == Layout::rows ? count() : steps;
    size = static_cast<std::size_t>(offsets.back());
  }

  FloatView floats(std::vector<float> Sequence::* member) {
    const Element element = place_.halves ? Element::bfloat16 : Element::float32;
    char* data = buffer(place_.halves ? 2 : 4);
    for_each([&](std::size_t b, std::size_t t, int64_t at) {
      const float x = (sequences_[b].*member)[t];
      uint32_t bits;
      std::memcpy(&bits, &x, 4);
      if (place_.halves) bits >>= 16;
      std::memcpy(data + at * (place_.halves ? 2 : 4), &bits, place_.halves ? 2 : 4);
    });
    return {data, element, size, stride()};
  }
  FlagView flags(std::vector<uint8_t> Sequence::* member) {
    char* data = buffer(1);
    for_each(
        [&](std::size_t b, std::size_t t, int64_t at) { data[at] = static_cast<char>((sequences_[b].*member)[t]); });
    return {reinterpret_cast<const uint8_t*>(data), size, stride()};
  }
  OutputView output() { return {reinterpret_cast<float*>(buffer(4)), size, stride()}; }
  // An output's elements, sequence by sequence. Checks that the rest of its buffer is unchanged.
  std::vector<float> read(const OutputView& out) const {
    std::vector<float> result(size);
    std::size_t i = 0;
    const auto* data = reinterpret_cast<const char*>(out.data);
    std::vector<char> other(static_cast<std::size_t>(extent()), 1);
    const_cast<Memory*>(this)->for_each([&](std::size_t, std::size_t, int64_t at) {
      std::memcpy(&result[i++], data + 4 * at, 4);
      other[static_cast<std::size_t>(at)] = 0;
    });
    int touched = 0;
    for (std::size_t at = 0; at < other.size(); ++at) {
      uint32_t bits;
      std::memcpy(&bits, data + 4 * at, 4);
      touched += other[at] && bits != 0xffffffffu;
    }
    CHECK(touched == 0);
    return result;
  }

  std::vector<int64_t> offsets;
  int64_t steps = 0;
  std::size_t size = 0;

 private:
  int64_t count() const { return static_cast<int64_t>(sequences_.size()); }
  int64_t stride() const { return length_ + place_.gap; }
  int64_t extent() const {
    return place_.exact ? std::max<int64_t>(0, (rows_ - 1) * stride() + length_) : rows_ * stride();
  }
  char* buffer(int64_t bytes) {
    if (place_.exact) {
      buffers_.emplace_back(static_cast<std::size_t>(extent() * bytes + place_.offset), char{-1});
      buffers_.back().shrink_to_fit();
      return buffers_.back().data() + place_.offset;
    }
    constexpr std::size_t kLine = 64;
    buffers_.emplace_back(static_cast<std::size_t>((rows_ + 1) * stride() * bytes + place_.offset) + 2 * kLine,
                          char{-1});
    const auto address = reinterpret_cast<uintptr_t>(buffers_.back().data());
    return buffers_.back().data() + (kLine - address % kLine) + place_.offset;
  }
  // visit(sequence, step, element of the array)
  void for_each(const std::function<void(std::size_t, std::size_t, int64_t)>& visit) {
    for (std::size_t b = 0; b < sequences_.size(); ++b)
      for (std::size_t t = 0; t < sequences_[b].rewards.size(); ++t) {
        const auto row = static_cast<int64_t>(b), step = static_cast<int64_t>(t);
        visit(b, t,
              packed_                         ? offsets[b] + step
              : place_.layout == Layout::rows ? row * stride() + step
                                              : step * stride() + row);
      }
  }

  const std::vector<Sequence>& sequences_;
  Placement place_;
  bool packed_;
  int64_t length_ = 0, rows_ = 0;
  std::vector<std::vector<char>> buffers_;
};

// -- oracles: append the results of one sequence to `first` and `second`

inline void gae_oracle(const Sequence& s, const Options& o, float gamma, float lambda, Pair<double>& out) {
  const auto start = out.first.size(), n = s.rewards.size();
  out.first.resize(start + n);
  out.second.resize(start + n);
  double later = 0, later_value = o.bootstrap ? s.bootstrap : 0;
  for (std::size_t t = n; t-- > 0;) {
    const bool live = !(o.mask || o.valid) || s.mask[t];
    if (live) {
      const double discount = o.gammas ? s.gammas[t] : gamma, decay = discount * (o.lambdas ? s.lambdas[t] : lambda);
      const bool cut = o.ends && s.truncated[t], end = (o.ends && s.terminated[t]) || (cut && o.cut_is_end);
      const double next = end ? 0.0 : o.next ? double{s.next[t]} : later_value;
      later = s.rewards[t] + discount * next - s.values[t] + (end || cut ? 0.0 : decay * later);
      later_value = s.values[t];
    } else if (o.valid) {
      later = later_value = 0;
    }
    const bool shown = live || (o.mask && o.carry);
    out.first[start + t] = shown ? later : 0.0;
    out.second[start + t] = shown ? later + s.values[t] : 0.0;
  }
}

inline void return_oracle(const Sequence& s, const Options& o, float gamma, bool reset, Pair<double>& out) {
  const auto start = out.second.size(), n = s.rewards.size();
  out.second.resize(start + n);
  double later = o.bootstrap ? s.bootstrap : 0;
  for (std::size_t t = n; t-- > 0;) {
    const bool live = !o.mask || s.mask[t];
    const double discount = o.gammas ? s.gammas[t] : gamma;
    const double sum = s.rewards[t] + (o.ends && s.terminated[t] ? 0.0 : discount * later);
    if (live || reset) out.second[start + t] = live || o.carry ? sum : 0.0;
    if (!live && !reset) out.second[start + t] = o.carry ? later : 0.0;
    if (live) later = sum;
    if (!live && reset) later = 0;
  }
}

}  // namespace troupe::test
