// The rules for token runs: which settings they do not have, and those between the settings that they have.

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

// Throws unless the settings that token runs do not use have their defaults.
void check_without_environment(const RunConfig& c, const RunConfig& d) {
  const std::string other = "model.kind \"decoder\"", instead = "set model.kind to \"mlp\" or \"net\"";
  const auto unused = [&](const char* path, const auto& value, const auto& fallback) {
    require_effect(path, value, fallback, false, other, instead);
  };
  unused("inference.batch_size", c.inference.batch_size, d.inference.batch_size);
  unused("inference.timeout_us", c.inference.timeout, d.inference.timeout);
  unused("inference.max_batch", c.inference.max_batch, d.inference.max_batch);
  unused("replay.draw", c.replay.draw, d.replay.draw);
  unused("model.hidden", c.model.hidden, d.model.hidden);
  unused("model.net", c.model.net, d.model.net);
  unused("model.activation", c.model.activation, d.model.activation);
  unused("model.normalize_observations", c.model.normalize_observations, d.model.normalize_observations);
  unused("model.normalize_returns", c.model.normalize_returns, d.model.normalize_returns);
  unused("evaluation.rows", c.evaluation.rows, d.evaluation.rows);
  unused("evaluation.env_params", c.evaluation.env_params, d.evaluation.env_params);
  unused("trainer.micro_batch", c.trainer.micro_batch, d.trainer.micro_batch);
  require_defaults(settings_of_kind(c).absent_sections, c, other, instead);
}

bool uses_values(const AdvantageEntry& estimator) { return !estimator.run.sequences; }

// Throws unless the estimator and the critic fit each other.
void check_critic(const RunConfig& c, const RunConfig& d) {
  const AdvantageEntry& estimator = find_advantage(c.algorithm.advantage);
  const bool critic = c.model.critic != d.model.critic;
  if (uses_values(estimator) && !critic)
    refuse_setting("algorithm.advantage", c.algorithm.advantage,
                   "needs a critic, and model.critic is \"none\"; set model.critic to \"shared\" or \"separate\", or "
                   "algorithm.advantage to \"rloo\", \"grpo\" or \"reinforce_plus_plus\"");
  if (!uses_values(estimator) && critic)
    refuse_setting("model.critic", c.model.critic,
                   "has no effect with algorithm.advantage \"" + c.algorithm.advantage +
                       "\", which uses no values; set algorithm.advantage to \"gae\" or \"vtrace\", or model.critic "
                       "to \"none\"");
  if (critic && c.algorithm.value_coef == 0)
    refuse_setting("algorithm.value_coef", c.algorithm.value_coef,
                   "would leave the critic untrained with model.critic \"" + c.model.critic + "\"; use more than 0");
  require_effect("model.critic_path", c.model.critic_path, d.model.critic_path, c.model.critic == "separate",
                 "model.critic \"" + c.model.critic + '"', "set model.critic to \"separate\"");
  const auto of_critic = [&](const char* path, const auto& value, const auto& fallback) {
    require_effect(path, value, fallback, critic, "model.critic \"none\"",
                   "set model.critic to \"shared\" or \"separate\"");
  };
  of_critic("algorithm.bootstrap_cut_answers", c.algorithm.bootstrap_cut_answers, d.algorithm.bootstrap_cut_answers);
  of_critic("algorithm.value_loss", c.algorithm.value_loss, d.algorithm.value_loss);
  of_critic("algorithm.value_coef", c.algorithm.value_coef, d.algorithm.value_coef);
  of_critic("algorithm.value_clip", c.algorithm.value_clip, d.algorithm.value_clip);
  of_critic("trainer.value_lr", c.trainer.value_lr, d.trainer.value_lr);
  of_critic("trainer.value_epochs", c.trainer.value_epochs, d.trainer.value_epochs);
  of_critic("trainer.value_only_updates", c.trainer.value_only_updates, d.trainer.value_only_updates);
}

// Throws unless what happens to long answers fits together.
void check_long_answers(const AlgorithmConfig& a, const AlgorithmConfig& d) {
  require_effect("algorithm.overlong_buffer", a.overlong_buffer, d.overlong_buffer, a.overlong_penalty > 0,
                 "algorithm.overlong_penalty 0", "set algorithm.overlong_penalty to 1");
  if (a.overlong_penalty > 0 && a.overlong_buffer == 0)
    refuse_setting("algorithm.overlong_buffer", a.overlong_buffer,
                   "leaves no tokens over which algorithm.overlong_penalty " + setting_text(a.overlong_penalty) +
                       " could grow; use at least 1");
  require_effect("algorithm.bootstrap_cut_answers", a.bootstrap_cut_answers, d.bootstrap_cut_answers,
                 !a.mask_cut_answers, "algorithm.mask_cut_answers true", "set algorithm.mask_cut_answers to false");
}

