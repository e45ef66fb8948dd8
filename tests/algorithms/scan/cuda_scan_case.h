#pragma once
// A scan of given shape, with its arrays at given alignments.

#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/scan_columns.h"
#include "algorithms/cuda/scan_rows.h"
#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"
#include "tests/algorithms/scan/emulated_grid.h"

namespace troupe::test {

using cuda::ScanKind;

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kUntouched = -12345.5f;

// An array whose end is the end of an allocation, so that AddressSanitizer detects reads beyond it. There is space
// before it, because a kernel reads whole aligned blocks of 16 bytes.
template <class T>
class Placed {
 public:
  Placed(std::size_t count, std::size_t misplaced, T fill)
      : memory_(new(std::align_val_t{64}) unsigned char[64 + (misplaced + count) * sizeof(T)]), count_(count) {
    data_ = reinterpret_cast<T*>(memory_.get() + 64 + misplaced * sizeof(T));
    std::uninitialized_fill_n(data_, count, fill);
  }
  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }
  const T& operator[](int64_t i) const { return data_[i]; }

 private:
  struct Free {
    void operator()(unsigned char* p) const { operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<unsigned char[], Free> memory_;
  std::size_t count_;
  T* data_;
};

// The parameters of a case; everything else is random.
struct ScanShape {
  ScanRule rule = ScanRule::gae;
  ScanKind kind = ScanKind::warp_rows;
  int64_t steps = 0;
  int64_t sequences = 0;
  bool packed = false;
  bool plain = false;        // only required inputs
  std::optional<bool> half;  // whether all arrays of numbers are bfloat16; empty = at random
  bool aligned = false;      // every array at a multiple of 64 bytes, without gaps
  float ends = 0.02f;        // fraction of steps that end an episode
  float holes = 0.2f;        // fraction of masked steps
  float gamma = 0.99f, lambda = 0.95f;
  int resident = 3;  // blocks that run at the same time
};

// A task with random arrays.
class CudaScanCase {
 public:
  CudaScanCase(const ScanShape& shape, uint64_t seed) : shape_(shape), random_(seed) {
    const bool rows = shape.kind != ScanKind::columns && shape.kind != ScanKind::column_tiles;
    task.layout = rows ? Layout::rows : Layout::time;
    task.sequences = shape.sequences;
    if (shape.packed) {
      offsets_.push_back(0);
      for (int64_t b = 0; b < shape.sequences; ++b)
        offsets_.push_back(offsets_.back() + static_cast<int64_t>(random_() % static_cast<uint64_t>(shape.steps + 1)));
      if (offsets_.back() == 0) offsets_.back() = 1;
      task.offsets = offsets_;
      row_length_ = elements_ = offsets_.back();
      row_count_ = 1;
    } else {
      task.steps = shape.steps;
      row_length_ = rows ? shape.steps : shape.sequences;
      row_count_ = rows ? shape.sequences : shape.steps;
      elements_ = row_length_ * row_count_;
    }
    task.gamma = shape.gamma;
    task.lambda = shape.lambda;
    const bool values = shape.rule != ScanRule::reward_to_go, vtrace = shape.rule == ScanRule::vtrace;
    task.reward = numbers(1);
    if (values) task.value = numbers(1);
    if (vtrace) {
      task.log_rho = numbers(0.5f);
      task.next_at_ends = true;
      task.rho_bar = chance(0.3f) ? std::numeric_limits<float>::infinity() : 1.1f;
      task.c_bar = 0.9f;
      task.pg_rho_bar = 1.2f;
      task.multiply_pg_rho = chance(0.5f);
      task.rlax_mix = chance(0.5f);
    }
    if (chance(0.7f)) {
      for (int64_t b = 0; b < shape.sequences; ++b) bootstrap_.push_back(normal());
      task.bootstrap = bootstrap_;
    }
    if (!shape.plain) add_options(values, vtrace);
    outputs_.reserve(4);
    if (shape.rule == ScanRule::gae || vtrace) task.first = output();
    task.second = output();
    plant_nan();
  }

  int64_t length(int64_t b) const {
    return shape_.packed ? offsets_[static_cast<std::size_t>(b) + 1] - offsets_[static_cast<std::size_t>(b)]
                         : task.steps;
  }
  // The index of step t of sequence b in an array with this stride.
  int64_t place(int64_t stride, int64_t b, int64_t t) const {
    if (shape_.packed) return offsets_[static_cast<std::size_t>(b)] + t;
    if (stride == kDense) stride = row_length_;
    return task.layout == Layout::rows ? b * stride + t : t * stride + b;
  }
  int64_t elements() const { return elements_; }
  OutputView output() {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 3);
    outputs_.push_back(std::make_unique<Placed<float>>(size(gap), misplaced(), kUntouched));
    return {outputs_.back()->data(), static_cast<std::size_t>(elements_), row_length_ + gap};
  }
  // The number of elements of the outputs that are not `kUntouched`.
  int64_t touched() const {
    int64_t count = 0;
    for (const auto& out : outputs_)
      for (std::size_t i = 0; i < out->size(); ++i) count += (*out)[static_cast<int64_t>(i)] != kUntouched;
    return count;
  }

  ScanTask task;

