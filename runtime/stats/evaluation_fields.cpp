// The part of snapshot_fields() about evaluations, the warm-up and prompts.

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

using Json = FigureJson;
using S = StatsSnapshot;

// For the table, what reads and writes one member.
template <auto member>
constexpr FieldAccess of_eval = of_optional<&S::evaluation, member>;
template <auto member>
constexpr FieldAccess of_evaluating = of_optional<&S::evaluating, member>;
template <auto member>
constexpr FieldAccess of_warmup = of_optional<&S::warmup, member>;
template <auto member>
constexpr FieldAccess of_prompts = of_optional<&S::prompts, member>;
template <auto member>
constexpr FieldAccess of_failed{
    [](const S& s) { return s.failed_evaluations.error.empty() ? Json() : Json(s.failed_evaluations.*member); },
    [](S& s, const Json& value) { read_figure(value, s.failed_evaluations.*member); }};

Json pass_at(const S& s) {
  Json result = Json::object();
  if (!s.evaluation) return result;
  for (const auto& [k, passed] : s.evaluation->pass_at) result[std::to_string(k)] = passed;
  return result;
}

void set_pass_at(S& s, const Json& value) {
  if (!s.evaluation || !value.is_object()) return;
  PassAtK& pass_at = s.evaluation->pass_at;
  pass_at.clear();
  for (const auto& [key, passed] : value.items()) {
    uint64_t k = 0;
    const char* end = key.data() + key.size();
    if (std::from_chars(key.data(), end, k).ptr != end) continue;
    read_figure(passed, pass_at.emplace_back(k, kUnknown).second);
  }
  std::ranges::sort(pass_at, {}, &PassAtK::value_type::first);
}

constexpr const char* kEval = "Evaluation";
constexpr const char* kWarmup = "Warm-up";
constexpr const char* kPrompts = "Prompts";
constexpr const char* kWeighted = "with `task.sampling` `failure_weighted`, after the first prompt";
constexpr const char* kEvaluated = "after the first evaluation";
constexpr const char* kFailed = "once an evaluation of this start has failed (deterministic runs: of the run)";
constexpr const char* kEvaluating = "during an evaluation, not in deterministic runs";
constexpr const char* kWarmingUp = "during the warm-up of a token run";

