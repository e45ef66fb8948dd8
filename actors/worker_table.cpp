#include "actors/worker_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kQuiet{5};              // a worker reports every second
constexpr std::chrono::seconds kSilent{60};            // without a report
constexpr uint64_t kMostOfWorker = uint64_t{1} << 40;  // failures or retries: 1000 per second for 34 years
constexpr uint64_t kMostExact = uint64_t{1} << 53;     // largest integer that a checkpoint's JSON number holds exactly
constexpr double kSpreadUs = 10e6;                     // time constant of the shares that compare workers
constexpr size_t kStatusErrorBytes = 300;
constexpr uint64_t kSuccess = 65536;  // PromptFigures::success of a prompt that is always answered right

constexpr uint64_t VerifierFigures::* kVerifierFigures[] = {
    &VerifierFigures::calls,   &VerifierFigures::failed_calls,  &VerifierFigures::restarts,
    &VerifierFigures::scored,  &VerifierFigures::busy_us,       &VerifierFigures::wait_us,
    &VerifierFigures::replied, &VerifierFigures::failed_replies};

}  // namespace

WorkerTable::WorkerTable(const RunConfig& config, uint64_t env_failures, uint64_t retries)
    : config_(config), base_{{}, env_failures, retries} {}

std::optional<std::string> WorkerTable::add(const WorkerReport& report, Clock::time_point now) {
  const auto rows = static_cast<uint64_t>(config_.env.rows) * static_cast<uint64_t>(config_.workers.groups);
  if (report.env_failures > kMostOfWorker) return std::to_string(report.env_failures) + " environment failures";
  if (report.retries > kMostOfWorker) return std::to_string(report.retries) + " retries";
  for (const auto figure : kVerifierFigures)
    if (report.verifier.*figure > kMostExact)
      return "a figure of its verifier of " + std::to_string(report.verifier.*figure);
  if (report.quarantined > rows)
    return std::to_string(report.quarantined) + " of " + std::to_string(rows) + " rows in quarantine";
  const PromptFigures& p = report.prompts;
  if (p.asked > kMostOfWorker || std::max(p.solved, p.never_right) > p.asked || p.success > p.asked * kSuccess)
    return "figures of " + std::to_string(p.asked) + " prompts that are impossible";
  if (!workers_.contains(report.worker)) {
    if (workers_.size() >= kApart) set_silent_apart(now);
    if (workers_.size() >= kMost) return "already " + std::to_string(workers_.size()) + " workers";
    workers_[report.worker].closed = closed_of(report);
    silent_.erase(report.worker);
  }
  Seen& seen = workers_[report.worker];
  WorkerReport kept = report;
  kept.partial.clear();  // not needed here: replay counts it
  kept.times = {};
  kept.last_error = printable(report.last_error, kStatusErrorBytes);
  // Every report repeats the worker's last error, so an old one must not replace a newer one of another worker.
  const bool new_error = kept.last_error != seen.report.last_error || kept.env_failures > seen.report.env_failures;
  if (new_error && !kept.last_error.empty()) last_error_ = kept.last_error;
  add_times(kept, seen, now);
  seen.report = std::move(kept);
  seen.at = now;
  return std::nullopt;
}

// A report of another process may contain any number, so no worker adds more time than has passed since its report
// before, and the first report adds none.
void WorkerTable::add_times(const WorkerReport& report, Seen& seen, Clock::time_point now) {
  if (seen.at == Clock::time_point()) return;
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(now - seen.at).count();
  const auto added = [&](uint64_t WorkerReport::* time) {
    const uint64_t total = report.*time, earlier = seen.report.*time;
    return total > earlier ? std::min(total - earlier, static_cast<uint64_t>(passed)) : 0;
  };
  const uint64_t busy = added(&WorkerReport::busy_us), credit_wait = added(&WorkerReport::credit_wait_us);
  times_.covered += static_cast<uint64_t>(std::max<int64_t>(passed, 0));
  times_.busy += busy;
  times_.step += added(&WorkerReport::step_us);
  times_.credit_wait += credit_wait;
  times_.action_wait += added(&WorkerReport::action_wait_us);
  if (passed <= 0) return;
  const double weight = 1 - std::exp(-static_cast<double>(passed) / kSpreadUs);
  const auto blend = [&](double& share, uint64_t time) {
    const double newest = static_cast<double>(time) / static_cast<double>(passed);
    share = std::isfinite(share) ? share + weight * (newest - share) : newest;
  };
  blend(seen.busy, busy);
  blend(seen.credit_wait, credit_wait);
}

void WorkerTable::fill_spread(RecentFigures& recent, Clock::time_point now) const {
  std::vector<std::pair<double, double>> shares;
  for (const auto& [id, seen] : workers_)
    if (now - seen.at <= kQuiet && std::isfinite(seen.busy)) shares.emplace_back(seen.busy, seen.credit_wait);
  if (shares.size() < 2) return;
  const auto busiest = std::ranges::max_element(shares);
  recent.busiest_worker = busiest->first;
  shares.erase(busiest);
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::ranges::nth_element(shares, middle);
  recent.other_workers = middle->first;
  recent.others_wait = middle->second;
}

