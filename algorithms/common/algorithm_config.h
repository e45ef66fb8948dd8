#pragma once
// The section "algorithm" of a run file: how advantages and losses are made. Plain values; any thread. AcceRL is an
// asynchronous trainer of robot policies (Lu et al. 2026, arXiv:2603.18464).

#include <optional>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct AlgorithmConfig {
  // The names, and the parameters of what they name, are looked up in the tables of algorithms/ (algorithm_choice.h).
  std::string advantage = "gae";  // "gae", "vtrace" or a name of the advantage table
  std::string advantage_params = "{}";
  double gamma = 0.99;
  double lambda = 0.95;
  bool bootstrap_on_truncation = true;
  double rho_bar = 1.0;  // V-trace clips
  double c_bar = 1.0;
  double pg_rho_bar = 1.0;
  std::string vtrace_adv = "unweighted";  // or "pg_rho": multiply by the clipped importance weight a second time
  std::string incomplete = "bootstrap";   // sequences that do not end in a terminal state: or "drop"
  std::string group_by = "batch";         // what sequences are compared within: or "task"
  bool normalize_advantages = true;       // over the whole super-batch, before it is split
  std::string whitening = "auto";         // how: a variant's name, "none", or what fits the estimator
  std::string surrogate = "clip";         // a name of the surrogate table
  std::string surrogate_params = "{}";
  std::string clip_config = "{}";  // parameters as AcceRL writes them: {surrogate: {key: value}}
  // Common parameters of surrogates; while unset, the surrogate's own default counts.
  std::optional<double> clip_low, clip_high;
  std::optional<double> dual_clip;   // bound c > 1 for negative advantages; 0 = off
  std::string ratio = "joint";       // or "per_dimension": one importance ratio per action dimension
  std::string aggregation = "auto";  // how the losses of tokens become one: a mode, or the surrogate's own
  double aggregation_length = 0.0;   // L of "seq-mean-token-sum-norm"; 0 = tokens of rollout.length steps
  std::string rollout_correction = "{}";
  std::string value_loss = "l2";  // or "huber"
  double value_coef = 0.5;
  double value_clip = 0.0;  // 0 = off
  double huber_delta = 1.0;
  double entropy_coef = 0.0;
  double entropy_coef_end = -1.0;       // linear schedule to this value; negative = constant
  std::string kl = "k3";                // estimate of KL(behaviour || current) for the penalty
  double kl_coef = 0.0;                 // its weight in the loss
  std::string kl_controller = "fixed";  // or "adaptive": kl_coef follows the measured KL
  double kl_target = 0.01;              // per token
  double kl_horizon = 100'000.0;        // samples of updates
  double target_kl = 0.0;               // epochs stop when the k3 estimate passes this; 0 = off
  friend bool operator==(const AlgorithmConfig&, const AlgorithmConfig&) = default;
};

// Adds the settings of the section, whose values are those of `config`.
void describe(AlgorithmConfig& config, Fields& fields);

}  // namespace troupe
