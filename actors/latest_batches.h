#pragma once
// LatestBatches: the sizes of the latest forward passes for sampling, and how long requests have waited for them. One
// thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "actors/messages/weights.h"
#include "actors/percentiles.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

class LatestBatches {
 public:
  void add(const InferenceReport& report) {
    append_bounded<int32_t>(rows_, report.batch_rows, kMost);
    append_bounded<float>(latency_us_, report.latency_us, kMost);
    changed_ = true;
  }
  // Sorts them only if some have come since.
  void fill(StatsSnapshot& s) {
    if (std::exchange(changed_, false)) {
      rows_p50_ = percentile(rows_, 0.5);
      latency_us_p50_p99_ = percentiles<float, 2>(latency_us_, {0.5, 0.99});
    }
    s.batch_size_p50 = rows_p50_;
    s.inference_p50_ms = latency_us_p50_p99_[0] / 1000;
    s.inference_p99_ms = latency_us_p50_p99_[1] / 1000;
  }

  // What deterministic runs keep over a restart: times are no part of it.
  std::vector<int32_t> save() const { return {rows_.begin(), rows_.end()}; }
  void load(const std::vector<int32_t>& rows) {
    rows_.assign(rows.begin(), rows.end());
    changed_ = true;
  }

 private:
  static constexpr size_t kMost = 8192;

  std::deque<int32_t> rows_;
  std::deque<float> latency_us_;
  bool changed_ = false;
  double rows_p50_ = kUnknown;
  std::array<double, 2> latency_us_p50_p99_{kUnknown, kUnknown};
};

}  // namespace troupe
