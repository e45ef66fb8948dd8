#pragma once
// The section "algorithm" of a config file: how advantages and losses are computed. Plain values; any thread. AcceRL is
// an asynchronous trainer of robot policies (Lu et al. 2026, arXiv:2603.18464).

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct AlgorithmConfig {
  // The names and their parameters are looked up in the tables of algorithms/ (algorithm_choice.h).
  std::string advantage = "gae";  // "gae", "vtrace" or a name of the advantage table
  std::string advantage_params = "{}";
  double gamma = 0.99;
  double lambda = 0.95;
  bool bootstrap_on_truncation = true;
  bool bootstrap_cut_answers = false;  // an answer that was cut at its largest length has the value of what follows
  double rho_bar = 1.0;                // upper bounds of V-trace
  double c_bar = 1.0;
  double pg_rho_bar = 1.0;
  std::string vtrace_adv = "unweighted";  // or "pg_rho": also multiply by the clipped importance weight
  std::string incomplete = "bootstrap";   // for sequences that do not end in a terminal state; or "drop"
  std::string group_by = "batch";         // groups within which sequences are compared; or "task"
  bool normalize_advantages = true;       // over the whole super-batch, before it is split into minibatches
  std::string whitening = "auto";         // a variant, "none", or "auto" = the one that suits the estimator
  std::string surrogate = "clip";         // a name of the surrogate table
  std::string surrogate_params = "{}";
  std::string clip_config = "{}";  // parameters in AcceRL's format: {surrogate: {key: value}}
  // Common parameters of surrogates; unset = the surrogate's own default.
  std::optional<double> clip_low, clip_high;
  std::optional<double> dual_clip;   // bound c > 1 for negative advantages; 0 = off
  std::string ratio = "joint";       // or "per_dimension": one importance ratio per action dimension
  std::string aggregation = "auto";  // of token losses to one number: a mode, or "auto" = the surrogate's own
  double aggregation_length = 0.0;   // L of "seq-mean-token-sum-norm"; 0 = the tokens of rollout.length steps
  double reward_clip = 0.0;          // scores of answers are clipped to this magnitude; 0 = off
  double overlong_penalty = 0.0;     // of an answer of the largest length, subtracted from its score; 0 = off
  int64_t overlong_buffer = 0;       // tokens before the largest length over which it grows from 0
  bool mask_cut_answers = false;     // answers that were cut at their largest length have no loss
  // How PF-PPO weights answers by their scores, and the power of the score with "pow".
  std::string policy_filtration = "none";
  double policy_filtration_power = 2.0;
  std::string rollout_correction = "{}";
  std::string proximal = "computed";  // token runs: the old policy of a correction; or "interpolated", "rollout"
  std::string value_loss = "l2";      // or "huber"
  double value_coef = 0.5;
  double value_clip = 0.0;  // 0 = off
  double huber_delta = 1.0;
  double entropy_coef = 0.0;
  double entropy_coef_end = -1.0;       // linear schedule to this value; negative = constant
  std::string kl = "k3";                // estimate of KL(behaviour || current) for the penalty
  double kl_coef = 0.0;                 // its weight in the loss
  std::string kl_controller = "fixed";  // or "adaptive": kl_coef follows the measured KL
  double kl_target = 0.01;              // per token
  double kl_horizon = 100'000.0;        // in samples
  double target_kl = 0.0;               // no further epochs once the k3 estimate exceeds this; 0 = off
  friend bool operator==(const AlgorithmConfig&, const AlgorithmConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(AlgorithmConfig& config, Fields& fields);

}  // namespace troupe
