#include "actors/resume.h"

#include <cmath>
#include <limits>
#include <sstream>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr const char* kWindow = "stats.window";
constexpr const char* kAlarms = "stats.alarms";
constexpr const char* kEvaluation = "stats.evaluation";
constexpr const char* kFailedEvaluations = "stats.failed_evaluations";
constexpr const char* kOpenEvaluations = "stats.open_evaluations";
constexpr const char* kElapsed = "stats.elapsed_seconds";
constexpr double kMostElapsedSeconds = 1e10;  // 300 years
constexpr double kMostLoss = 1e300;
// Only of runs with a warm-up, as kWarmupSteps.
constexpr const char* kWarmupSeconds = "warmup.seconds";
constexpr const char* kWarmupLoss = "warmup.loss";
constexpr const char* kWarmupPassAt1 = "warmup.pass_at_1";
constexpr const char* kWarmupChecked = "warmup.checked";  // only while it is under way

// Every count that a checkpoint holds, with its name.
template <class AnyLedger, class AnyTotals, class AnyCount, class Function>
void for_each_count(AnyLedger& ledger, AnyTotals& totals, AnyCount& uncounted, Function function) {
  function("ledger.produced", ledger.produced);
  function("ledger.trained", ledger.trained);
  function("ledger.dropped_stale", ledger.dropped_stale);
  function("ledger.dropped_full", ledger.dropped_full);
  function("ledger.lost_in_crash", ledger.lost_in_crash);
  function("ledger.left_over", ledger.left_over);
  function("ledger.filtered", ledger.filtered);
  function("ledger.unscored", ledger.unscored);
  function("ledger.verifier_failed", ledger.verifier_failed);
  function("ledger.baselines", ledger.baselines);
  function("ledger.waiting", ledger.waiting);
  function("stats.uncounted_at_most", uncounted);
  function("stats.episodes", totals.episodes);
  function("stats.env_failures", totals.env_failures);
  function("stats.request_retries", totals.request_retries);
  function("stats.skipped_steps", totals.skipped_steps);
  function("stats.starts", totals.starts);
  function("stats.answer_tokens", totals.answer_tokens);
  function("stats.trained_tokens", totals.trained_tokens);
}

// The scalar of that name, 0 without one. Throws ConfigError when it is not in [0, most].
double saved_number(const Checkpoint& checkpoint, const std::string& name, double most) {
  const auto found = checkpoint.scalars.find(name);
  const double value = found == checkpoint.scalars.end() ? 0 : found->second;
  if (!(value >= 0 && value <= most)) throw ConfigError("its scalar " + name + " is out of range");
  return value;
}

WarmupState saved_warmup(const Checkpoint& checkpoint) {
  WarmupState warmup;
  if (!checkpoint.scalars.contains(kWarmupSteps)) {
    warmup.complete = checkpoint.updates > 0;  // before the first update there may still be one
    return warmup;
  }
  warmup.complete = !checkpoint.scalars.contains(kWarmupChecked);
  warmup.step = saved_count(checkpoint, kWarmupSteps);
  if (!warmup.complete) warmup.checked = saved_count(checkpoint, kWarmupChecked);
  warmup.seconds = saved_number(checkpoint, kWarmupSeconds, kMostElapsedSeconds);
  if (checkpoint.scalars.contains(kWarmupLoss)) warmup.loss = saved_number(checkpoint, kWarmupLoss, kMostLoss);
  if (checkpoint.scalars.contains(kWarmupPassAt1)) warmup.pass_at_1 = saved_number(checkpoint, kWarmupPassAt1, 1);
  return warmup;
}

std::map<uint64_t, std::string> saved_evaluations(const Checkpoint& checkpoint) {
  std::map<uint64_t, std::string> result;
  const auto found = checkpoint.extras.find(kOpenEvaluations);
  if (found == checkpoint.extras.end()) return result;
  std::istringstream lines(found->second);
  for (std::string line; std::getline(lines, line);) result[count_in(line, "updates")] = line;
  return result;
}

}  // namespace

bool in_warmup(const Checkpoint& checkpoint) { return checkpoint.scalars.contains(kWarmupChecked); }

