#include "models/learning/recurrence.h"

#include <algorithm>
#include <string>

#include "models/networks/network_layout.h"
#include "runtime/config/setting_rules.h"

namespace troupe {

namespace {

// Long enough for most memory tasks; longer ones cost time, because the steps of a sequence follow each other.
constexpr int64_t kLongestByDefault = 32;
// Gradients through fewer steps teach little memory, so shorter sequences are never chosen by default.
constexpr int64_t kShortestByDefault = 8;

int64_t default_sequence(int64_t rollout_length) {
  for (int64_t steps = kLongestByDefault; steps > 1; --steps)
    if (rollout_length % steps == 0) return steps;
  return 1;
}

// "4 or 8": the divisors of `length` nearest to `wrong`, which is none.
std::string nearest_divisors(int64_t length, int64_t wrong) {
  if (wrong > length) return setting_text(length);
  int64_t below = wrong, above = wrong;
  while (length % below != 0) --below;
  while (length % above != 0) ++above;
  return setting_text(below) + " or " + setting_text(above);
}

}  // namespace

Recurrence recurrence_of(const LearnerConfig& config, const EnvSpec& env) {
  const ModelConfig& model = config.model;
  const ModelConfig defaults;
  Recurrence result;
  // A token_transformer has no state, and its layout may need the base's file, which a worker lacks.
  if (model.kind != kTokenTransformerKind) result.state_size = network_layout(model, env).state_size;
  const bool recurrent = result.state_size > 0;
  const std::string without = "a model that is not recurrent",
                    add_core = (model.kind == "net" ? "set " : "set model.kind to \"net\" and ") +
                               std::string("model.net.core.kind to \"gru\" or \"lstm\"");
  require_effect("model.sequence", model.sequence, defaults.sequence, recurrent, without, add_core);
  require_effect("model.burn_in", model.burn_in, defaults.burn_in, recurrent, without, add_core);
  if (!recurrent) return result;
  const int64_t length = config.rollout_length;
  const std::string rollout = "rollout.length " + setting_text(length);
  result.sequence = model.sequence > 0 ? model.sequence : default_sequence(length);
  if (length % result.sequence != 0)
    refuse_setting(
        "model.sequence", model.sequence,
        "does not divide " + rollout + "; use a divisor of it, like " + nearest_divisors(length, model.sequence));
  if (model.sequence == 0 && result.sequence < std::min(length, kShortestByDefault))
    refuse_setting("rollout.length", length,
                   "has no divisor from " + setting_text(kShortestByDefault) + " to " +
                       setting_text(kLongestByDefault) +
                       " for the sequences of a recurrent model; use a multiple of 16, or set model.sequence");
  result.burn_in = model.burn_in;
  if (result.burn_in >= result.sequence)
    refuse_setting("model.burn_in", model.burn_in,
                   "leaves nothing to train on of the " + setting_text(result.sequence) +
                       " steps of a sequence (model.sequence); use at most " + setting_text(result.sequence - 1));
  return result;
}

}  // namespace troupe
