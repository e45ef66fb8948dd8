#include "actors/worker_table.h"

#include <algorithm>

#include "runtime/suggest.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kQuiet{5};              // a worker reports every second
constexpr std::chrono::seconds kSilent{60};            // without a report
constexpr uint64_t kMostOfWorker = uint64_t{1} << 40;  // failures or retries: a thousand in each second for 34 years
constexpr uint64_t kMostExact = uint64_t{1} << 53;     // that a checkpoint can hold as a number
constexpr size_t kErrorBytes = 300;

}  // namespace

WorkerTable::WorkerTable(const RunConfig& config, uint64_t env_failures, uint64_t retries)
    : config_(config), base_{env_failures, retries} {}

std::optional<std::string> WorkerTable::add(const WorkerReport& report, Clock::time_point now) {
  const auto rows = static_cast<uint64_t>(config_.env.rows) * static_cast<uint64_t>(config_.workers.groups);
  if (report.env_failures > kMostOfWorker) return std::to_string(report.env_failures) + " environment failures";
  if (report.retries > kMostOfWorker) return std::to_string(report.retries) + " retries";
  if (report.quarantined > rows)
    return std::to_string(report.quarantined) + " of " + std::to_string(rows) + " rows left out";
  if (!workers_.contains(report.worker)) {
    if (workers_.size() >= kApart) set_silent_apart(now);
    if (workers_.size() >= kMost) return "there are " + std::to_string(workers_.size()) + " workers already";
    if (closed_ && report.worker <= *closed_ && !silent_.contains(report.worker))
      return "it was silent for too long, its counts are closed";
    silent_.erase(report.worker);
  }
  Seen& seen = workers_[report.worker];
  WorkerReport kept = report;
  kept.partial.clear();  // counted by replay
  kept.last_error = printable(report.last_error, kErrorBytes);
  // Every report repeats the worker's last error.
  const bool new_error = kept.last_error != seen.report.last_error || kept.env_failures > seen.report.env_failures;
  if (new_error && !kept.last_error.empty()) last_error_ = kept.last_error;
  seen = {std::move(kept), now};
  return std::nullopt;
}

// A deterministic run keeps all reports: they are its state, and none comes from another process.
void WorkerTable::set_silent_apart(Clock::time_point now) {
  if (config_.deterministic || now - set_apart_at_ < kQuiet) return;
  set_apart_at_ = now;
  std::erase_if(workers_, [&](const auto& entry) {
    const auto& [id, seen] = entry;
    if (now - seen.at <= kSilent) return false;
    const Counts counts{seen.report.env_failures, seen.report.retries};
    if (counts.env_failures + counts.retries > 0) silent_[id] = counts;
    return true;
  });
  while (silent_.size() > kMost) {
    const auto first = silent_.begin();
    base_.env_failures = std::min(base_.env_failures + first->second.env_failures, kMostExact);
    base_.retries = std::min(base_.retries + first->second.retries, kMostExact);
    closed_ = std::max(closed_.value_or(0), first->first);
    silent_.erase(first);
  }
}

uint64_t WorkerTable::total(uint64_t Counts::* count) const {
  uint64_t sum = base_.*count;
  for (const auto& [id, counts] : silent_) sum += counts.*count;
  for (const auto& [id, seen] : workers_) sum += Counts{seen.report.env_failures, seen.report.retries}.*count;
  return std::min(sum, kMostExact);
}

uint64_t WorkerTable::quarantined(Clock::time_point now) const {
  uint64_t rows = 0;
  for (const auto& [id, seen] : workers_)
    if (now - seen.at <= kQuiet) rows += seen.report.quarantined;
  return rows;
}

WorkerTable::Saved WorkerTable::save(Clock::time_point now) const {
  Saved reports;
  for (const auto& [id, seen] : workers_) {
    reports.emplace_back(seen.report, (now - seen.at).count());
    reports.back().first.rss_bytes = 0;
  }
  return reports;
}

void WorkerTable::load(const Saved& reports, const std::string& last_error, Clock::time_point now) {
  base_ = {};  // in the reports
  last_error_ = last_error;
  for (const auto& [report, age] : reports) workers_[report.worker] = {report, now - Clock::duration(age)};
}

}  // namespace troupe
