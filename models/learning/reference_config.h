#pragma once
// The section "reference" of a config file: the frozen policy of a token run that the trained one is kept close to.
// Plain values; any thread.

#include <string>
#include <string_view>

#include "algorithms/losses/kl.h"
#include "runtime/config/fields.h"

namespace troupe {

struct ReferenceConfig {
  std::string model = "none";           // or "start": the weights with which training starts, after a warm-up
  std::string computed_by = "trainer";  // or "scorers", which are actors and processes of their own
  std::string place = "reward";         // where the KL counts: in the rewards of tokens, or in the "loss"
  std::string kl = "auto";  // an estimate (algorithms/losses/kl.h); "auto": k1 in the reward, k3 in the loss
  double kl_coef = 0.01;    // its weight
  std::string kl_controller = "fixed";  // or "adaptive": kl_coef follows the measured KL
  double kl_target = 0.1;               // per token
  double kl_horizon = 10'000.0;         // in answers
  friend bool operator==(const ReferenceConfig&, const ReferenceConfig&) = default;

  bool used() const { return model != "none"; }
  bool in_reward() const { return place == "reward"; }
  bool by_scorers() const { return used() && computed_by == "scorers"; }
};

// Adds the settings of the section, whose values are those of `config`.
void describe(ReferenceConfig& config, Fields& fields);

// Throws ConfigError for a name that is unknown, or that stands for nothing where the KL counts.
KlEstimator reference_kl(const ReferenceConfig& config);

}  // namespace troupe
