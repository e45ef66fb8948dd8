#include "models/learning/environment_rules.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>

#include "algorithms/choice/algorithm_choice.h"
#include "models/experience/rollout_units.h"
#include "models/learning/recurrence.h"
#include "runtime/config/setting_rules.h"

namespace troupe {

namespace {

// A recurrent model is trained on parts of episodes, so the loss must not need whole ones.
[[noreturn]] void refuse_whole_episodes(const AlgorithmConfig& algorithm, const AlgorithmChoice& choice,
                                        int64_t sequence) {
  const bool by_surrogate = choice.surrogate.entry->needs == SurrogateNeeds::sequence;
  const bool by_aggregation =
      choice.aggregation != Aggregation::token_mean && !(by_surrogate && algorithm.aggregation == "auto");
  std::string what, instead;
  if (by_surrogate) {
    what = "algorithm.surrogate \"" + algorithm.surrogate + '"';
    instead = "set algorithm.surrogate to one that reads single steps, like \"clip\"";
  }
  if (by_aggregation) {
    what += (by_surrogate ? " and " : "") + ("algorithm.aggregation \"" + algorithm.aggregation + '"');
    instead += (by_surrogate ? " and " : "set ") + std::string("algorithm.aggregation to \"token-mean\"");
  }
  throw ConfigError("model.net.core: is trained on sequences of " + std::to_string(sequence) +
                    " steps (model.sequence), but " + what + (by_surrogate && by_aggregation ? " need" : " needs") +
                    " whole episodes; " + instead);
}

void check_recurrence(const LearnerConfig& config, const EnvSpec& env, const AlgorithmChoice& choice) {
  const Recurrence recurrence = recurrence_of(config, env);
  if (recurrence.state_size == 0) return;
  if (choice.whole_sequences) refuse_whole_episodes(config.algorithm, choice, recurrence.sequence);
  const TrainerConfig& trainer = config.trainer;
  const int64_t sequences = trainer.super_batch / recurrence.sequence;
  if (trainer.minibatches > sequences)
    refuse_setting("trainer.minibatches", trainer.minibatches,
                   "is more than the " + setting_text(sequences) + " sequences of trainer.super_batch " +
                       setting_text(trainer.super_batch) + " / " + setting_text(recurrence.sequence) +
                       " steps (model.sequence); use at most " + setting_text(std::max<int64_t>(sequences, 1)));
  if (trainer.micro_batch > 0 && trainer.micro_batch < recurrence.sequence)
    refuse_setting("trainer.micro_batch", trainer.micro_batch,
                   "is less than one sequence of " + setting_text(recurrence.sequence) +
                       " steps (model.sequence), which a recurrent model is trained on as a whole; use at least " +
                       setting_text(recurrence.sequence) + ", or 0 for the whole minibatch");
}

}  // namespace

void check_fit(const LearnerConfig& config, const EnvSpec& env) {
  if (env.observations.empty()) throw ConfigError("env.id: " + env.id + " gives no observations");
  if (env.action.dims() < 1) throw ConfigError("env.id: " + env.id + " takes no actions");
  if (env.action.masked && env.action.chunk != 1)
    throw ConfigError("env.chunk: " + std::to_string(env.action.chunk) + ", but " + env.id +
                      " masks its actions, which needs a chunk of 1");
  const AlgorithmConfig& algorithm = config.algorithm;
  const AlgorithmChoice choice = choose_algorithm(algorithm);
  if (needs_probabilities(choice) && env.action.kind == ActionKind::continuous)
    throw ConfigError("algorithm.advantage: \"" + algorithm.advantage +
                      "\" needs probabilities of categories, but the actions of " + env.id + " are continuous");
  if (needs_groups(choice) && algorithm.group_by == "task" && env.tasks.empty())
    throw ConfigError("algorithm.group_by: \"task\", but " + env.id + " has no tasks; use \"batch\"");
  if (frees_gradients(config.trainer) && config.trainer.device != "cpu")
    refuse_setting("trainer.zero", config.trainer.zero,
                   "frees gradients on the CPU alone, and trainer.device is " + setting_text(config.trainer.device) +
                       "; use 1, or trainer.device \"cpu\"");
  check_recurrence(config, env, choice);
}

std::optional<std::string> bounds_out_of_reach(const ModelConfig& model, const EnvSpec& env) {
  constexpr double kAlmostAll = 0.95;
  const ActionSpec& action = env.action;
  if (action.kind != ActionKind::continuous) return std::nullopt;
  const double std = std::exp(model.log_std_start);
  const auto share_below = [&](double x) { return 0.5 * std::erfc(-x / (std * std::sqrt(2.0))); };  // the mean is 0
  for (size_t a = 0; a < action.low.size(); ++a) {
    const double clipped = std::max(share_below(action.low[a]), 1 - share_below(action.high[a]));
    if (clipped < kAlmostAll) continue;
    std::ostringstream text;
    text.precision(4);
    text << "component " << a << " of the actions of " << env.id << " has the bounds " << action.low[a] << " and "
         << action.high[a] << ", but the first policy has mean 0 and standard deviation " << std << ": "
         << 100 * clipped
         << " % of its actions are clipped to the same bound, so there is almost nothing to learn from; set "
            "env.normalize_actions to true";
    return text.str();
  }
  return std::nullopt;
}

void check_draw(const std::string& draw, const AlgorithmConfig& algorithm, const Recurrence& recurrence) {
  if (unit_kind(draw) == UnitKind::column) return;
  const AlgorithmChoice choice = choose_algorithm(algorithm);
  std::string what;
  if (recurrence.state_size > 0)
    what = "model.net.core, whose state depends on the steps before,";
  else if (choice.advantage->run.columns)
    what = "algorithm.advantage \"" + algorithm.advantage + '"';
  else if (choice.correction)
    what = "algorithm.rollout_correction";
  else if (choice.whole_sequences)
    what = "algorithm.surrogate \"" + algorithm.surrogate + "\" with algorithm.aggregation \"" + algorithm.aggregation +
           '"';
  else
    return;
  refuse_setting("replay.draw", draw,
                 "takes single steps out of rollouts, but " + what + " needs whole columns of them; use \"column\"");
}

void check_unused_settings(const ModelConfig& m, const AlgorithmConfig& a, const EnvSpec& env) {
  const ModelConfig d;
  const AlgorithmConfig e;
  const bool continuous = env.action.kind == ActionKind::continuous;
  const std::string discrete = "env.id \"" + env.id + "\", whose actions are discrete";
  require_effect("model.log_std", m.log_std, d.log_std, continuous, discrete, "");
  require_effect("model.log_std_start", m.log_std_start, d.log_std_start, continuous, discrete, "");
  require_effect("model.log_std_end", m.log_std_end, d.log_std_end, continuous, discrete, "");
  require_effect("algorithm.ratio", a.ratio, e.ratio, env.action.decisions() > 1,
                 "env.id \"" + env.id + "\", whose actions have one dimension and one step", "");
  // The entropy of a Gaussian depends only on its standard deviation. If a schedule sets that, an entropy bonus has no
  // gradient.
  const bool learned_entropy = !(continuous && m.log_std == "scheduled");
  const std::string scheduled = "model.log_std \"scheduled\", which sets the entropy of continuous actions";
  const std::string learn = "set model.log_std to \"state_independent\"";
  require_effect("algorithm.entropy_coef", a.entropy_coef, e.entropy_coef, learned_entropy, scheduled, learn);
  require_effect("algorithm.entropy_coef_end", a.entropy_coef_end, e.entropy_coef_end, learned_entropy, scheduled,
                 learn);
}

}  // namespace troupe
