#include "models/networks/model_config.h"

#include "models/networks/network_kinds.h"

namespace troupe {

void describe(ModelConfig& c, Fields& fields) {
  const Section s(fields, "model", "models/networks");
  s.add(c.kind, "kind", one_of(kNetworkNames), "the network: mlp, or what model.net describes");
  s.add(c.hidden, "hidden", between(1, kMostUnits), "units of each hidden layer; [] = a linear model");
  s.add_object(c.net, "net", "encoders by observation, trunk, core and value_trunk of kind net (docs/models.md)");
  s.add(c.sequence, "sequence", between(0, 65536),
        "recurrent core: consecutive steps that are trained together, a divisor of rollout.length; 0 = the largest one "
        "up to 32");
  s.add(c.burn_in, "burn_in", between(0, 65535),
        "recurrent core: steps at the beginning of each sequence that bring its state up to date and are not trained "
        "on");
  s.add(c.activation, "activation", one_of(kWords<"tanh", "relu", "elu", "gelu", "silu">), "between layers");
  s.add(c.shared_trunk, "shared_trunk", anything(), "policy and value use one trunk");
  s.add(c.normalize_observations, "normalize_observations", anything(),
        "subtract the running mean, divide by the running deviation");
  s.add(c.observation_clip, "observation_clip", above(0, 1e6), "magnitude normalised observations are clipped to");
  s.add(c.normalize_returns, "normalize_returns", anything(),
        "the value head predicts in units of the running return statistics");
  s.add(c.log_std, "log_std", one_of(kWords<"state_independent", "scheduled">),
        "log standard deviation of continuous actions: learnt, or moved from log_std_start to log_std_end");
  s.add(c.log_std_start, "log_std_start", between(-20, 5), "its first value");
  s.add(c.log_std_end, "log_std_end", between(-20, 5), "its last value, with log_std scheduled");
  s.add(c.policy_gain, "policy_gain", between(0, 100), "orthogonal initialisation gain of the policy head");
}

}  // namespace troupe
