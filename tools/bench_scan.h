#pragma once
// How `troupe bench gae` and `troupe bench vtrace` measure: a case against the limit kernel, which reads two arrays and writes two,
// turn by turn in the same run. Bytes are those of the arrays given, each counted once.

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "algorithms/cpu.h"
#include "algorithms/scan_arrays.h"
#include "tools/bench.h"

namespace troupe {

// n elements from a cache line's start on, as PyTorch allocates them.
template <class T>
class LineAligned {
 public:
  explicit LineAligned(int64_t n) : size_(static_cast<std::size_t>(n)), data_(new (kLine) T[size_]()) {}
  T* data() { return data_.get(); }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[static_cast<std::ptrdiff_t>(i)]; }
  operator std::span<const T>() const { return {data_.get(), size_}; }
  operator std::span<T>() { return {data_.get(), size_}; }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Delete {
    void operator()(T* p) const { ::operator delete[](p, kLine); }
  };
  std::size_t size_;
  std::unique_ptr<T[], Delete> data_;
};

struct ScanCase {
  std::string variant;  // "plain", "masked", ...
  Layout layout = Layout::rows;
  Isa isa = Isa::sse2;
  int threads = 1;
  int64_t sequences = 0;
  int64_t steps = 0;
  double bytes = 0;           // that one run moves
  std::function<void()> run;  // once, with the instruction set already forced
};

// Numbers to compute with, of 2^n steps at most; made once for a whole benchmark.
struct ScanData {
  explicit ScanData(int64_t elements);

  LineAligned<float> rewards, values, third, fourth, first, second;
  LineAligned<uint8_t> dones;  // one in 200
  LineAligned<uint8_t> mask;   // rows of T right-padded, with a gap: see mask_rows()
};

// Measures every case for its share of `seconds` and reports them under `name`.
BenchReport bench_scan(const std::string& name, std::vector<ScanCase> cases, double seconds);

}  // namespace troupe
