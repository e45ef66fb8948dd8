#include "actors/experience/common/server.h"

#include <utility>

#include "actors/experience/common/state_bytes.h"

namespace troupe {

namespace {

constexpr size_t kMostLatencies = 4096;  // kept between two reports

}  // namespace

void Server::note_batch(int64_t rows, Clock::duration latency) {
  ++counts_.batches;
  counts_.rows += static_cast<uint64_t>(rows);
  if (batch_rows_.size() >= kMostLatencies) return;
  batch_rows_.push_back(static_cast<int32_t>(rows));
  latency_us_.push_back(std::chrono::duration<float, std::micro>(latency).count());
}

InferenceReport Server::take_report() {
  InferenceReport report = counts_;
  report.batch_rows = Array::of(std::exchange(batch_rows_, {}));
  report.latency_us = Array::of(std::exchange(latency_us_, {}));
  return report;
}

std::string Server::save() const {
  TROUPE_CHECK(requests() == 0, requests());
  const InferenceReport& c = counts_;
  return to_bytes(c.batches, c.rows, c.full, c.timeout, c.all_waiting, c.failed, c.mixed_answers, c.recomputed,
                  c.waited_steps, c.histories, c.reused);
}

void Server::load_counts(const std::string& bytes, const std::string& whose) {
  InferenceReport& c = counts_;
  from_bytes(bytes, whose, c.batches, c.rows, c.full, c.timeout, c.all_waiting, c.failed, c.mixed_answers, c.recomputed,
             c.waited_steps, c.histories, c.reused);
}

}  // namespace troupe
