#include "runtime/stats/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/text_format.h"
#include "runtime/stats/batch_starts.h"
#include "runtime/stats/exchange_verdict.h"
#include "runtime/stats/expected_gain.h"
#include "runtime/stats/processor_use.h"

namespace troupe {

namespace {

constexpr double kBusy = 0.85;          // share of time from which a part counts as always busy
constexpr double kMuchWaiting = 0.2;    // share of time for which groups of environments wait
constexpr double kBusyTrainer = 0.1;    // wait fraction below which the trainer limits the run
constexpr double kHungryTrainer = 0.3;  // wait fraction above which sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced
constexpr double kMuchFiltered = 0.5;   // of the answers produced
constexpr double kLongSeconds = 3;      // of an update: the share of 10 s does not tell how busy the trainer is
constexpr double kLongUpdate = 3;       // times the longest of the last updates: the next one may take as long

constexpr double kMostWaiting = 0.8;  // share of time for which groups wait, however slow the processors are
constexpr double kMostLost = 0.4;     // of a part's time, to other programs, which then limit the run
constexpr double kLeastLost = 0.05;   // that is worth a remark

constexpr double kIdleOthers = 0.5;  // share of time for which the other workers of a straggler are busy at most

constexpr const char *kTrainerWaits = "trainer", *kWorkersWait = "workers";  // that wait

// The rest of a verdict.
Bottleneck with(Bottleneck verdict, Resource resource, double share = kUnknown, const char* waits = "") {
  verdict.resource = resource;
  verdict.share = share;
  verdict.waits = waits;
  return verdict;
}

// What would make sampling faster, by the reason for which most batches started.
std::string sampling_advice(const StatsSnapshot& s) {
  const RecentFigures& r = s.recent;
  if (batches_of(r) == 0) return "";
  if (most_start_at_timeout(r)) return "batches start at the timeout: more workers, or a smaller batch_size";
  if (most_start_full(r)) return "batches start full: more inference actors, or a larger batch_size";
  if (groups_take_no_turns(s)) return "batches wait for all groups: more groups, and a smaller batch_size";
  return "groups wait for their actions: more groups or workers";
}

// Whether no samples have come in the last 10 s, or none since the run began. An unknown rate does not count as 0.
bool nothing_comes(const StatsSnapshot& s) { return s.env_steps == 0 || s.env_steps_per_second == 0; }

// The verdict when training waits much of the time because as many evaluations are open as may be. While none of them
// ends for 10 s, there is neither a sample nor an update.
Bottleneck open_evaluations(const StatsSnapshot& s) {
  const bool waits = s.recent.evaluation_wait > kMuchWaiting;
  const bool holds = s.evaluating && s.evaluating->holds_training;
  if (!waits && !(holds && (nothing_comes(s) || s.busy.credit_wait > kMuchWaiting))) return {};
  return with(
      {"evaluations",
       waits ? "training waits " + format_percent(s.recent.evaluation_wait) + " of the time for open evaluations"
             : "training waits for " + format_counted(s.evaluating->waiting + 1, "open evaluation"),
       "a larger evaluation.every_updates or fewer evaluation.episodes"},
      Resource::evaluation, s.recent.evaluation_wait, kTrainerWaits);
}

// The verdict when training waits much of the time for the disk.
Bottleneck open_checkpoints(const StatsSnapshot& s) {
  if (!(s.recent.checkpoint_wait > kMuchWaiting)) return {};
  return with(
      {"checkpoints", "training waits " + format_percent(s.recent.checkpoint_wait) + " of the time for the disk",
       "a larger checkpoint.every_updates, or evaluation.every_updates with checkpoint.keep_best"},
      Resource::disk, s.recent.checkpoint_wait, kTrainerWaits);
}

// Whether the trainer works although no samples come: it trains on what replay holds, or its updates are so long that
// none ends within 10 s.
bool trains(const StatsSnapshot& s) {
  if (s.updates == 0) return false;
  return s.updates_per_second != 0 || s.recent.since_update < kLongUpdate * s.recent.longest_update;
}

std::string failures_text(const StatsSnapshot& s) {
  const uint64_t failures = s.recent.env_failures;
  std::string text;
  if (failures > 0) text = format_counted(failures, "failure") + " in the last minute, ";
  if (s.quarantined > 0) text += format_counted(s.quarantined, "row") + " in quarantine, ";
  return text + "the last: " + fitted(s.last_error, 60);
}

// Whether no samples come because environments fail. If rows are in quarantine, environments fail now. Otherwise the
// failures may be over; while the trainer works, sampling may simply be waiting for it.
bool environments_fail(const StatsSnapshot& s) {
  return nothing_comes(s) && (s.quarantined > 0 || (s.recent.env_failures > 0 && !trains(s)));
}

// The verdict when there is no worker or no inference actor, without which nothing can be sampled.
Bottleneck missing_processes(const StatsSnapshot& s) {
  const bool waits_for_process = s.inference_up == 0 && s.inference_own == 0;
  const bool starting = s.workers_up == 0 && s.workers_starting > 0;
  if (s.workers_up == 0 && !starting && waits_for_process)
    return with({"waiting for workers and inference", "neither is connected"}, Resource::workers);
  if (starting && !waits_for_process)
    return with({s.words->starting, format_counted(s.workers_starting, "worker") +
                                        (s.workers_starting == 1 ? " is" : " are") + " not ready yet"},
                Resource::workers);
  if (s.workers_up == 0 && !starting)
    return with({"waiting for workers", s.workers_total == 0 ? "none has joined" : "all have left"}, Resource::workers);
  if (waits_for_process) return with({"waiting for an inference process", "none is connected"}, Resource::inference);
  if (s.inference_up == 0) return with({"waiting for inference", "no inference actor is up"}, Resource::inference);
  if (s.needs_scorers && s.scorers_up == 0)
    return with({"waiting for a scorer", "none is up", "troupe scorer adds one"}, Resource::scorers);
  if (s.waits_for_ranks)
    return with({"waiting for ranks",
                 format_count(s.ranks_up) + " of " + format_count(s.ranks_total) + (s.ranks_up == 1 ? " is" : " are") +
                     " there",
                 "troupe rank adds one"},
                Resource::exchange);
  return {};
}

// The verdict when many of the samples of the last minute were dropped, or most of the answers filtered.
Bottleneck waste(const RecentFigures& r) {
  const auto produced = static_cast<double>(r.produced),
             dropped = static_cast<double>(r.dropped_stale + r.dropped_full);
  if (r.produced == 0) return {};
  if (const double filtered = static_cast<double>(r.filtered) / produced; filtered > kMuchFiltered)
    return with({"waste", format_percent(std::min(filtered, 1.0)) + " of the answers of the last minute are filtered",
                 "prompts that are right at times, or a larger generation.answers"},
                Resource::waste);
  if (dropped <= kMuchDropped * produced) return {};
  return with(
      {"waste", format_percent(std::min(dropped / produced, 1.0)) + " of the samples of the last minute are dropped, " +
                    (r.dropped_stale >= r.dropped_full ? "most as stale" : "most because the buffer was full")},
      Resource::waste);
}

bool knows_shares(const StatsSnapshot& s) {
  return std::isfinite(s.busy.trainer) && std::isfinite(s.busy.workers) && std::isfinite(s.busy.inference);
}

std::string busy_text(const std::string& who, double share) {
  return who + " busy " + format_percent(share) + " of the time";
}

// The verdict when other programs use much of a machine without a free processor.
Bottleneck other_programs(const BusyShares& b) {
  const double lost = wait_for_processors(b);
  return with({"processors (other programs)",
               "all busy " + format_percent(b.machine) + ", " + format_percent(used_by_others(b)) + " by others",
               std::isfinite(lost)
                   ? "fewer other programs, which slow it by up to " + format_percent(lost) + ", or more machines"
                   : "fewer other programs on this machine, or more machines"},
              Resource::oversubscribed, b.machine);
}

// Nothing when processors are left.
Bottleneck all_processors(const BusyShares& b) {
  if (!no_processor_left(b)) return {};
  if (many_others(b)) return other_programs(b);
  return with({"processors", busy_text("all processors are", b.machine),
               "more machines, or fewer workers and threads than processors"},
              Resource::machine, b.machine);
}

// The verdict when one worker works all the time and the others wait for it: updates need its rollouts.
Bottleneck one_worker(const StatsSnapshot& s) {
  const RecentFigures& r = s.recent;
  if (!(r.busiest_worker >= kBusy && r.other_workers < kIdleOthers && r.others_wait > kMuchWaiting)) return {};
  return with({"a slow worker",
               "one is busy " + format_percent(r.busiest_worker) + " of the time, the others wait " +
                   format_percent(r.others_wait),
               "look at its machine and its environment, or leave it out"},
              Resource::straggler, r.busiest_worker, kWorkersWait);
}

Bottleneck busy_workers(const StatsSnapshot& s) {
  const BusyShares& b = s.busy;
  const bool steps = b.stepping > 0.5 * b.workers;
  return with({steps ? s.words->work : "workers",
               busy_text("workers are", b.workers) +
                   (steps ? ", " + format_percent(b.stepping) + " in " + s.words->in_work : ""),
               run_fills_processors(b) ? "more machines, or fewer threads"
               : steps && s.verifier   ? "a larger task.verifier_processes, or more workers"
                                       : "more workers"},
              steps ? Resource::env_stepping : Resource::workers, steps ? b.stepping : b.workers, kTrainerWaits);
}

Bottleneck busy_inference(const StatsSnapshot& s, bool full) {
  const bool no_processor = run_fills_processors(s.busy);
  return with({"inference", busy_text("inference actors are", s.busy.inference),
               no_processor ? "more machines, or a smaller model"
               : full       ? "more inference actors or a larger batch_size"
                            : "more inference actors or a smaller model"},
              full ? Resource::batch_size : Resource::inference, s.busy.inference, kTrainerWaits);
}

// Sampling limits the run: which part of it?
Bottleneck sampling_by_shares(const StatsSnapshot& s) {
  const BusyShares& b = s.busy;
  const RecentFigures& r = s.recent;
  if (b.workers >= kBusy && b.workers >= b.inference) return busy_workers(s);
  if (b.inference >= kBusy) return busy_inference(s, most_start_full(r));
  if (b.scorers >= kBusy)
    return with(
        {"scorers", busy_text("scorers are", b.scorers),
         run_fills_processors(b) ? "more machines for processes of troupe scorer" : "more processes of troupe scorer"},
        Resource::scorers, b.scorers, kTrainerWaits);
  // Where nearly all time passes between the steps, there are too few of them at once also for slow processors.
  const bool too_few = many_others(b) && b.action_wait > kMostWaiting;
  if (Bottleneck full = all_processors(b); !full.what.empty() && !too_few) return full;
  if (most_start_at_timeout(r))
    return with({"batch timeout", "most batches start only after inference.timeout_us",
                 "a smaller batch_size or timeout_us, or more workers"},
                Resource::deadline, b.action_wait, kWorkersWait);
  if (b.action_wait > kMuchWaiting)
    return with({s.words->few, "groups wait " + format_percent(b.action_wait) + " of the time for actions",
                 groups_take_no_turns(s) ? s.words->take_turns : s.words->more},
                Resource::workers, b.action_wait, kTrainerWaits);
  return with({"none", "no part is busy all the time"}, Resource::none);
}

// The trainer's share of time. The time of an update counts when it ends.
double trainer_share(const StatsSnapshot& s) {
  const bool counted = !(s.recent.longest_update > kLongSeconds) || !std::isfinite(s.recent.trainer_wait);
  return counted ? s.busy.trainer : 1 - s.recent.trainer_wait;
}

// Groups wait for credits although the trainer is not busy: because of the cap, if samples are as old as it allows.
Bottleneck waiting_for_credits(const StatsSnapshot& s) {
  const std::string waits = format_percent(s.busy.credit_wait);
  if (s.lag_max >= static_cast<double>(s.lag_cap))
    return with(
        {"lag cap", "the trainer waits " + format_percent(1 - trainer_share(s)) + " of the time, workers " + waits,
         "a larger replay.max_policy_lag"},
        Resource::lag_cap, s.busy.credit_wait, kTrainerWaits);
  return with({"credits", "workers wait " + waits + " of the time for the replay buffer"}, Resource::replay,
              s.busy.credit_wait, kWorkersWait);
}

// The verdict when one of the parts after sampling is always busy: the busiest of them.
Bottleneck busy_training(const StatsSnapshot& s) {
  const BusyShares& b = s.busy;
  const double replay = std::isfinite(b.replay) ? b.replay : 0,
               prefetcher = std::isfinite(b.prefetcher) ? b.prefetcher : 0;
  const double trainer = trainer_share(s), busiest = std::max({trainer, prefetcher, replay});
  if (busiest < kBusy) return {};
  const char* const waits = b.credit_wait > kMuchWaiting ? kWorkersWait : "";
  if (busiest == trainer)
    return with({"training", busy_text("the trainer is", trainer),
                 (s.several_epochs ? "fewer epochs, or " : "") + std::string(s.words->trains_faster)},
                Resource::trainer, trainer, waits);
  if (busiest == prefetcher)
    return with(
        {"batch preparation", busy_text("the prefetcher is", prefetcher), "a smaller super_batch or more reuse"},
        Resource::prefetcher, prefetcher, kTrainerWaits);
  return with({"replay buffer", busy_text("the replay buffer is", replay)}, Resource::replay, replay, waits);
}

// How many threads have the part of a verdict.
double actors_of(const StatsSnapshot& s, Resource resource) {
  if (resource == Resource::scorers) return static_cast<double>(s.scorers_up);
  if (resource == Resource::straggler) return 1;
  const std::string_view part = limit_of(resource);
  return part == "workers"     ? static_cast<double>(s.workers_up)
         : part == "inference" ? static_cast<double>(s.inference_up)
                               : 1;
}

// Of the time of the part of a verdict, the share that other programs take from it, at most; unknown where nobody
// knows how long the run waits for processors.
double lost_to_others(const StatsSnapshot& s, const Bottleneck& verdict) {
  double lost = wait_for_processors(s.busy);
  const auto at_most = [&](double share) {
    if (share < lost) lost = std::max(share, 0.0);
  };
  // Not more than the run waits altogether: a part that sleeps does not wait.
  at_most(s.busy.threads_waiting / (actors_of(s, verdict.resource) * verdict.share));
  // Steps of which none is much shorter than the others are that long.
  if (verdict.resource == Resource::env_stepping)
    at_most(1 - s.histograms.step_seconds.percentile(0.1) / s.stages.env_step);
  return lost;
}

// The verdict on a run beside other programs, where the one without them is given: that part limits it as long as it
// has most of its time for itself, or has too little to do at once.
Bottleneck beside_others(const StatsSnapshot& s, Bottleneck part) {
  if (part.resource == Resource::oversubscribed) return part;
  const bool set_so = part.resource == Resource::batch_size || part.what == s.words->few;
  const double lost = set_so ? wait_for_processors(s.busy) : lost_to_others(s, part);
  if (!set_so && !(lost < kMostLost)) return other_programs(s.busy);
  if (lost > kLeastLost) part.advice += "; other programs slow it by up to " + format_percent(lost);
  return part;
}

Bottleneck part_by_shares(const StatsSnapshot& s) {
  if (Bottleneck ranks = exchange_verdict(s); !ranks.what.empty()) return ranks;
  if (Bottleneck busy = busy_training(s); !busy.what.empty()) return busy;
  if (Bottleneck slow = one_worker(s); !slow.what.empty()) return slow;
  if (!(s.busy.credit_wait > kMuchWaiting)) return sampling_by_shares(s);
  // A part that shares the processors with others is slow without being busy.
  if (Bottleneck full = all_processors(s.busy); !full.what.empty()) return full;
  return waiting_for_credits(s);
}

Bottleneck by_shares(const StatsSnapshot& s) {
  Bottleneck part = part_by_shares(s);
  return others_slow_it(s.busy) ? beside_others(s, std::move(part)) : part;
}

// By the stages of updates and the trainer's wait alone.
Bottleneck before_shares(const StatsSnapshot& s) {
  if (Bottleneck ranks = exchange_verdict(s); !ranks.what.empty()) return ranks;
  const double wait = s.recent.trainer_wait;
  const std::string waits = "the trainer waits " + format_percent(wait) + " of the time";
  if (wait > kHungryTrainer)
    return with({"sampling", waits, sampling_advice(s)}, Resource::unknown, wait, kTrainerWaits);
  if (wait < kBusyTrainer)
    return with({"training", "the trainer is busy " + format_percent(1 - wait) + " of the time"}, Resource::trainer,
                1 - wait);
  return with({"none", "sampling and training keep pace", waits}, Resource::none);
}

// The verdict on a run that trains, without what follows from its resource.
Bottleneck judged(const StatsSnapshot& s) {
  if (s.warmup)
    return with({"warm-up", "step " + format_count(s.warmup->step) + " of at most " + format_count(s.warmup->of)},
                Resource::trainer);
  if (Bottleneck held = open_evaluations(s); !held.what.empty()) return held;
  if (Bottleneck held = open_checkpoints(s); !held.what.empty()) return held;
  if (environments_fail(s)) return with({std::string(s.words->failing) + " fail", failures_text(s)}, Resource::workers);
  if (Bottleneck missing = missing_processes(s); !missing.what.empty()) return missing;
  if (s.env_steps == 0 && s.updates == 0) return {"not known yet", "the first rollouts are not complete"};
  if (nothing_comes(s) && s.updates > 0 && !trains(s))
    return with({"no samples", "none for 10 s, no update: a long step or a hung worker"}, Resource::workers);
  if (Bottleneck wasted = waste(s.recent); !wasted.what.empty()) return wasted;
  if (!std::isfinite(s.trainer_wait_fraction)) {
    if (s.updates == 0) return {"not known yet", "the first update is not complete"};
    if (std::isfinite(s.elapsed_seconds)) return {"not known yet", "no update is complete since the run was resumed"};
    return {"unknown", "a deterministic run does one thing at a time"};
  }
  return knows_shares(s) ? by_shares(s) : before_shares(s);
}

}  // namespace

uint64_t env_failures_of(const StatsSnapshot& s) {
  uint64_t total = 0;
  for (const auto& [environment, count] : s.env_failures) total += count;
  return total;
}

// The verdict is the first of these that holds:
//   (empty)                 training has ended
//   warm-up                 it goes on: without workers and inference actors
//   evaluations             training waits much of the time for open evaluations
//   checkpoints             training waits much of the time for the disk
//   environments fail       no samples come because environments fail; says how many failures and rows in quarantine.
//                           In a token run: workers fail
//   starting ...            workers were started or have joined, and none is ready
//   waiting for ...         there is no worker, no inference actor or no scorer, or not all ranks have come
//   not known yet           the first rollouts are not complete
//   no samples              none for 10 s, and the trainer has nothing to do
//   waste                   many samples of the last minute were dropped, or most answers filtered
//   not known yet           the first update is not complete
//   unknown                 a deterministic run, which reports no times
//   exchange                updates take most of the time, and waiting for other ranks most of theirs
//   by the shares of time that each part was busy in the last 10 s:
//     training, batch preparation, replay buffer   the busiest of these, if it is always busy
//     a slow worker         one worker is always busy, and the others wait for it
//     lag cap, credits      workers wait for credits: because of max_policy_lag, or for another reason
//     environment steps, workers, inference, scorers, processors   one of these is always busy
//     batch timeout         most batches start only after inference.timeout_us
//     few environments      requests are too few to fill the time; in a token run: few prompts
//     none                  nothing is always busy
//   Where other programs use the processors for which the run waits, instead: processors (other programs), unless the
//   busy part has most of its time for itself, batches leave full, or nearly all time passes between the steps.
//   sampling, training, none   by the trainer's wait fraction, before the shares are known
Bottleneck find_bottleneck(const StatsSnapshot& s) {
  if (s.told_bottleneck) return *s.told_bottleneck;
  if (s.training_ended) return {};
  Bottleneck verdict = judged(s);
  verdict.limit = limit_of(verdict.resource);
  verdict.gain = shown_gain(s, verdict);
  return verdict;
}

bool is_steady(const StatsSnapshot& s) {
  return !s.training_ended && !s.warmup && s.updates > 0 && std::isfinite(s.trainer_wait_fraction) && knows_shares(s) &&
         (trains(s) || !nothing_comes(s)) && !environments_fail(s) && missing_processes(s).what.empty();
}

std::string text_of(const Bottleneck& b) {
  return b.what + (b.why.empty() ? "" : ": " + b.why) + (b.advice.empty() ? "" : "; " + b.advice);
}

}  // namespace troupe