constexpr std::array kEvaluationFields = {
    SnapshotField{kEval, "eval.updates", "evaluation_updates", "updates", kEvaluated,
                  "which policy the last evaluation played: the one after this many updates",
                  of_eval<&EvaluationResult::updates>, shown("evaluated after update")},
    SnapshotField{kEval, "eval.env_steps", "evaluation_env_steps", "env steps; answers in token runs", kEvaluated,
                  "environment steps of the run after that update", of_eval<&EvaluationResult::env_steps>,
                  shown("evaluated after env steps", "evaluated after answers")},
    SnapshotField{kEval, "eval.episodes", "evaluation_episodes", "episodes; answers in token runs", kEvaluated,
                  "number of episodes of that evaluation that were played to their end",
                  of_eval<&EvaluationResult::episodes>, shown("episodes evaluated", "answers evaluated")},
    SnapshotField{kEval, "eval.failed_episodes", "evaluation_failed_episodes", "episodes; answers in token runs",
                  kEvaluated,
                  "episodes of that evaluation that failed, also when they were played again, because the environment "
                  "failed, or its answers without a score; `eval.return_mean` leaves them out, so it may be too good",
                  of_eval<&EvaluationResult::failed_episodes>,
                  shown("episodes that failed in evaluation", "answers that failed in evaluation", Better::down)},
    SnapshotField{kEval, "eval.return_mean", "evaluation_return_mean", "rewards", kEvaluated,
                  "mean return of these episodes; `env.reward_scale` does not change it",
                  of_eval<&EvaluationResult::return_mean>, shown("evaluation return", "evaluation reward", Better::up)},
    SnapshotField{kEval, "eval.return_std", "evaluation_return_stddev", "rewards", kEvaluated,
                  "standard deviation of the same returns", of_eval<&EvaluationResult::return_std>,
                  shown("standard deviation in evaluation")},
    SnapshotField{kEval, "eval.length_mean", "evaluation_length_mean_steps", "env steps; tokens in token runs",
                  kEvaluated, "mean length of these episodes", of_eval<&EvaluationResult::length_mean>,
                  shown("evaluation length")},
    SnapshotField{kEval, "eval.cut_fraction", "evaluation_cut_ratio", "0 to 1",
                  "token runs, after the first evaluation",
                  "share of these answers that reached `generation.max_tokens` before they ended",
                  of_eval<&EvaluationResult::cut_fraction>, shown("answers cut off in evaluation", Better::down)},
    SnapshotField{kEval, "eval.success_rate", "evaluation_success_ratio", "0 to 1",
                  "after the first evaluation, if the environment reports success",
                  "share of all its episodes that the environment calls a success; those that failed are none",
                  of_eval<&EvaluationResult::success_rate>,
                  shown("evaluation success", "evaluation pass@1", Better::up)},
    SnapshotField{kEval,
                  "eval.pass_at",
                  "evaluation_pass_ratio{k=*}",
                  "0 to 1, by k",
                  kEvaluated,
                  "token runs: pass@k, the share of prompts that k answers solve, for k = 1, 2, 4, ..., "
                  "`evaluation.answers`; `eval.episodes` counts answers",
                  {pass_at, set_pass_at},
                  shown("evaluation pass@k", Better::up)},
    SnapshotField{kEval, "failed_evaluations.count", "failed_evaluations_total", "evaluations", "always",
                  "over all starts: evaluations that failed or were not made; a warning names each, or the first of "
                  "several that were not made",
                  of_part<&S::failed_evaluations, &FailedEvaluations::count>,
                  shown("evaluations failed", Better::down)},
    SnapshotField{kEval, "failed_evaluations.updates", "failed_evaluation_updates", "updates", kFailed,
                  "which policy the newest of them should have played: the one after this many updates",
                  of_failed<&FailedEvaluations::updates>},
    SnapshotField{kEval, "failed_evaluations.env_steps", "failed_evaluation_env_steps",
                  "env steps; answers in token runs", kFailed, "environment steps of the run after that update",
                  of_failed<&FailedEvaluations::env_steps>},
    SnapshotField{kEval, "failed_evaluations.episodes", "failed_evaluation_episodes", "episodes; answers in token runs",
                  kFailed, "number of its episodes that were played to their end before it failed",
                  of_failed<&FailedEvaluations::episodes>},
    SnapshotField{kEval, "failed_evaluations.failed_episodes", "failed_evaluation_failed_episodes",
                  "episodes; answers in token runs", kFailed, "number of its episodes that failed before",
                  of_failed<&FailedEvaluations::failed_episodes>},
    SnapshotField{kEval, "failed_evaluations.error", "", "text", kFailed, "the error of the newest of them",
                  of_failed<&FailedEvaluations::error>},
    SnapshotField{kEval, "evaluating.updates", "", "updates", kEvaluating,
                  "which policy the evaluation under way plays: the one after this many updates",
                  of_evaluating<&EvaluationUnderWay::updates>},
    SnapshotField{kEval, "evaluating.episodes", "", "episodes; prompts in token runs", kEvaluating,
                  "how many of its episodes have ended or failed", of_evaluating<&EvaluationUnderWay::episodes>},
    SnapshotField{kEval, "evaluating.of", "", "episodes; prompts in token runs", kEvaluating,
                  "how many it plays (`evaluation.episodes`)", of_evaluating<&EvaluationUnderWay::of>},
    SnapshotField{kEval, "evaluating.seconds", "", "s", kEvaluating, "time since its start",
                  of_evaluating<&EvaluationUnderWay::seconds>},
    SnapshotField{kEval, "evaluating.waiting", "evaluations_waiting", "evaluations", kEvaluating,
                  "further evaluations that are made after it", of_evaluating<&EvaluationUnderWay::waiting>},
    SnapshotField{kWarmup, "warmup.step", "warmup_step", "steps", kWarmingUp, "how many of its steps have ended",
                  of_warmup<&WarmupState::step>},
    SnapshotField{kWarmup, "warmup.of", "", "steps", kWarmingUp, "how many it makes at most (`warmup.steps`)",
                  of_warmup<&WarmupState::of>},
    SnapshotField{kWarmup, "warmup.loss", "warmup_loss", "nats", kWarmingUp,
                  "mean negative log-likelihood per token of the demonstrations of its last step",
                  of_warmup<&WarmupState::loss>, shown("loss of the warm-up", Better::down)},
    SnapshotField{kWarmup, "warmup.pass_at_1", "warmup_pass_at_1_ratio", "0 to 1", "the same, once it was measured",
                  "share of 64 held-out prompts that are answered right (`warmup.pass_at_1`)",
                  of_warmup<&WarmupState::pass_at_1>, shown("pass@1 in the warm-up", Better::up)},
    SnapshotField{kPrompts, "prompts.asked", "prompts_asked", "prompts", "with `task.sampling` `failure_weighted`",
                  "different prompts of the list that workers have asked; each worker counts its own",
                  of_prompts<&PromptSummary::asked>},
    SnapshotField{kPrompts, "prompts.success", "prompt_success_ratio", "0 to 1", kWeighted,
                  "mean over these prompts of the rate at which they are answered right, lately",
                  of_prompts<&PromptSummary::success>, shown("success over prompts", Better::up)},
    SnapshotField{kPrompts, "prompts.solved", "prompts_solved_ratio", "0 to 1", kWeighted,
                  "share of these prompts to which all answers were right, the last time",
                  of_prompts<&PromptSummary::solved>, shown("prompts solved", Better::up)},
    SnapshotField{kPrompts, "prompts.never_right", "prompts_never_right_ratio", "0 to 1", kWeighted,
                  "share of these prompts to which no answer was ever right", of_prompts<&PromptSummary::never_right>,
                  shown("prompts never right", Better::down)},
};

}  // namespace

std::span<const SnapshotField> evaluation_fields() { return kEvaluationFields; }

}  // namespace troupe
