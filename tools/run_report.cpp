#include "tools/run_report.h"

#include <cmath>
#include <cstdio>
#include <iostream>

#include <nlohmann/json.hpp>

#include "runtime/log.h"
#include "runtime/process_stats.h"

namespace troupe {

namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json ledger_of(const StatsSnapshot& s) {
  return {{"produced", s.produced},           {"trained", s.trained},
          {"dropped_stale", s.dropped_stale}, {"dropped_full", s.dropped_full},
          {"lost_in_crash", s.lost_in_crash}, {"waiting", s.waiting}};
}

}  // namespace

RunReport::RunReport(RunFolder& folder, StatsSocket* socket, const RunConfig& config)
    : folder_(folder), socket_(socket), config_(config) {}

void RunReport::save(const Checkpoint& checkpoint) {
  Checkpoint complete = checkpoint;
  const Json ledger = ledger_of(last_);
  for (const auto& [name, value] : ledger.items()) complete.scalars["ledger." + name] = value.get<double>();
  folder_.checkpoints().save(checkpoint.updates, complete);
  folder_.checkpoints().prune(static_cast<uint64_t>(config_.checkpoint.keep));
}

void RunReport::report(const StatsSnapshot& snapshot) {
  last_ = snapshot;
  std::printf("%6.1fs  steps %llu  %.0f/s  updates %llu  return %.1f  lag %.0f  wait %.2f  dropped %llu\n", snapshot.elapsed_seconds,
              static_cast<unsigned long long>(snapshot.env_steps), snapshot.env_steps_per_second,
              static_cast<unsigned long long>(snapshot.updates), snapshot.return_mean, snapshot.lag_max,
              snapshot.trainer_wait_fraction, static_cast<unsigned long long>(snapshot.dropped_stale + snapshot.dropped_full));
  std::fflush(stdout);
}

void RunReport::finish(const RunOutcome& outcome, double wall_seconds) {
  Json summary{{"env", config_.env.id}, {"seed", config_.seed}, {"reason", outcome.reason}, {"wall_seconds", wall_seconds}};
  if (!outcome.error.empty()) summary["error"] = outcome.error;
  summary["seconds_to_first_update"] = number(last_.seconds_to_first_update);
  summary["env_steps"] = last_.env_steps;
  summary["env_steps_per_second"] = number(static_cast<double>(last_.env_steps) / last_.elapsed_seconds);
  summary["updates"] = last_.updates;
  if (outcome.evaluation) {
    const Evaluation& e = *outcome.evaluation;
    summary["eval"] = {{"episodes", e.episodes},
                       {"return_mean", number(e.return_mean)},
                       {"return_std", number(e.return_std)},
                       {"success_rate", number(e.success_rate)},
                       {"length_mean", number(e.length_mean)},
                       {"version", e.version.number}};
  }
  summary["lag"] = {{"p50", number(last_.lag_p50)}, {"p95", number(last_.lag_p95)}, {"max", number(last_.lag_max)}};
  summary["ledger"] = ledger_of(last_);
  summary["trainer_wait_fraction"] = number(last_.trainer_wait_fraction);
  summary["peak_rss_bytes"] = peak_resident_bytes();
  folder_.write_summary(summary.dump(2) + "\n");
  std::cout << summary.dump(2) << std::endl;
}

}  // namespace troupe
