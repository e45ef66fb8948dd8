#include "tools/cli/train_resume.h"

#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "actors/evaluator.h"
#include "actors/experience/kinds.h"
#include "models/learning/environment_rules.h"
#include "models/weights/initial_weights.h"
#include "models/weights/weight_block.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/start_files.h"
#include "tools/cli/finished_run.h"
#include "tools/cli/made_of.h"
#include "tools/cli/run_report.h"

namespace troupe {
namespace {

// Where a run starts or resumes.
struct Beginning {
  ReplayStart start;
  std::optional<RunFolder::ResumePoint> resume;
};

// Restores what only a deterministic run keeps at a resume: its epoch and the state of every actor.
void restore_actors(const Checkpoint& checkpoint, RunContext& context, Beginning& beginning) {
  if (!checkpoint.scalars.contains(kMetricsLines))
    throw ConfigError("it does not hold the state of a deterministic run's actors; use another run folder");
  context.states = checkpoint.extras;
  beginning.start.version = checkpoint.version;
  beginning.resume->lines = saved_count(checkpoint, kMetricsLines);
  if (const std::string* held = context.state_of(kMetricsHeld))  // RunReport writes this line again
    beginning.resume->tensorboard_step = static_cast<int64_t>(env_steps_of(*held));
}

// The checkpoint to resume from; nothing if there is none.
std::optional<Checkpoint> recover(RunFolder& folder, const Learner& learner) {
  CheckpointStore& checkpoints = folder.checkpoints();
  checkpoints.expect_weights(learner.saved_signature()->total_bytes());
  try {
    return checkpoints.recover();
  } catch (const IoError& refused) {
    if (refused.is_refusal())
      throw ConfigError(std::string(refused.what()) +
                        "; the checkpoint may be whole, so it is neither skipped nor renamed: "
                        "remove the cause, or use another run folder");
    throw ConfigError(std::string(refused.what()) + "; use another run folder, or remove " + folder.path() +
                      "/checkpoints to start over");
  }
}

// Restores the learner, and in a deterministic run all other actors.
Beginning restore(RunFolder& folder, Learner& learner, RunContext& context) {
  Beginning beginning;
  if (!folder.resuming()) return beginning;
  const std::optional<Checkpoint> checkpoint = recover(folder, learner);
  if (!checkpoint) return beginning;
  try {
    check_counts(*checkpoint, static_cast<uint64_t>(context.spec.action.chunk));
    beginning.start = resume(*checkpoint, learner);
    const ReplayStart& start = beginning.start;
    beginning.resume = RunFolder::ResumePoint{start.version.number, start.env_steps};
    beginning.resume->warmup_steps = start.warmup.step;
    if (checkpoint->scalars.contains(kMetricsAtLeast))
      beginning.resume->least_lines = saved_count(*checkpoint, kMetricsAtLeast);
    if (context.deterministic) restore_actors(*checkpoint, context, beginning);
  } catch (const ConfigError& misfit) {
    throw ConfigError(folder.checkpoints().path_of(checkpoint->updates) + ": " + misfit.what());
  }
  return beginning;
}

// A run that was killed before its first checkpoint begins from the same weights again.
ReplayStart begin_from_given_weights(RunFolder& folder, Learner& learner, const RunContext& context,
                                     const std::optional<InitialWeights>& given) {
  if (given) folder.keep_initial_weights(*given);
  const std::optional<InitialWeights> weights = given ? given : folder.initial_weights();
  if (!weights) {
    if (const auto warning = bounds_out_of_reach(context.config.model, context.spec)) log_warn("train", *warning);
    return {};
  }
  ReplayStart start;
  try {
    start = start_from(weights->tensors, learner);
  } catch (const ConfigError& misfit) {
    throw ConfigError(folder.path() + "/init.safetensors: " + misfit.what() +
                      "; use another run folder, or remove this file and init.json to begin with new weights");
  }
  const bool new_critic = begins_critic(*learner.saved_signature(), weights->tensors);
  const std::string line = "beginning with " + initial_weights_text(*weights) +
                           (new_critic ? "; they have no critic like that of this run, which begins anew" : "");
  log_info("train", line);
  print_line(line);
  return start;
}

// Reports the sequence length that model.sequence 0 has chosen.
void tell_sequence(const RunConfig& config, const Recurrence& recurrence) {
  if (recurrence.sequence == 0 || config.model.sequence != 0) return;
  const std::string line = "the recurrent core is trained on sequences of " + std::to_string(recurrence.sequence) +
                           " steps (model.sequence 0)";
  log_info("train", line);
  print_line(line);
}

constexpr const char* kChanged = "settings changed since the last start";

// Prints one line with the first changes; the log has all of them. Prints nothing if there are none.
void tell_changed(const std::string& begin, const std::vector<SettingChange>& changes) {
  constexpr size_t kShown = 8;
  if (changes.empty()) return;
  std::string shown;
  for (size_t i = 0; i < changes.size(); ++i) {
    log_info("train", "setting changed: " + changes[i].text());
    if (i < kShown) shown += (i == 0 ? "" : ", ") + changes[i].text();
  }
  if (changes.size() > kShown) shown += " and " + std::to_string(changes.size() - kShown) + " more, see log.txt";
  print_line(begin + ": " + shown);
}

// Reports whether the run resumes or is finished. False if it is finished.
bool tell_resumed(const RunFolder& folder, const RunConfig& config, const ReplayStart& start,
                  const std::vector<SettingChange>& changes) {
  const std::string finished = finished_line(folder, config, start);
  const std::string resuming = "resuming at update " + std::to_string(start.version.number);
  log_info("train", finished.empty() ? resuming : finished);
  const bool warms_up = !start.warmup.complete && start.warmup.step > 0;
  const std::string made = warms_up ? "in the warm-up after step " + format_count(start.warmup.step)
                                    : format_counted(start.env_steps, kind_of(config).words->step);
  print_line(finished.empty() ? resuming + ", " + made : finished);
  tell_changed(
      finished.empty() ? kChanged : "settings changed in config.json, but nothing was trained or evaluated with them",
      changes);
  return finished.empty();
}

void tell_missing_checkpoint(const RunFolder& folder, uint64_t updates) {
  if (const std::string line = missing_checkpoint_line(folder, updates); !line.empty()) log_warn("train", line);
}

// Prints which updates a run lost that resumes from `updates`. There can be more than metrics.jsonl has: its
// last lines are missing when the disk was full.
void tell_lost(const RunFolder& folder, uint64_t updates) {
  const uint64_t lost = folder.cut_updates();
  if (lost <= updates) return;
  const std::string line = "lost: all updates after update " + std::to_string(updates) +
                           ", the newest with a checkpoint; metrics.jsonl had lines up to update " +
                           std::to_string(lost) + ", which are removed";
  log_info("train", line);
  print_line(line);
}

// Warns that settings of a warm-up that is over have changed.
void tell_unused_warmup(const WarmupState& warmup, const std::vector<SettingChange>& changes) {
  if (!warmup.complete) return;
  for (const SettingChange& change : changes)
    if (change.path.starts_with("warmup."))
      log_warn("train", change.sentence() + ", which has no effect: the warm-up of this run is over");
}

// Warns that schedules change: they depend on the end of the run, which is now at another point.
void tell_moved_schedules(const RunConfig& config, const std::vector<SettingChange>& changes) {
  const std::string lr = config.trainer.lr_schedule;
  const bool others = config.algorithm.entropy_coef_end >= 0 || config.model.log_std == "scheduled";
  if (lr == "constant" && !others) return;
  std::string moved;
  int limits = 0;
  for (const SettingChange& change : changes)
    if (change.path == "stop.env_steps" || change.path == "stop.updates" || change.path == "stop.seconds")
      moved += (limits++ == 0 ? "" : ", ") + change.sentence();
  if (limits == 0) return;
  log_warn("train", moved + ": from here on " +
                        (lr == "constant" ? "schedules" : "the learning rate (trainer.lr_schedule \"" + lr + "\")") +
                        " will follow the new limit" + (limits > 1 ? "s" : ""));
}

// How the settings of the run in the folder, if there is one, differ from those of this start.
std::vector<SettingChange> changes_of(const RunFolder& folder, const RunConfig& config) {
  if (folder.config_before().empty()) return {};
  return changed_settings(folder.config_before(), to_json(config));
}

// The weights of a checkpoint of this run; null if there is none that can be used.
WeightsPtr weights_of(CheckpointStore& checkpoints, const Signature& signature, uint64_t updates) {
  try {
    const std::optional<Checkpoint> checkpoint = checkpoints.load_checked(updates);
    if (!checkpoint) return nullptr;
    WeightBlock weights(signature);
    weights.load(checkpoint->model);
    return weights.snapshot(checkpoint->version);
  } catch (const std::runtime_error& unusable) {  // IoError or ConfigError
    log_warn("train", checkpoints.path_of(updates) + ": cannot be evaluated: " + unusable.what());
    return nullptr;
  }
}

// Begins the evaluations that an earlier start left open, of those policies that have a checkpoint, and names all.
void resume_evaluations(RunFolder& folder, const RunContext& context, ReplayStart& start) {
  std::vector<uint64_t> begun, left;
  std::erase_if(start.totals.open_evaluations, [&](const auto& open) {
    const uint64_t updates = open.first;
    if (folder.evaluated().contains(updates)) return true;
    const WeightsPtr weights = weights_of(folder.checkpoints(), *context.signature, updates);
    (weights ? begun : left).push_back(updates);
    if (!weights) return true;
    start.evaluations.push_back(weights);
    folder.await_evaluation(updates);
    return false;
  });
  if (!left.empty())
    log_warn("train", "not evaluated: " + policies_text(left) +
                          ": the run had ended before, and there is no checkpoint to evaluate now");
  if (begun.empty()) return;
  const std::string line = "evaluating " + policies_text(begun) + ", which the run had not done when it ended";
  log_info("train", line);
  print_line(line);
}

// How many episodes an evaluation of this run has: of a token run, the answers to as many prompts as its task holds
// out.
uint64_t evaluated(const RunConfig& config, const RunContext& context) {
  const int64_t most = config.evaluation.episodes;
  if (!context.tokens || config.checkpoint.keep_best == 0) return static_cast<uint64_t>(most);
  return context.tokens->task->held_out(derive_key(config.seed, "evaluation"), most).size() *
         static_cast<uint64_t>(config.evaluation.answers);
}

RankedBy ranked_by(const RunConfig& config, const RunContext& context) {
  const EvaluationConfig& evaluation = config.evaluation;
  RankedBy by{.count = static_cast<uint64_t>(config.checkpoint.keep_best),
              .measure = evaluation.env_params,
              .episodes = evaluated(config, context)};
  if (!context.tokens) return by;
  by.measured_by = "temperature";
  if (evaluation.temperature > 0) by.measure = nlohmann::json{{"temperature", evaluation.temperature}}.dump();
  return by;
}

// Begins the ranking, the epoch and the metrics of this start.
void begin_files(RunFolder& folder, const RunConfig& config, const RunContext& context, Beginning& beginning) {
  folder.keep_best(ranked_by(config, context), static_cast<uint64_t>(config.checkpoint.keep));
  // A deterministic run has no peers that could outlive it, and its results must not depend on the number of starts.
  if (!context.deterministic)
    beginning.start.version.epoch = take_epoch(posix_disk(), folder.path(), beginning.start.version.epoch);
  const double wall_time = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  folder.begin_metrics(wall_time, beginning.resume);
  folder.begin_alarms(beginning.resume);
  if (beginning.resume && !context.deterministic) resume_evaluations(folder, context, beginning.start);
  // A deterministic run makes the same updates again, so it loses none.
  if (beginning.resume && !context.deterministic) tell_lost(folder, beginning.resume->updates);
  if (const auto& former = folder.former_metrics()) {
    const std::string line =
        folder.path() + " holds no checkpoint: training starts over; the previous metrics are in " + *former;
    log_info("train", line);
    print_line(line);
  }
}

}  // namespace

std::optional<ReplayStart> begin_or_resume(RunFolder& folder, const RunConfig& config, Learner& learner,
                                           RunContext& context, const std::optional<InitialWeights>& initial,
                                           const std::function<void()>& begins) {
  open_log(folder.open_log_file());
  log_info("train",
           context.spec.id + " with seed " + std::to_string(config.seed) + ", process " + std::to_string(getpid()));
  const std::vector<SettingChange> changes = changes_of(folder, config);
  const SpecFields parts = made_of_training(context, learner);
  if (!folder.checkpoints().list().empty()) {
    require_comparable_files(folder.path(), changes);
    require_made_of(folder.path(), parts);
  }
  Beginning beginning = restore(folder, learner, context);
  if (beginning.resume && initial) refuse_to_resume(*initial, folder.path());
  folder.keep_config();
  keep_made_of(folder.path(), parts);
  if (folder.replaced_settings())
    tell_changed("nothing was trained in " + folder.path() + " yet; its settings are replaced", changes);
  else if (!beginning.resume)
    tell_changed(kChanged, changes);
  if (beginning.resume && !tell_resumed(folder, config, beginning.start, changes)) return std::nullopt;
  if (beginning.resume && !context.deterministic) {
    StatsTotals& totals = beginning.start.totals;
    totals.evaluation = newest_evaluation(folder, totals.evaluation, beginning.resume->updates);
    totals.failed_evaluations = failed_evaluations(folder, totals.failed_evaluations, beginning.resume->updates);
  }
  if (beginning.start.version.number > 0) tell_moved_schedules(config, changes);
  if (beginning.resume) tell_unused_warmup(beginning.start.warmup, changes);
  if (beginning.resume) tell_missing_checkpoint(folder, beginning.resume->updates);
  if (!beginning.resume) beginning.start = begin_from_given_weights(folder, learner, context, initial);
  begins();
  tell_sequence(config, context.recurrence);
  begin_files(folder, config, context, beginning);
  return beginning.start;
}

}  // namespace troupe
