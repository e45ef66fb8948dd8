// The rules between the settings of token runs.

#include "actors/config/token_rules.h"

#include "actors/config/config.h"
#include "actors/config/kind_settings.h"
#include "algorithms/advantages/advantages.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

// Throws if the estimator cannot learn from groups of one answer.
void check_single_answers(const RunConfig& config) {
  if (config.generation.answers > 1) return;
  const AlgorithmChoice choice = choose_algorithm(config.algorithm);
  const std::string_view name = choice.advantage->name;
  const auto refuse = [&](const std::string& why) {
    refuse_setting(
        "generation.answers", config.generation.answers,
        "makes groups of one answer, " + why + " algorithm.advantage \"" + std::string(name) + "\"; use at least 2");
  };
  if (name == "grpo_passk") refuse("which cannot be compared by");
  if (name == "rloo" && choice.advantage_parameters.text("singleton") != "score")
    refuse("whose advantage is always 0 with");
}

// Throws unless the parameters that say what happens at masked tokens have their defaults: estimators get whole
// answers, without a mask.
void check_mask_parameters(const AlgorithmConfig& a) {
  if (a.advantage_params == "{}") return;
  const ParameterValues values = choose_algorithm(a).advantage_parameters, defaults(values.declared());
  const auto unused = [&](const std::string& key, const auto& value, const auto& fallback) {
    require_effect("algorithm.advantage_params." + key, value, fallback, false,
                   "model.kind \"decoder\", where estimators get whole answers without a mask", "");
  };
  for (const char* key : {"count_masked_rewards", "reset_at_mask"})
    if (values.has(key)) unused(key, values.flag(key), defaults.flag(key));
  if (values.has("outside"))
    unused("outside", std::string(values.text("outside")), std::string(defaults.text("outside")));
}

// Throws unless the estimator and the critic fit each other.
void check_critic(const RunConfig& c) {
  const bool uses_values = !find_advantage(c.algorithm.advantage).run.sequences, critic = c.model.critic != "none";
  if (uses_values && !critic)
    refuse_setting("algorithm.advantage", c.algorithm.advantage,
                   "needs a critic, and model.critic is \"none\"; set model.critic to \"shared\" or \"separate\", or "
                   "algorithm.advantage to \"rloo\", \"grpo\" or \"reinforce_plus_plus\"");
  if (critic && c.algorithm.value_coef == 0)
    refuse_setting("algorithm.value_coef", c.algorithm.value_coef,
                   "would leave the critic untrained with model.critic \"" + c.model.critic + "\"; use more than 0");
}

void check_long_answers(const AlgorithmConfig& a) {
  if (a.overlong_penalty > 0 && a.overlong_buffer == 0)
    refuse_setting("algorithm.overlong_buffer", a.overlong_buffer,
                   "leaves no tokens over which algorithm.overlong_penalty " + setting_text(a.overlong_penalty) +
                       " could grow; use at least 1");
}

void check_reference(const RunConfig& c) {
  const ReferenceConfig& r = c.reference;
  reference_kl(r);  // throws for a name that does not fit
  if (r.kl_controller != "adaptive") return;
  if (r.kl_coef == 0)
    refuse_setting("reference.kl_coef", r.kl_coef,
                   "stays 0 with reference.kl_controller \"adaptive\"; start above 0, like 0.01");
  const double least = static_cast<double>(c.trainer.super_batch) / 5;  // a fifth: see algorithms/losses/kl.h
  if (r.kl_horizon <= least)
    refuse_setting("reference.kl_horizon", r.kl_horizon,
                   "lets one update of trainer.super_batch " + setting_text(c.trainer.super_batch) +
                       " answers turn the sign of kl_coef; use more than " + setting_text(least));
}

void check_reward_model(const RunConfig& c) {
  if (c.task.weight == 0 && c.reward_model.weight == 0)
    refuse_setting("reward_model.weight", c.reward_model.weight,
                   "and task.weight 0 make every reward 0; use another weight for one of them");
}

void check_evaluation(const EvaluationConfig& c) {
  constexpr double kLeast = 0.001;  // as of generation.temperature
  if (c.temperature > 0 && c.temperature < kLeast)
    refuse_setting("evaluation.temperature", c.temperature,
                   "is out of range, expected 0 or a number from 0.001 to 100");
  if (c.answers > 1 && c.temperature == 0)
    refuse_setting("evaluation.answers", c.answers,
                   "would be as many equal answers with evaluation.temperature 0, which takes the most likely one; set "
                   "evaluation.temperature, like 1, or use 1 answer");
}

void check_devices(const RunConfig& config) {
  const std::string why = "cannot be used in token runs yet; use ";
  if (config.trainer.device != "cpu") refuse_setting("trainer.device", config.trainer.device, why + "\"cpu\"");
  for (const auto& [path, device] :
       {std::pair{"inference.device", config.inference.device}, {"evaluation.device", config.evaluation.device}})
    if (device.starts_with("cuda")) refuse_setting(path, device, why + "\"auto\" or \"cpu\"");
}

// Throws if the run cannot have its functions in Python.
void check_functions(const RunConfig& config) {
  const TaskConfig& task = config.task;
  if (task.python.empty()) throw ConfigError("task.python: \"\" is empty, expected the name or path of a program");
  const auto refuse_deterministic = [&](const char* path, const std::string& function) {
    if (!function.empty() && config.deterministic)
      refuse_setting(path, function,
                     "cannot go with deterministic true, because a function in Python may give other results each "
                     "time; remove one of them");
  };
  refuse_deterministic("task.verifier", task.verifier);
  refuse_deterministic("task.reply", task.reply);
}

}  // namespace

void check_answer_settings(const RunConfig& config) {
  check_functions(config);
  const int64_t answers = config.generation.answers;
  if (config.trainer.super_batch % answers != 0)
    refuse_setting("trainer.super_batch", config.trainer.super_batch,
                   "is not a multiple of generation.answers " + std::to_string(answers) +
                       ", so groups of answers would be cut; use a multiple");
  check_single_answers(config);
  check_mask_parameters(config.algorithm);
  if (config.replay.filter_groups && answers < 2)
    refuse_setting("replay.filter_groups", config.replay.filter_groups,
                   "would filter out every group with generation.answers " + std::to_string(answers) +
                       "; use at least 2 answers, or false");
  if (config.replay.filter_groups && needs_greedy_answer(config))
    refuse_setting("replay.filter_groups", config.replay.filter_groups,
                   "would leave out groups from which algorithm.advantage \"" + config.algorithm.advantage +
                       "\" can learn: it compares answers with the greedy one, not with each other; use false");
  check_critic(config);
  check_long_answers(config.algorithm);
  check_reference(config);
  check_reward_model(config);
  check_evaluation(config.evaluation);
  if (config.algorithm.kl == "full")
    refuse_setting("algorithm.kl", config.algorithm.kl, "cannot be used in token runs yet; use \"k3\"");
  check_devices(config);
}

}  // namespace troupe
