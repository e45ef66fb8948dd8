#pragma once
// How `troupe bench gae` and `troupe bench vtrace` measure: a case alternates with the limit kernel, which reads two
// arrays and writes two. The bytes of a case are those of its arrays, each counted once.

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "algorithms/common/cpu.h"
#include "algorithms/scan/scan_arrays.h"
#include "tools/bench/bench.h"

namespace troupe {

// n elements that start at a cache line, as PyTorch allocates them.
template <class T>
class LineAligned {
 public:
  explicit LineAligned(int64_t n) : data_(new(kLine) T[static_cast<std::size_t>(n)]()) {}
  T* get() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Delete {
    void operator()(T* p) const { ::operator delete[](p, kLine); }
  };
  std::unique_ptr<T[], Delete> data_;
};

// The arrays of the cases: numbers, flags, and two results.
class ScanData {
 public:
  explicit ScanData(int64_t elements);

  FloatView floats(int which, int64_t n) const {
    return {arrays_[static_cast<std::size_t>(which)].get(), Element::float32, static_cast<std::size_t>(n)};
  }
  OutputView output(int which, int64_t n) const {
    return {arrays_[static_cast<std::size_t>(kInputs + which)].get(), static_cast<std::size_t>(n)};
  }
  FlagView dones(int64_t n) const { return {dones_.get(), static_cast<std::size_t>(n)}; }  // one in 200
  // Answers of half to full length, right-padded, 10 % of each masked in the middle. Valid until the next call with
  // this layout.
  FlagView mask(int64_t sequences, int64_t steps, Layout layout);

 private:
  static constexpr int kInputs = 4, kOutputs = 2;
  std::vector<LineAligned<float>> arrays_;
  LineAligned<uint8_t> dones_, masks_[2];  // of each layout
};

struct ScanCase {
  std::string variant = "plain";
  Layout layout = Layout::rows;
  Isa isa = Isa::sse2;
  int threads = 1;
  int64_t sequences = 0;
  int64_t steps = 0;
  double bytes = 0;           // of one run
  std::function<void()> run;  // once

  int64_t elements() const { return sequences * steps; }
};

// Cases whose `bytes` and `run` are not set: every layout, instruction set and number of threads (1 and all) over
// sequence length, larger than the caches; then each layout and instruction set in the second-level cache.
std::vector<ScanCase> scan_sweep();
// Cases of `variant` in both layouts, larger than the caches, one thread, best instruction set.
std::vector<ScanCase> scan_variant(const std::string& variant);
inline constexpr int64_t kScanElements = int64_t{1} << 22;  // of the largest case: 16 MB per array

// Measures every case for its share of `seconds`.
BenchReport bench_scan(const std::vector<ScanCase>& cases, const ScanData& data, double seconds);

}  // namespace troupe