// Other estimators compare the answers to a prompt, or correct for the policy that sampled them; drawing anew by the
// scores would change what they estimate.
void check_policy_filtration(const AlgorithmConfig& a, const AlgorithmConfig& d) {
  require_effect("algorithm.policy_filtration", a.policy_filtration, d.policy_filtration,
                 find_advantage(a.advantage).name == "gae", "algorithm.advantage \"" + a.advantage + '"',
                 "set algorithm.advantage to \"gae\"");
  require_effect("algorithm.policy_filtration_power", a.policy_filtration_power, d.policy_filtration_power,
                 a.policy_filtration == "pow", "algorithm.policy_filtration \"" + a.policy_filtration + '"',
                 "set algorithm.policy_filtration to \"pow\"");
}

void check_reference(const RunConfig& c, const RunConfig& d) {
  const ReferenceConfig &r = c.reference, &fallback = d.reference;
  if (!r.used())
    require_defaults(kWords<"reference">, c, "reference.model \"none\"", "set reference.model to \"start\"");
  const bool adaptive = r.kl_controller == "adaptive";
  const std::string fixed = "reference.kl_controller \"fixed\"", adapt = "set reference.kl_controller to \"adaptive\"";
  require_effect("reference.kl_target", r.kl_target, fallback.kl_target, adaptive, fixed, adapt);
  require_effect("reference.kl_horizon", r.kl_horizon, fallback.kl_horizon, adaptive, fixed, adapt);
  reference_kl(r);  // throws for a name that does not fit
  if (!adaptive) return;
  if (r.kl_coef == 0)
    refuse_setting("reference.kl_coef", r.kl_coef,
                   "stays 0 with reference.kl_controller \"adaptive\"; start above 0, like 0.01");
  const double least = static_cast<double>(c.trainer.super_batch) / 5;  // a fifth: see algorithms/losses/kl.h
  if (r.kl_horizon <= least)
    refuse_setting("reference.kl_horizon", r.kl_horizon,
                   "lets one update of trainer.super_batch " + setting_text(c.trainer.super_batch) +
                       " answers turn the sign of kl_coef; use more than " + setting_text(least));
}

void check_reward_model(const RunConfig& c, const RunConfig& d) {
  const std::string none = "reward_model.path \"\"", set = "set reward_model.path to the folder of a reward model";
  if (!c.reward_model.used()) require_defaults(kWords<"reward_model">, c, none, set);
  require_effect("task.weight", c.task.weight, d.task.weight, c.reward_model.used(), none, set);
  if (c.task.weight == 0 && c.reward_model.weight == 0)
    refuse_setting("reward_model.weight", c.reward_model.weight,
                   "and task.weight 0 make every reward 0; use another weight for one of them");
}

void check_scorers(const RunConfig& c) {
  if (!has_scorers(c))
    require_defaults(kWords<"scorers">, c, "reference.computed_by \"trainer\" and reward_model.computed_by \"workers\"",
                     "set reference.computed_by or reward_model.computed_by to \"scorers\"");
}

void check_turns(const RunConfig& c, const RunConfig& d) {
  const bool several = c.task.turns > 1;
  require_effect("task.message_tokens", c.task.message_tokens, d.task.message_tokens, several, "task.turns 1",
                 "set task.turns");
  require_effect("task.reply", c.task.reply, d.task.reply, several, "task.turns 1", "set task.turns");
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

}  // namespace

void require_defaults(std::span<const std::string_view> sections, RunConfig config, const std::string& because,
                      const std::string& instead) {
  RunConfig defaults;
  require_effect_of(sections, infos_of(describe(config)), infos_of(describe(defaults)), because, instead);
}

void check_verifier(const RunConfig& config) {
  const TaskConfig &task = config.task, defaults;
  const bool used = !task.verifier.empty();
  const auto only_with = [](bool any, const char* path, const auto& value, const auto& fallback) {
    require_effect(path, value, fallback, any, "task.verifier \"\"", "set task.verifier to py:MODULE:CALLABLE");
  };
  const bool any = used || !task.reply.empty();
  only_with(any, "task.python", task.python, defaults.python);
  only_with(any, "task.verifier_timeout_ms", task.verifier_timeout, defaults.verifier_timeout);
  only_with(any, "task.verifier_start_timeout_ms", task.verifier_start_timeout, defaults.verifier_start_timeout);
  only_with(any, "task.verifier_batch", task.verifier_batch, defaults.verifier_batch);
  only_with(used, "task.verifier_processes", task.verifier_processes, defaults.verifier_processes);
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

void check_answer_settings(const RunConfig& config) {
  const RunConfig defaults;
  check_verifier(config);
  check_without_environment(config, defaults);
  require_effect("stop.after_warmup", config.stop.after_warmup, false, config.warmup.steps > 0, "warmup.steps 0",
                 "set warmup.steps");
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
  check_critic(config, defaults);
  check_long_answers(config.algorithm, defaults.algorithm);
  check_policy_filtration(config.algorithm, defaults.algorithm);
  check_reference(config, defaults);
  check_reward_model(config, defaults);
  check_scorers(config);
  check_turns(config, defaults);
  check_evaluation(config.evaluation);
  if (config.algorithm.kl == "full")
    refuse_setting("algorithm.kl", config.algorithm.kl, "cannot be used in token runs yet; use \"k3\"");
  check_devices(config);
}

}  // namespace troupe
