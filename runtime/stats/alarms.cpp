#include "runtime/stats/alarms.h"

#include <algorithm>
#include <array>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr AlarmLevel kWarning = AlarmLevel::warning, kError = AlarmLevel::error;
constexpr AdvisedCheckpoint kEarlier = AdvisedCheckpoint::earlier, kBest = AdvisedCheckpoint::best;

constexpr std::array kRules = {
    AlarmRule{"steps_skipped", kWarning, 1, "an update skipped an optimizer step that was not finite",
              "look at the size of the rewards (env.reward_scale), and lower the learning rates",
              "look at the size of the rewards (algorithm.reward_clip), and lower the learning rates"},
    AlarmRule{"non_finite",
              kError,
              3,
              "updates skipped optimizer steps that were not finite",
              "stop the run, lower the learning rates, or the size of the rewards",
              {},
              kEarlier},
    AlarmRule{"kl_high", kWarning, 3, "learner.kl is above 0.1 and above 5 times its median of the last 200 updates",
              "lower trainer.policy_lr or trainer.epochs, or set algorithm.target_kl"},
    AlarmRule{"kl_extreme",
              kError,
              2,
              "learner.kl is above 1 and above 20 times its median of the last 200 updates",
              "the policy has jumped far away from the one that acted: lower trainer.policy_lr",
              {},
              kEarlier},
    AlarmRule{"clip_high", kWarning, 5, "learner.clip_fraction is above 0.5",
              "updates are too large for the clip range: lower trainer.policy_lr or trainer.epochs"},
    AlarmRule{"dead_gradients", kWarning, 5, "learner.dead_gradient_fraction is above 0.5",
              "most samples have no gradient: lower trainer.epochs, trainer.policy_lr or replay.max_policy_lag"},
    AlarmRule{"ess_low", kWarning, 5, "learner.ess is below 0.2",
              "a few samples decide the updates: lower trainer.policy_lr or replay.max_policy_lag"},
    AlarmRule{
        "entropy_low", kWarning, 10,
        "discrete actions: learner.entropy is below 2 % of the largest possible one in the first half of the run; with "
        "action masks and in token runs, of the largest one so far",
        "the policy no longer explores: raise algorithm.entropy_coef"},
    AlarmRule{
        "entropy_dead",
        kWarning,
        5,
        "discrete actions: learner.entropy is below 0.1 % of the same, and in token runs and with action masks also "
        "below 0.001",
        "the policy takes the same action in the same state each time, and no longer explores; that is right only if "
        "the task is solved. If not, raise algorithm.entropy_coef or lower trainer.policy_lr",
        {},
        kEarlier},
    AlarmRule{"noise_low", kWarning, 5, "continuous actions: learner.log_std is below -4",
              "the policy no longer explores: raise algorithm.entropy_coef"},
    AlarmRule{"noise_high", kWarning, 5, "continuous actions: learner.log_std is above 1.5",
              "the noise of the actions grows instead of learning: lower algorithm.entropy_coef"},
    AlarmRule{
        "value_useless", kWarning, 20,
        "advantages from values (`gae`, `vtrace`): learner.explained_variance is 0 or less after the first 30 updates "
        "and the first quarter of the run (200 updates, if its end is not known), and the value targets vary by more "
        "than 2 % of their mean",
        "the values do not help the advantages: raise trainer.value_lr, or set model.normalize_returns",
        "the values do not help the advantages: raise trainer.value_lr, or let the critic learn alone first "
        "(trainer.value_only_updates)"},
    AlarmRule{
        "values_off", kWarning, 3,
        "advantages from values: learner.advantage_mean is further from 0 than twice learner.advantage_std, and than "
        "twice the root mean square of the advantages in the median of the last 200 updates, and by more than 5 % of "
        "the "
        "value targets (learner.return_mean or, if larger, learner.return_std)",
        "nearly all samples return much more or less than the values expect: look at what changed in the environment "
        "or its rewards; if nothing did, lower trainer.value_lr",
        "nearly all answers return much more or less than the values expect: look at what changed in the scores; if "
        "nothing did, lower trainer.value_lr"},
    AlarmRule{
        "no_signal", kWarning, 20,
        "learner.advantage_std is 0, or learner.masked_fraction is 1, unless more than 95 % of the episodes succeed: "
        "no "
        "action is better than others, or no token has a loss; "
        "where answers of a group are compared, it is raised after as many updates as have 64 groups, but at least 5, "
        "once `stats.window` answers have ended",
        "look at the rewards: they may always be the same",
        "look at the scores: the answers to a prompt may all get the same one, as when none is right; begin with a "
        "longer warm-up (warmup.steps), easier prompts, or more generation.answers"},
    AlarmRule{
        "return_drop", kWarning, 20,
        "the newest quarter of the statistics window returns so much less than the best window that more than half "
        "of what the run has gained is lost; counts once it has gained 2 standard deviations, and more than rare "
        "rewards gain by chance",
        "if it does not recover by itself, lower the learning rates"},
    AlarmRule{"return_collapse", kError, 20, "the same, with more than three quarters of the gain",
              "look at what changed in the environment", "look at what changed in the scores", kBest},
    AlarmRule{"receiver_behind", kWarning, 1,
              "an inference actor applies weights more slowly than the trainer publishes them, or none at all",
              "look at its process and its connection"},
    AlarmRule{"samples_dropped", kWarning, 3, "more than 5 % of the samples of the last 60 s were dropped",
              "raise replay.max_policy_lag, or use fewer workers; with replay.mode `reuse`, lower replay.capacity"},
    AlarmRule{"verifier_fails", kWarning, 3,
              "the verifier, or the reply to them, failed on more than 5 % of the answers of the last 60 s, which are "
              "not trained on",
              "look at its errors in the log of the run, and at task.verifier_timeout_ms"},
    AlarmRule{"rows_quarantined", kWarning, 2, "rows of environments are in quarantine because their steps fail",
              "look at last_error"},
    AlarmRule{
        "no_episode", kWarning, 2,
        "no episode has finished, although the run has sampled for 120 s and made 100000 environment steps; not in "
        "token runs",
        "returns are unknown until one ends: limit the length of its episodes; many environments have "
        "max_episode_steps in env.params"},
    AlarmRule{
        "slower", kWarning, 30,
        "env_steps_per_second_60s, in token runs answers.tokens_per_second, is below 70 % of its best in the last 10 "
        "minutes with the same workers",
        "something else uses the processors, or the environment has become slower",
        "something else uses the processors, or scores take longer"},
    AlarmRule{
        "memory_grows", kWarning, 2,
        "the memory of the trainer's process, or of the processes of workers, environments or verifiers, has grown in "
        "each of the last 10 minutes, by 100 MB and 10 % in all",
        "an environment or a callback may leak memory", "a verifier or a callback may leak memory"},
    AlarmRule{"disk_fails", kError, 1,
              "the last write of a file of the run was refused: metrics.jsonl, a TensorBoard file, answers.jsonl, "
              "alarms.json, log.txt or a checkpoint",
              "free some space, or remove what the error names: until then, points of the curves are lost, and a start "
              "after a kill resumes from the last checkpoint that could be written"},
};

}  // namespace

std::span<const AlarmRule> alarm_rules() { return kRules; }

const AlarmRule& alarm_rule(std::string_view name) {
  const auto* const found = std::ranges::find(kRules, name, &AlarmRule::name);
  TROUPE_CHECK(found != kRules.end(), "no such alarm", name);
  return *found;
}

std::string advice_of(const AlarmRule& rule, bool token_run, std::string_view begin) {
  const std::string advice(token_run && !rule.in_token_runs.empty() ? rule.in_token_runs : rule.advice);
  const auto or_else = [&](std::string_view usual) { return std::string(begin.empty() ? usual : begin); };
  switch (rule.checkpoint) {
    case AdvisedCheckpoint::none: break;
    case AdvisedCheckpoint::earlier: return advice + ", and " + or_else("begin again from an earlier checkpoint");
    case AdvisedCheckpoint::best:
      return or_else("resume from the best checkpoint (checkpoint.keep_best)") + " with lower learning rates; " +
             advice;
  }
  return advice;
}

std::string_view text_of(AlarmLevel level) { return level == AlarmLevel::error ? "error" : "warning"; }

}  // namespace troupe
