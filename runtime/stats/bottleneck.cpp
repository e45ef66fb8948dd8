#include "runtime/stats/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr double kBusy = 0.85;          // share of time from which an actor counts as always busy
constexpr double kSaturated = 0.95;     // the same of the processors
constexpr double kMuchCredit = 0.2;     // share of time without a credit from which the lag cap holds sampling back
constexpr double kBusyTrainer = 0.1;    // wait fraction below which the trainer limits the run
constexpr double kHungryTrainer = 0.3;  // wait fraction above which sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced
constexpr double kLongUpdate = 3;       // seconds; where updates are longer, 10 s may pass without the end of one

// What would make sampling faster, by the reason for which most batches started.
std::string sampling_advice(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  if (batches == 0) return "";
  if (2 * s.batches_timeout > batches)
    return "most batches start at the timeout: more workers, or a smaller batch_size";
  if (2 * s.batches_full > batches) return "most batches start full: more inference actors, or a larger batch_size";
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
         (s.quarantined > 0 ? format_counted(s.quarantined, "row") + " in quarantine, " : "") +
         "the last: " + fitted(s.last_error, 60);
}

// Whether no samples come because environments fail. If rows are in quarantine, environments fail now. Otherwise the
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

// Speed if a part that was busy for `share` of the time could do twice as much, and the others still had to do theirs
// within theirs: at most twice, and at most what the busiest of the others allows.
double gain_of_doubling(std::initializer_list<double> others) {
  double most = 0.5;
  for (const double share : others) most = std::max(most, std::isfinite(share) ? share : 0.0);
  return 1 / most - 1;
}

std::string with_gain(const std::string& advice, const std::string& change, double gain) {
  if (!(gain >= 0.05)) return advice;
  return advice + "; " + change + ": +" + format_percent(gain);
}

Bottleneck verdict(const std::string& what, const std::string& why, const std::string& advice,
                   const std::string& change, double gain) {
  return {what, why, with_gain(advice, change, gain), gain};
}

bool knows_shares(const StatsSnapshot& s) {
  return std::isfinite(s.busy.trainer) && std::isfinite(s.busy.workers) && std::isfinite(s.busy.inference);
}

std::string busy_text(const std::string& who, double share) {
  return who + " busy " + format_percent(share) + " of the time";
}

// Sampling limits the run: which part of it?
Bottleneck sampling_by_shares(const StatsSnapshot& s) {
  const BusyShares& b = s.busy;
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  const std::string workers_advice = b.machine > kSaturated ? "more machines, or fewer threads" : "more workers";
  if (b.workers >= kBusy && b.workers >= b.inference) {
    const bool steps = b.stepping > 0.5 * b.workers;
    const std::string work = s.counts_answers ? "scoring answers" : "environment steps";
    return verdict(
        steps ? work : "workers",
        busy_text("workers are", b.workers) +
            (steps ? ", " + format_percent(b.stepping) + (s.counts_answers ? " in scores" : " in steps") : ""),
        workers_advice, "twice as many",
        b.machine > kSaturated ? kUnknown : gain_of_doubling({b.trainer, b.inference, b.machine}));
  }
  if (b.inference >= kBusy)
    return verdict("inference", busy_text("inference actors are", b.inference),
                   2 * s.batches_full > batches ? "more inference actors or a larger batch_size"
                                                : "more inference actors or a smaller model",
                   "twice as fast", gain_of_doubling({b.trainer, b.workers}));
  if (b.machine > kSaturated)
    return {"processors", busy_text("all processors are", b.machine),
            "more machines, or fewer workers and threads than processors"};
  if (2 * s.batches_timeout > batches)
    return {"batch timeout", "most batches start only after inference.timeout_us",
            "a smaller batch_size or timeout_us, or more workers"};
  return verdict("few environments", "groups wait " + format_percent(b.action_wait) + " of the time for actions",
                 "more workers or groups", "twice as many", gain_of_doubling({b.trainer, b.workers, b.inference}));
}

Bottleneck by_shares(const StatsSnapshot& s) {
  const BusyShares& b = s.busy;
  if (b.trainer >= kBusy)
    return verdict("training", busy_text("the trainer is", b.trainer), "fewer epochs, or a faster device",
                   "twice as fast", gain_of_doubling({b.workers, b.inference, b.prefetcher}));
  if (b.prefetcher >= kBusy)
    return {"batch preparation", busy_text("the prefetcher is", b.prefetcher), "a smaller super_batch or more reuse"};
  if (b.credit_wait > kMuchCredit)
    return verdict(
        "lag cap",
        "the trainer waits " + format_percent(1 - b.trainer) + " of the time, workers " + format_percent(b.credit_wait),
        "a larger replay.max_policy_lag", "without the cap", 1 / std::max({b.trainer, 1 - b.credit_wait, 0.1}) - 1);
  return sampling_by_shares(s);
}

}  // namespace

uint64_t env_failures_of(const StatsSnapshot& s) {
  uint64_t total = 0;
  for (const auto& [environment, count] : s.env_failures) total += count;
  return total;
}

// The verdict is the first of these that holds:
//   (empty)                 training has ended, so the lack of workers and inference actors is normal
//   environments fail       no samples come because environments fail; says how many failures and rows in quarantine
//   waiting for ...         there is no worker or no inference actor
//   not known yet           the first rollouts are not complete
//   no samples              none for 10 s, and the trainer has nothing to do although it was busy before: a worker may
//                           hang in a step. If the trainer has waited much since the start, the verdict is `sampling`
//   waste                   many samples are dropped
//   not known yet           the first update is not complete
//   unknown                 a deterministic run, which reports no times
//   by the shares of time that each part was busy in the last 10 s:
//     training            the trainer is always busy
//     batch preparation   the prefetcher is
//     lag cap             the trainer waits for samples while workers wait for credits, because of max_policy_lag
//     environment steps, workers, inference, processors   one of these is always busy
//     batch timeout       most batches start only after inference.timeout_us
//     few environments    nothing is always busy: requests are too few to fill the time
//   sampling, training, none   by the trainer's wait fraction since the start, before the shares are known
Bottleneck find_bottleneck(const StatsSnapshot& s) {
  if (s.training_ended) return {};
  if (environments_fail(s)) return {"environments fail", failures_text(s), ""};
  if (Bottleneck missing = missing_processes(s); !missing.what.empty()) return missing;
  if (s.env_steps == 0 && s.updates == 0) return {"not known yet", "the first rollouts are not complete", ""};
  if (nothing_comes(s) && s.trainer_wait_fraction < kHungryTrainer && !trains(s))
    return {"no samples", "none for 10 s, and no update; a worker may hang", ""};
  const uint64_t dropped = s.ledger.dropped_stale + s.ledger.dropped_full;
  if (s.ledger.produced > 0 && static_cast<double>(dropped) > kMuchDropped * static_cast<double>(s.ledger.produced))
    return {
        "waste",
        format_percent(static_cast<double>(dropped) / static_cast<double>(s.ledger.produced)) +
            " of the samples are dropped, " +
            (s.ledger.dropped_stale >= s.ledger.dropped_full ? "most as stale" : "most because the buffer was full"),
        ""};
  if (!std::isfinite(s.trainer_wait_fraction)) {
    if (s.updates == 0) return {"not known yet", "the first update is not complete", ""};
    return {"unknown", "a deterministic run does one thing at a time", ""};
  }
  if (knows_shares(s)) return by_shares(s);
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