// The part of a worker's counts that base_ already includes, when the worker reports for the first time or after a
// silence. If the worker is unknown and its number is not above closed_, base_ may include its counts, so all of them
// are treated as included: they must not be counted twice.
WorkerTable::Counts WorkerTable::closed_of(const WorkerReport& report) const {
  if (const auto it = silent_.find(report.worker); it != silent_.end()) return it->second.closed;
  return closed_ && report.worker <= *closed_ ? counts_of(report) : Counts{};
}

WorkerTable::Counts WorkerTable::counts_of(const WorkerReport& report) {
  return {report.verifier, report.env_failures, report.retries};
}

// The counts of one worker that base_ does not include.
uint64_t WorkerTable::open(const Counts& counts, const Counts& closed, uint64_t Counts::* count) {
  return counts.*count - std::min(counts.*count, closed.*count);
}

// A deterministic run keeps all reports: they are part of its state, and there are few, because it has no workers in
// other processes.
void WorkerTable::set_silent_apart(Clock::time_point now) {
  if (config_.deterministic || now - set_apart_at_ < kQuiet) return;
  set_apart_at_ = now;
  std::erase_if(workers_, [&](const auto& entry) {
    const auto& [id, seen] = entry;
    if (now - seen.at <= kSilent) return false;
    silent_[id] = {counts_of(seen.report), seen.closed};
    return true;
  });
  while (silent_.size() > kMost) {
    const auto first = silent_.begin();
    const auto close = [&](uint64_t Counts::* count) {
      base_.*count = std::min(base_.*count + open(first->second.counts, first->second.closed, count), kMostExact);
    };
    close(&Counts::env_failures);
    close(&Counts::retries);
    for (const auto figure : kVerifierFigures) close(figure);
    closed_ = std::max(closed_.value_or(0), first->first);
    silent_.erase(first);
  }
}

uint64_t WorkerTable::total(uint64_t Counts::* count) const {
  uint64_t sum = base_.*count;
  const auto add = [&](uint64_t more) { sum = std::min(sum + more, kMostExact); };
  for (const auto& [id, silent] : silent_) add(open(silent.counts, silent.closed, count));
  for (const auto& [id, seen] : workers_) add(open(counts_of(seen.report), seen.closed, count));
  return sum;
}

VerifierFigures WorkerTable::verifier() const {
  VerifierFigures sum;
  for (const auto figure : kVerifierFigures) sum.*figure = total(figure);
  return sum;
}

uint64_t WorkerTable::quarantined(Clock::time_point now) const {
  uint64_t rows = 0;
  for (const auto& [id, seen] : workers_)
    if (now - seen.at <= kQuiet) rows += seen.report.quarantined;
  return rows;
}

void WorkerTable::fill(StatsSnapshot& snapshot, Clock::time_point now) const {
  snapshot.request_retries = retries();
  snapshot.quarantined = quarantined(now);
  snapshot.last_error = last_error_;
  if (!config_.task.verifier.empty() || !config_.task.reply.empty()) snapshot.verifier = verifier();
  snapshot.prompts = prompts();
}

std::optional<PromptSummary> WorkerTable::prompts() const {
  if (config_.task.sampling != "failure_weighted") return std::nullopt;
  PromptFigures sum;
  for (const auto& [id, seen] : workers_) {
    const PromptFigures& of_worker = seen.report.prompts;
    sum.asked += of_worker.asked;
    sum.success += of_worker.success;
    sum.solved += of_worker.solved;
    sum.never_right += of_worker.never_right;
  }
  if (sum.asked == 0) return PromptSummary();
  const auto share = [&](uint64_t part) { return static_cast<double>(part) / static_cast<double>(sum.asked); };
  return PromptSummary{.asked = sum.asked,
                       .success = share(sum.success) / static_cast<double>(kSuccess),
                       .solved = share(sum.solved),
                       .never_right = share(sum.never_right)};
}

WorkerTable::Memory WorkerTable::memory(Clock::time_point now) const {
  Memory sum;
  for (const auto& [id, seen] : workers_) {
    if (now - seen.at > kQuiet) continue;
    sum.workers += seen.report.rss_bytes;
    sum.environments += seen.report.environment_bytes;
    sum.verifiers += seen.report.verifier_bytes;
  }
  return sum;
}

WorkerTable::Saved WorkerTable::save(Clock::time_point now) const {
  Saved reports;
  for (const auto& [id, seen] : workers_) {
    reports.emplace_back(seen.report, (now - seen.at).count());
    WorkerReport& report = reports.back().first;
    report.rss_bytes = report.environment_bytes = report.verifier_bytes = 0;
    report.busy_us = report.step_us = report.credit_wait_us = report.action_wait_us = 0;
  }
  return reports;
}

void WorkerTable::load(const Saved& reports, const std::string& last_error, Clock::time_point now) {
  base_ = {};  // the restored reports include these counts
  last_error_ = last_error;
  for (const auto& [report, age] : reports) workers_[report.worker] = {report, now - Clock::duration(age), {}};
}

}  // namespace troupe
