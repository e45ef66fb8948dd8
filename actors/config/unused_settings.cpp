// A setting that has no effect because of another setting must have its default. A user who sets it would otherwise
// expect an effect that it cannot have. models/learning/environment_rules.cpp has the rules that depend on the
// environment, algorithms/choice/algorithm_choice.cpp those that depend on the tables of algorithms/.

#include "actors/config/unused_settings.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

std::string with(const char* path, const auto& value) { return std::string(path) + ' ' + setting_text(value); }

void check_losses(const RunConfig& c, const RunConfig& defaults) {
  const AlgorithmConfig &a = c.algorithm, &d = defaults.algorithm;
  const TrainerConfig& t = c.trainer;
  const bool values = a.value_coef > 0;
  const std::string no_values = "algorithm.value_coef 0", more_values = "set algorithm.value_coef above 0";
  require_effect("algorithm.value_loss", a.value_loss, d.value_loss, values, no_values, more_values);
  require_effect("algorithm.value_clip", a.value_clip, d.value_clip, values, no_values, more_values);
  require_effect("algorithm.huber_delta", a.huber_delta, d.huber_delta, a.value_loss == "huber",
                 with("algorithm.value_loss", a.value_loss), "set algorithm.value_loss to \"huber\"");
  require_effect("trainer.value_lr", t.value_lr, defaults.trainer.value_lr, values || t.weight_decay > 0, no_values,
                 more_values);
  require_effect("algorithm.aggregation_length", a.aggregation_length, d.aggregation_length,
                 a.aggregation == "seq-mean-token-sum-norm", with("algorithm.aggregation", a.aggregation),
                 "set algorithm.aggregation to \"seq-mean-token-sum-norm\"");
}

void check_kl(const AlgorithmConfig& a, const AlgorithmConfig& d, int64_t epochs) {
  const bool adaptive = a.kl_controller == "adaptive";
  const std::string fixed = with("algorithm.kl_controller", a.kl_controller),
                    adapt = "set algorithm.kl_controller to \"adaptive\"";
  require_effect("algorithm.kl", a.kl, d.kl, a.kl_coef > 0, "algorithm.kl_coef 0", "set algorithm.kl_coef above 0");
  require_effect("algorithm.kl_target", a.kl_target, d.kl_target, adaptive, fixed,
                 adapt + ", use algorithm.target_kl (which ends epochs early)");
  require_effect("algorithm.kl_horizon", a.kl_horizon, d.kl_horizon, adaptive, fixed, adapt);
  require_effect("algorithm.target_kl", a.target_kl, d.target_kl, epochs > 1, "trainer.epochs 1",
                 "set trainer.epochs to at least 2");
}

void check_model(const ModelConfig& m, const ModelConfig& d) {
  const bool mlp = m.kind == "mlp", layered = mlp || m.kind == kTokenTransformerKind;
  const std::string kind = with("model.kind", m.kind);
  require_effect("model.hidden", m.hidden, d.hidden, layered, kind, "describe the layers in model.net");
  require_effect("model.shared_trunk", m.shared_trunk, d.shared_trunk, mlp,
                 kind + (layered ? "" : ", whose trunk is shared unless model.net has a value_trunk"), "");
  if (m.kind != "net" && m.net != d.net)
    throw ConfigError("model.net: has no effect with " + kind + "; set model.kind to \"net\", or model.net to {}");
  const std::string no_layers = "model.hidden []", add_layers = "give model.hidden at least one layer";
  require_effect("model.activation", m.activation, d.activation, !layered || !m.hidden.empty(), no_layers, add_layers);
  require_effect("model.shared_trunk", m.shared_trunk, d.shared_trunk, !m.hidden.empty(), no_layers, add_layers);
  require_effect("model.log_std_end", m.log_std_end, d.log_std_end, m.log_std == "scheduled",
                 with("model.log_std", m.log_std), "set model.log_std to \"scheduled\"");
  require_effect("model.observation_clip", m.observation_clip, d.observation_clip, m.normalize_observations,
                 "model.normalize_observations false", "set model.normalize_observations to true");
}

void check_course(const RunConfig& c, const RunConfig& d) {
  const TrainerConfig& t = c.trainer;
  require_effect("workers.restart_backoff_ms", c.workers.restart_backoff, d.workers.restart_backoff,
                 c.workers.quarantine_after > 1, "workers.quarantine_after 1",
                 "set workers.quarantine_after to at least 2");
  require_effect("replay.max_reuse", c.replay.max_reuse, d.replay.max_reuse, c.replay.mode == "reuse",
                 with("replay.mode", c.replay.mode), "set replay.mode to \"reuse\"");
  require_effect("replay.late", c.replay.late, d.replay.late, c.replay.mode == "consume_once",
                 with("replay.mode", c.replay.mode), "set replay.mode to \"consume_once\"");
  const std::string schedule = with("trainer.lr_schedule", t.lr_schedule);
  require_effect("trainer.lr_min_ratio", t.lr_min_ratio, d.trainer.lr_min_ratio, t.lr_schedule != "constant", schedule,
                 "set trainer.lr_schedule to \"linear\", \"cosine\" or \"wsd\"");
  require_effect("trainer.lr_stable_ratio", t.lr_stable_ratio, d.trainer.lr_stable_ratio, t.lr_schedule == "wsd",
                 schedule, "set trainer.lr_schedule to \"wsd\"");
}

// Settings of the network and of timers are accepted in deterministic runs, although they have no effect there: a user
// who adds `deterministic: true` to a config need not remove them.
void check_outside(const RunConfig& c, const RunConfig& d) {
  require_effect("stats.every_updates", c.stats.every_updates, d.stats.every_updates, c.deterministic,
                 "deterministic false", "use stats.interval_ms");
}

}  // namespace

void check_unused_settings(const RunConfig& config) {
  const RunConfig defaults;
  check_losses(config, defaults);
  check_kl(config.algorithm, defaults.algorithm, config.trainer.epochs);
  check_model(config.model, defaults.model);
  check_course(config, defaults);
  check_outside(config, defaults);
}

}  // namespace troupe
