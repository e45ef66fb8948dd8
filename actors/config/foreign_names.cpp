#include "actors/config/foreign_names.h"

#include <algorithm>

#include "actors/config/config.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

constexpr std::string_view kMinibatchSize = "the size of a minibatch is trainer.super_batch / trainer.minibatches";
constexpr std::string_view kEvaluationActions =
    "there is no such setting: evaluations always take the most likely actions";
constexpr std::string_view kEvaluationSeed =
    "there is no such setting: evaluations follow seed; `troupe eval RUN --seed N` evaluates with another one";

constexpr std::string_view kFrameSkip =
    "there is no such setting: let your environment repeat each action; env.chunk gives every step an action of its "
    "own";

constexpr std::string_view kConvolutions =
    "expected \"net\", which reads images with convolutions; model.net.encoders describes them";

constexpr std::string_view kClip = "algorithm.surrogate_params.clip";

// Names in Stable-Baselines3, CleanRL, RLlib, and likely guesses.
constexpr Hint kHints[] = {
    {.name = "batch_size", .advice = kMinibatchSize},
    {.name = "minibatch_size", .advice = kMinibatchSize},
    {.name = "sgd_minibatch_size", .advice = kMinibatchSize},
    {.name = "device", .path = "trainer.device"},
    {.name = "cuda", .path = "trainer.device"},
    {.name = "env.name", .path = "env.id"},
    {.name = "frame_skip", .advice = kFrameSkip},
    {.name = "env_frameskip", .advice = kFrameSkip},
    {.name = "env.kwargs", .path = "env.params"},
    {.name = "env_kwargs", .path = "env.params"},
    {.name = "algorithm.name", .path = "algorithm.surrogate"},
    {.name = "algorithm.name", .path = "algorithm.advantage"},
    {.name = "algo", .path = "algorithm.surrogate"},
    {.name = "algo", .path = "algorithm.advantage"},
    {.name = "clip", .path = kClip},
    {.name = "clip_coef", .path = kClip},
    {.name = "clip_range", .path = kClip},
    {.name = "clip_eps", .path = kClip},
    {.name = "use_decoupled_loss", .path = "algorithm.rollout_correction"},
    {.name = "behave_imp_weight_cap", .path = "algorithm.rollout_correction.is_threshold"},
    {.name = "vllm_importance_sampling_correction", .path = "algorithm.rollout_correction"},
    {.name = "vllm_importance_sampling_cap", .path = "algorithm.rollout_correction.is_threshold"},
    {.name = "bypass_mode", .path = "algorithm.proximal"},
    {.name = "max_head_offpolicyness", .path = "replay.max_policy_lag"},
    {.name = "evaluation.interval", .path = "evaluation.every_updates"},
    {.name = "evaluation.deterministic", .advice = kEvaluationActions},
    {.name = "evaluation.seed", .advice = kEvaluationSeed},
    {.name = "checkpoint.interval", .path = "checkpoint.every_updates"},
    {.name = "model.type", .path = "model.kind"},
    {.name = "policy", .path = "model.net.core.kind"},
    {.name = "use_lstm", .path = "model.net.core.kind"},
    {.name = "lstm_hidden_size", .path = "model.net.core.size"},
    {.name = "lstm_cell_size", .path = "model.net.core.size"},
    {.name = "model.kind=lstm", .advice = "expected \"net\", with {\"core\": {\"kind\": \"lstm\"}} in model.net"},
    {.name = "model.kind=gru", .advice = "expected \"net\", with {\"core\": {\"kind\": \"gru\"}} in model.net"},
    {.name = "model.kind=cnn", .advice = kConvolutions},
    {.name = "model.kind=conv", .advice = kConvolutions},
    {.name = "model.kind=nature",
     .advice = "expected \"net\", with {\"encoders\": {\"*\": {\"kind\": \"nature\"}}} in model.net"},
    {.name = "net", .path = "model.net"},
    {.name = "core", .path = "model.net.core"},
    {.name = "encoders", .path = "model.net.encoders"},
    {.name = "trunk", .path = "model.net.trunk"},
    {.name = "value_trunk", .path = "model.net.value_trunk"},
};

// The settings that a name on the command line means, or advice about it; empty if neither is known.
Meaning meant_by(const Fields& fields, const std::string& name) {
  const bool inside = std::ranges::any_of(fields, [&](const Field& field) {
    return field.setting.kind == Setting::Kind::object && name.starts_with(field.path + '.');
  });
  if (inside || find_field(fields, name) != nullptr) return {{name}, ""};
  Meaning meaning = meaning_of(fields, kHints, name);
  if (!meaning.paths.empty() || !meaning.advice.empty()) return meaning;
  for (const Field& field : fields)
    if (field.key() == name) meaning.paths.push_back(field.path);
  return meaning.paths.size() == 1 ? meaning : Meaning();
}

}  // namespace

Hints foreign_names() { return kHints; }

std::string override_advice(std::string_view name, std::string_view value) {
  RunConfig defaults;
  std::string path(name);
  if (path.find('.') == path.npos) std::ranges::replace(path, '-', '_');
  const Meaning meaning = meant_by(describe(defaults), path);
  if (!meaning.advice.empty()) return meaning.advice;
  std::string text;
  for (const std::string& meant : meaning.paths)
    text.append(text.empty() ? "settings are given with --set " : " --set ")
        .append(printable(meant, 200))
        .append("=")
        .append(printable(value, 200));
  return text;
}

}  // namespace troupe
