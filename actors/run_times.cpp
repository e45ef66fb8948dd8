#include "actors/run_times.h"

#include <stdexcept>

#include "actors/experience/common/state_bytes.h"

namespace troupe {

void RunTimes::add(const InferenceReport& report) {
  if (!report.batch_rows.empty())
    for (const int32_t rows : report.batch_rows.view<int32_t>()) histograms_.batch_rows.add(rows);
  if (!report.latency_us.empty())
    for (const float latency : report.latency_us.view<float>()) histograms_.inference_seconds.add(1e-6 * latency);
}

std::optional<std::string> RunTimes::add(const WorkerReport& report) {
  const bool steps = histograms_.step_seconds.add(report.times.step_seconds);
  const bool answers = histograms_.answer_seconds.add(report.times.answer_seconds);
  return steps && answers ? std::nullopt : std::optional<std::string>("its times are impossible");
}

void RunTimes::add(const ReplayReport& report) {
  for (const LagCounts& lags : report.lags)
    for (const auto& [lag, samples] : lags) histograms_.lag.add(static_cast<double>(lag), samples);
}

void RunTimes::add(const UpdateMessage& update) { histograms_.update_seconds.add(update.update_seconds); }

std::string RunTimes::save() const { return to_bytes(histograms_.lag.counts(), histograms_.batch_rows.counts()); }

void RunTimes::load(const std::string& bytes) {
  HistogramCounts lag, batch_rows;
  from_bytes(bytes, "histograms", lag, batch_rows);
  histograms_ = {};
  if (!histograms_.lag.add(lag) || !histograms_.batch_rows.add(batch_rows))
    throw std::runtime_error("histograms: their saved counts are impossible");
}

}  // namespace troupe