 private:
  bool chance(float p) { return std::uniform_real_distribution<float>()(random_) < p; }
  float normal() { return std::normal_distribution<float>()(random_); }
  std::size_t misplaced() { return shape_.aligned ? 0 : random_() % 17; }
  std::size_t size(int64_t gap) const {
    return row_count_ == 0 ? 0 : static_cast<std::size_t>((row_count_ - 1) * (row_length_ + gap) + row_length_);
  }

  // make(): one number for the array.
  template <class Make>
  FloatView array(bool half, Make make) {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 4);
    const std::size_t count = size(gap);
    const auto stride = row_length_ + gap;
    if (half) {
      halves_.push_back(std::make_unique<Placed<uint16_t>>(count, misplaced(), uint16_t{0}));
      for (std::size_t i = 0; i < count; ++i) (*halves_.back())[static_cast<int64_t>(i)] = half_of(make());
      return {halves_.back()->data(), Element::bfloat16, static_cast<std::size_t>(elements_), stride};
    }
    floats_.push_back(std::make_unique<Placed<float>>(count, misplaced(), 0.0f));
    for (std::size_t i = 0; i < count; ++i) (*floats_.back())[static_cast<int64_t>(i)] = make();
    return {floats_.back()->data(), Element::float32, static_cast<std::size_t>(elements_), stride};
  }
  bool half() { return shape_.half.value_or(chance(0.3f)); }
  FloatView numbers(float scale) {
    return array(half(), [&] { return scale * normal(); });
  }
  // Numbers in [0, 1], including ones and zeros.
  FloatView factors() {
    return array(half(), [&] {
      return chance(0.2f) ? 1.0f : chance(0.02f) ? 0.0f : 1 - 0.2f * std::fabs(normal()) / 5;
    });
  }
  FlagView flags(float share) {
    const int64_t gap = shape_.aligned ? 0 : static_cast<int64_t>(random_() % 4);
    flags_.push_back(std::make_unique<Placed<uint8_t>>(size(gap), misplaced(), uint8_t{0}));
    auto& flag = *flags_.back();
    for (std::size_t i = 0; i < flag.size(); ++i)
      flag[static_cast<int64_t>(i)] = chance(share) ? 1 + random_() % 255 : 0;
    return {flag.data(), static_cast<std::size_t>(elements_), row_length_ + gap};
  }

  void add_options(bool values, bool vtrace) {
    if (chance(0.5f)) task.terminated = flags(shape_.ends);
    if (chance(0.5f)) task.truncated = flags(shape_.ends);
    if (chance(0.6f)) task.mask = flags(1 - shape_.holes);
    if (task.mask.data && chance(0.5f)) blank();
    if (values && (vtrace || chance(0.4f))) task.next = numbers(1);
    if (chance(0.4f)) task.gammas = factors();
    if (values && chance(0.4f)) task.lambdas = factors();
    task.cut_is_end = chance(0.3f);
    if (!vtrace) {
      task.skip = chance(0.6f);
      task.carry_outside = task.mask.data && chance(0.4f);
    }
  }
  // Masks long runs of steps: whole tiles, and the ends of sequences.
  void blank() {
    for (int64_t b = 0; b < task.sequences; ++b) {
      const int64_t n = length(b);
      if (n == 0) continue;
      const auto from = static_cast<int64_t>(random_() % static_cast<uint64_t>(n));
      const int64_t to =
          chance(0.4f) ? n : std::min(n, from + static_cast<int64_t>(random_() % static_cast<uint64_t>(n)));
      for (int64_t t = from; t < to; ++t) const_cast<uint8_t*>(task.mask.data)[place(task.mask.stride, b, t)] = 0;
    }
  }

  static uint16_t half_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    return static_cast<uint16_t>(bits >> 16);
  }
  void put(const FloatView& view, int64_t at, float x) {
    if (view.data == nullptr) return;
    if (view.element == Element::float32) {
      static_cast<float*>(const_cast<void*>(view.data))[at] = x;
    } else {
      static_cast<uint16_t*>(const_cast<void*>(view.data))[at] = half_of(x);
    }
  }
  // Writes NaN where nothing may be read: at masked steps, and to the next value of a terminal one.
  void plant_nan() {
    if (shape_.plain || task.carry_outside) return;
    for (int64_t b = 0; b < task.sequences; ++b)
      for (int64_t t = 0; t < length(b); ++t) {
        const bool masked = task.mask.data && !task.mask.data[place(task.mask.stride, b, t)];
        if (masked)
          for (const FloatView* view : {&task.reward, &task.value, &task.gammas, &task.lambdas, &task.log_rho})
            put(*view, place(view->stride, b, t), kNaN);
        const bool terminal = task.terminated.data && task.terminated.data[place(task.terminated.stride, b, t)];
        if ((masked || terminal) && t + 1 < length(b)) put(task.next, place(task.next.stride, b, t), kNaN);
      }
  }

  ScanShape shape_;
  std::mt19937_64 random_;
  int64_t row_length_ = 0, row_count_ = 0, elements_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<float> bootstrap_;
  std::vector<std::unique_ptr<Placed<float>>> floats_, outputs_;
  std::vector<std::unique_ptr<Placed<uint16_t>>> halves_;
  std::vector<std::unique_ptr<Placed<uint8_t>>> flags_;
};

}  // namespace troupe::test
