#include "runtime/stats/bottleneck.h"

#include <cmath>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr double kBusyTrainer = 0.1;    // below this wait fraction the trainer sets the pace,
constexpr double kHungryTrainer = 0.3;  // above this one sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced

// Why sampling is slow, by what made the batches leave.
std::string sampling_advice(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  if (batches == 0) return "";
  if (2 * s.batches_timeout > batches) return "batches leave on timeout: more workers, or a smaller batch_size";
  if (2 * s.batches_full > batches) return "batches leave full: more inference actors, or a larger batch_size";
  return "workers wait for their actions: more workers or groups";
}

bool samples(const StatsSnapshot& s) {
  return s.env_steps > 0 && (s.env_steps_per_second != 0 || s.trainer_wait_fraction < kHungryTrainer);
}

// Nothing can be sampled while one of these is missing.
Bottleneck missing_processes(const StatsSnapshot& s) {
  const bool waits_for_process = s.inference_up == 0 && s.inference_own == 0;
  if (s.workers_up == 0 && waits_for_process) return {"waiting for workers and inference", "neither is connected", ""};
  if (s.workers_up == 0) return {"waiting for workers", s.workers_total == 0 ? "none has joined" : "all have left", ""};
  if (waits_for_process) return {"waiting for an inference process", "none is connected", ""};
  if (s.inference_up == 0) return {"waiting for inference", "no inference actor is up", ""};
  return {};
}

}  // namespace

uint64_t env_failures_of(const StatsSnapshot& s) {
  uint64_t total = 0;
  for (const auto& [environment, count] : s.env_failures) total += count;
  return total;
}

Bottleneck find_bottleneck(const StatsSnapshot& s) {
  if (s.training_ended) return {};
  if (const uint64_t failures = env_failures_of(s); failures > 0 && !samples(s))
    return {"environments fail", format_count(failures) + " failures, the last: " + fitted(s.last_error, 60), ""};
  if (Bottleneck missing = missing_processes(s); !missing.what.empty()) return missing;
  if (s.env_steps == 0 && s.updates == 0) return {"not known yet", "the first rollouts are not complete", ""};
  const uint64_t dropped = s.ledger.dropped_stale + s.ledger.dropped_full;
  if (s.ledger.produced > 0 && static_cast<double>(dropped) > kMuchDropped * static_cast<double>(s.ledger.produced))
    return {"waste",
            format_percent(static_cast<double>(dropped) / static_cast<double>(s.ledger.produced)) +
                " of the samples are dropped, " +
                (s.ledger.dropped_stale >= s.ledger.dropped_full ? "most as stale" : "most for want of room"),
            ""};
  if (!std::isfinite(s.trainer_wait_fraction)) {
    if (s.updates == 0) return {"not known yet", "the first update is not complete", ""};
    return {"unknown", "a deterministic run does one thing at a time", ""};
  }
  const std::string waits = "the trainer waits " + format_percent(s.trainer_wait_fraction) + " of the time";
  if (s.trainer_wait_fraction > kHungryTrainer) return {"sampling", waits, sampling_advice(s)};
  if (s.trainer_wait_fraction < kBusyTrainer)
    return {"training", "the trainer is busy " + format_percent(1 - s.trainer_wait_fraction) + " of the time", ""};
  return {"none", "sampling and training keep pace", waits};
}

std::string text_of(const Bottleneck& b) {
  return b.what + (b.why.empty() ? "" : ": " + b.why) + (b.advice.empty() ? "" : "; " + b.advice);
}

}  // namespace troupe
