#include "tools/cli/run_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "actors/experience/kinds.h"
#include "runtime/base/process_stats.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe {

namespace {

using OrderedJson = nlohmann::ordered_json;

// The figures of the last snapshot in the summary, by their paths.
constexpr std::array<std::string_view, 4> kOfRun = {"episodes.count", "episodes.return_mean", "episodes.success_rate",
                                                    "ledger."};
constexpr std::array<std::string_view, 2> kTokensOfRun = {"answers.tokens", "answers.trained_tokens"};
constexpr std::array<std::string_view, 4> kFailures = {"uncounted_at_most", "env_failures", "skipped_steps",
                                                       "request_retries"};
constexpr std::array<std::string_view, 6> kOfStart = {
    "seconds_to_first_update", "trainer_wait_fraction", "lag.p50", "lag.p95", "lag.max", "lag.cap"};
// Of token runs: what became of answers by their length.
constexpr std::array<std::string_view, 11> kTokensOfStart = {
    "answers.produced_length", "answers.trained_length", "answers.dropped_length", "answers.length_min",
    "answers.length_p50",      "answers.length_p95",     "answers.length_max",     "answers.turns_mean",
    "answers.turns_max",       "answers.groups_alike",   "answers.masked_tokens"};
constexpr std::array<std::string_view, 1> kVerifier = {"verifier."};

// The evaluation as JSON, in which nlohmann writes NaN and infinities as null.
OrderedJson evaluation_of(const Evaluation& e, const ExperienceWords& words) {
  OrderedJson result{{"episodes", e.episodes},         {"failed_episodes", e.failed_episodes},
                     {"return_mean", e.return_mean},   {"return_std", e.return_std},
                     {"success_rate", e.success_rate}, {"length_mean", e.length_mean},
                     {"updates", e.version.number}};
  if (words.tokens) result["cut_fraction"] = e.cut_fraction;
  if (words.success_key != nullptr) result[words.success_key] = e.success_rate;
  for (const auto& [k, passed] : e.pass_at) result["pass_at"][std::to_string(k)] = passed;
  if (!e.error.empty()) result["error"] = e.error;
  return result;
}

OrderedJson score_of(const CheckpointScore& s) {
  return {{"updates", s.updates}, {"return_mean", s.return_mean}, {"episodes", s.episodes}};
}

uint64_t new_steps(const RunFacts& f) { return f.last.env_steps - std::min(f.last.env_steps, f.start.env_steps); }

// Of this start, without the warm-up. The figures of a deterministic run have no times.
double speed_of_start(const RunFacts& f) {
  const double seconds = f.config.deterministic ? f.trained_seconds - f.warmup_seconds
                                                : f.last.elapsed_seconds - f.start.totals.elapsed_seconds -
                                                      (f.warmup.seconds - f.start.warmup.seconds);
  return static_cast<double>(new_steps(f)) / seconds;
}

// Of all starts, from the first experience on; where the records do not say it, without the warm-up. A deterministic
// run does not know the times of earlier starts.
double speed_of_run(const RunFacts& f) {
  if (std::isfinite(f.mean_speed)) return f.mean_speed;
  if (f.config.deterministic) return speed_of_start(f);
  return static_cast<double>(f.last.env_steps) / (f.last.elapsed_seconds - f.warmup.seconds);
}

OrderedJson last_start(const RunFacts& f) {
  OrderedJson result{{"wall_seconds", f.trained_seconds},
                     {"env_steps", new_steps(f)},
                     {"updates", f.outcome.version.number - f.start.version.number},
                     {"env_steps_per_wall_second", speed_of_start(f)}};
  put_figures(f.last, kOfStart, result);
  if (kind_of(f.config).words->tokens) {
    put_figures(f.last, kTokensOfStart, result);
    result["answers"]["late_wait_seconds"] = f.last.late_wait_seconds;
  }
  if (f.last.verifier) put_figures(f.last, kVerifier, result);
  result["peak_rss_bytes"] = peak_resident_bytes();
  if (f.expected_memory > 0) result["estimated_rss_bytes"] = f.expected_memory;
  if (!f.config.deterministic) {
    result["verdicts"] = f.verdicts.shares();
    result["bottleneck"] = nullptr;
    if (const auto verdicts = f.verdicts.longest(); !verdicts.empty())
      result["bottleneck"] = {{"what", verdicts[0].told.what},
                              {"share", verdicts[0].share},
                              {"resource", std::string(name_of(verdicts[0].told.resource))},
                              {"why", verdicts[0].told.why},
                              {"advice", verdicts[0].told.advice}};
  }
  return result;
}

}  // namespace

std::string ended_with(const RunOutcome& outcome) { return outcome.reason.empty() ? "failed" : outcome.reason; }

std::string run_summary(const RunFacts& f) {
  const ExperienceWords& words = *kind_of(f.config).words;
  OrderedJson summary{{"env", env_or_task(f.config)}, {"seed", f.config.seed}, {"reason", ended_with(f.outcome)}};
  if (!f.outcome.error.empty()) summary["error"] = f.outcome.error;
  summary["wall_seconds"] = f.start.totals.elapsed_seconds + f.trained_seconds;
  summary["seconds_after_training"] = f.after_training;
  summary["env_steps"] = f.last.env_steps;
  summary["mean_env_steps_per_second"] = speed_of_run(f);
  summary["updates"] = f.outcome.version.number;
  if (!f.config.deterministic) summary["undone_updates"] = f.undone_updates;
  const std::string& before = f.start.totals.evaluation;  // of an earlier start
  summary["eval"] = f.evaluation ? evaluation_of(*f.evaluation, words)
                                 : OrderedJson::parse(before.empty() ? "null" : before, nullptr, false);
  const FailedEvaluations& failed = f.last.failed_evaluations;
  summary["failed_evaluations"] = OrderedJson::parse(to_json(failed.or_earlier(f.start.totals.failed_evaluations)));
  if (f.warmup.step > 0)
    summary["warmup"] = {{"steps", f.warmup.step},
                         {"seconds", f.config.deterministic ? kUnknown : f.warmup.seconds},
                         {"pass_at_1", f.warmup.pass_at_1}};
  if (f.best) summary["best"] = score_of(*f.best);
  put_figures(f.last, kOfRun, summary);
  if (words.tokens) put_figures(f.last, kTokensOfRun, summary);
  put_figures(f.last, kFailures, summary);
  summary["lost_writes"] = f.lost_writes;
  summary["lost_log_lines"] = f.lost_log_lines;
  summary["has_checkpoint"] = f.has_checkpoint;
  if (!f.outcome.checkpoint_error.empty()) summary["checkpoint_error"] = f.outcome.checkpoint_error;
  if (!f.config.deterministic) summary["starts"] = f.start.totals.starts + 1;
  summary["last_start"] = last_start(f);
  return summary.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace troupe
