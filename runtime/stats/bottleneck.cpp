#include "runtime/stats/bottleneck.h"

#include <cmath>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr double kBusyTrainer = 0.1;    // wait fraction below which the trainer limits the run
constexpr double kHungryTrainer = 0.3;  // wait fraction above which sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced
constexpr double kLongUpdate = 3;       // seconds; where updates are longer, 10 s may pass without the end of one

// What would make sampling faster, by the reason for which most batches left.
std::string sampling_advice(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  if (batches == 0) return "";
  if (2 * s.batches_timeout > batches) return "batches leave on timeout: more workers, or a smaller batch_size";
  if (2 * s.batches_full > batches) return "batches leave full: more inference actors, or a larger batch_size";
  return "workers wait for their actions: more workers or groups";
}

// Whether no samples have come in the last 10 s, or none since the run began. An unknown rate does not count as 0.
bool nothing_comes(const StatsSnapshot& s) { return s.env_steps == 0 || s.env_steps_per_second == 0; }

// Whether the trainer works although no samples come: it trains on what replay holds, or its updates are so long that
// none ends within 10 s. The wait fraction alone does not tell, because it is an average since the start of the run.
bool trains(const StatsSnapshot& s) {
  if (s.updates == 0 || !(s.trainer_wait_fraction < kHungryTrainer)) return false;
  const double busy_seconds = s.elapsed_seconds * (1 - s.trainer_wait_fraction);
  return s.updates_per_second != 0 || busy_seconds > kLongUpdate * static_cast<double>(s.updates);
}

std::string failures_text(const StatsSnapshot& s) {
  const uint64_t failures = env_failures_of(s);
  return format_count(failures) + (failures == 1 ? " failure, " : " failures, ") +
         (s.quarantined > 0 ? format_counted(s.quarantined, "row") + " left out now, " : "") +
         "the last: " + fitted(s.last_error, 60);
}

// Whether no samples come because environments fail. If rows are left out, environments fail now. Otherwise the
// failures may be old; while the trainer works, sampling may simply be waiting for it.
bool environments_fail(const StatsSnapshot& s) {
  return env_failures_of(s) > 0 && nothing_comes(s) && (s.quarantined > 0 || !trains(s));
}

// The verdict when there is no worker or no inference actor, without which nothing can be sampled.
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

// The verdict is the first of these that holds:
//   (empty)                 training has ended, so the lack of workers and inference actors is normal
//   environments fail       no samples come because environments fail; says how many failures and rows left out
//   waiting for ...         there is no worker or no inference actor
//   not known yet           the first rollouts are not complete
//   no samples              none for 10 s, and the trainer has nothing to do although it was busy before: a worker may
//                           hang in a step. If the trainer has waited much since the start, the verdict is `sampling`
//   waste                   many samples are dropped
//   not known yet           the first update is not complete
//   unknown                 a deterministic run, which reports no times
//   sampling, training, none   by the trainer's wait fraction
Bottleneck find_bottleneck(const StatsSnapshot& s) {
  if (s.training_ended) return {};
  if (environments_fail(s)) return {"environments fail", failures_text(s), ""};
  if (Bottleneck missing = missing_processes(s); !missing.what.empty()) return missing;
  if (s.env_steps == 0 && s.updates == 0) return {"not known yet", "the first rollouts are not complete", ""};
  if (nothing_comes(s) && s.trainer_wait_fraction < kHungryTrainer && !trains(s))
    return {"no samples", "none for 10 s, and no update; a worker may hang", ""};
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