void put_warmup(const WarmupState& warmup, std::map<std::string, double>& scalars) {
  if (warmup.step == 0 && warmup.complete) return;
  scalars[kWarmupSteps] = static_cast<double>(warmup.step);
  scalars[kWarmupSeconds] = warmup.seconds;
  if (std::isfinite(warmup.loss)) scalars[kWarmupLoss] = warmup.loss;
  if (std::isfinite(warmup.pass_at_1)) scalars[kWarmupPassAt1] = warmup.pass_at_1;
  if (!warmup.complete) scalars[kWarmupChecked] = static_cast<double>(warmup.checked);
}

void put_counts(Checkpoint& checkpoint, const CheckpointMessage& message) {
  for_each_count(message.ledger, message.totals, message.uncounted,
                 [&](const char* name, uint64_t count) { checkpoint.scalars[name] = static_cast<double>(count); });
  checkpoint.scalars[kElapsed] = message.totals.elapsed_seconds;
  if (!message.totals.window.empty()) checkpoint.extras[kWindow] = message.totals.window;
  if (!message.totals.alarms.empty()) checkpoint.extras[kAlarms] = message.totals.alarms;
  if (!message.totals.evaluation.empty()) checkpoint.extras[kEvaluation] = message.totals.evaluation;
  if (message.totals.failed_evaluations.count > 0)
    checkpoint.extras[kFailedEvaluations] = to_json(message.totals.failed_evaluations);
  for (const auto& [updates, line] : message.totals.open_evaluations)
    checkpoint.extras[kOpenEvaluations] += line + '\n';
}

uint64_t saved_count(const Checkpoint& checkpoint, const std::string& name) {
  const auto found = checkpoint.scalars.find(name);
  const double count = found == checkpoint.scalars.end() ? -1 : found->second;
  if (!(count >= 0 && count <= 0x1p53) || count != std::floor(count))
    throw ConfigError("its scalar " + name + " is missing or not a count");
  return static_cast<uint64_t>(count);
}

void check_counts(const Checkpoint& checkpoint, uint64_t steps_per_sample) {
  const uint64_t updates = saved_count(checkpoint, "updates");
  if (updates != checkpoint.updates)
    throw ConfigError("its scalar updates is " + std::to_string(updates) + ", expected " +
                      std::to_string(checkpoint.updates) + " like state.updates");
  if (!checkpoint.scalars.contains("ledger.produced")) return;  // an older program wrote it
  const uint64_t produced = saved_count(checkpoint, "ledger.produced");
  const uint64_t most = produced * steps_per_sample;  // cannot overflow: both factors are small
  if (checkpoint.env_steps < produced || checkpoint.env_steps > most)
    throw ConfigError(
        "its state.env_steps is " + std::to_string(checkpoint.env_steps) + ", expected " +
        (produced == most ? std::to_string(produced) : std::to_string(produced) + " to " + std::to_string(most)) +
        " for the samples of its scalar ledger.produced");
}

ReplayStart start_from(const std::map<std::string, Array>& weights, Learner& learner) {
  learner.begin_from(weights);
  return {};
}

ReplayStart resume(const Checkpoint& checkpoint, Learner& learner) {
  learner.load({checkpoint.model, checkpoint.optimizer, checkpoint.scalars});
  ReplayStart start;
  start.version = {checkpoint.version.epoch + 1, checkpoint.version.number};
  start.env_steps = checkpoint.env_steps;
  // A checkpoint that an older program wrote lacks some of them.
  for_each_count(start.ledger, start.totals, start.uncounted, [&](const char* name, uint64_t& count) {
    if (checkpoint.scalars.contains(name)) count = saved_count(checkpoint, name);
  });
  if (!start.ledger.balances()) throw ConfigError("its ledger does not balance: " + start.ledger.text());
  start.totals.elapsed_seconds = saved_number(checkpoint, kElapsed, kMostElapsedSeconds);
  start.warmup = saved_warmup(checkpoint);
  start.time_progress = saved_number(checkpoint, kTimeProgress, 1);
  if (const auto it = checkpoint.extras.find(kWindow); it != checkpoint.extras.end()) start.totals.window = it->second;
  if (const auto it = checkpoint.extras.find(kAlarms); it != checkpoint.extras.end()) start.totals.alarms = it->second;
  if (const auto it = checkpoint.extras.find(kEvaluation); it != checkpoint.extras.end())
    start.totals.evaluation = it->second;
  if (const auto it = checkpoint.extras.find(kFailedEvaluations); it != checkpoint.extras.end())
    start.totals.failed_evaluations = failed_evaluations_of(it->second);
  start.totals.open_evaluations = saved_evaluations(checkpoint);
  return start;
}

}  // namespace troupe
