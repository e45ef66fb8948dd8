#include "actors/scorer_table.h"

#include <algorithm>

#include "actors/inference_counts.h"
#include "actors/percentiles.h"

namespace troupe {

namespace {

constexpr size_t kLatencies = 4096;  // the latest ones

}  // namespace

void ScorerTable::add(const InferenceReport& report) {
  if (scorers_.size() >= kMost && !scorers_.contains(report.inference_index)) return;
  InferenceReport& kept = scorers_[report.inference_index].report;
  busy_us_ += busy_between(kept, report);
  append_bounded<float>(latency_us_, report.latency_us, kLatencies);
  kept = counts_alone(report);
}

void ScorerTable::add(const ReceiverGone& gone) {
  const auto found = scorers_.find(gone.inference_index);
  if (found == scorers_.end()) return;
  found->second.gone = true;
  if (scorers_.size() < kMost) return;
  const auto oldest = std::ranges::find_if(scorers_, [](const auto& entry) { return entry.second.gone; });
  add_counts(earlier_, oldest->second.report);
  scorers_.erase(oldest);
}

uint64_t ScorerTable::up() const {
  return static_cast<uint64_t>(std::ranges::count_if(scorers_, [](const auto& entry) { return !entry.second.gone; }));
}

void ScorerTable::fill(StatsSnapshot& s) const {
  InferenceReport sum = earlier_;
  for (const auto& [index, scorer] : scorers_) add_counts(sum, scorer.report);
  s.scorers_up = up();
  s.scored_answers = sum.rows;
  s.scorer_batches = sum.batches;
  s.scorer_failures = sum.failed;
  s.scorer_p50_ms = percentile(latency_us_, 0.5) / 1000;
}

ScorerTable::Saved ScorerTable::save() const {
  Saved saved{earlier_, {}};
  for (const auto& [index, scorer] : scorers_) {
    saved.second.emplace_back(scorer.report, scorer.gone);
    saved.second.back().first.busy_us = 0;
  }
  return saved;
}

void ScorerTable::load(const Saved& saved) {
  earlier_ = saved.first;
  for (const auto& [report, gone] : saved.second) scorers_[report.inference_index] = {report, gone};
}

}  // namespace troupe
