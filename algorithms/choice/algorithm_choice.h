#pragma once
// The choices of the section "algorithm" of a config file: names looked up in the tables of this folder, with their
// parameters, and checked for compatibility. Does not need LibTorch, so every program rejects a wrong config file
// before it starts anything. Plain values.

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/advantages/advantages.h"
#include "algorithms/choice/algorithm_config.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/kl.h"
#include "algorithms/losses/proximal.h"
#include "algorithms/losses/rollout_correction.h"
#include "algorithms/losses/surrogate.h"
#include "algorithms/losses/value_loss.h"

namespace troupe {

// Which optional arrays the rollouts of a run carry.
struct RolloutExtras {
  bool advantages = true;
  bool returns = true;
  bool next_observations = false;  // last_observations, final_observations and final_steps
  bool tasks = false;
  bool policy_parameters = false;
};

struct AlgorithmChoice {
  const AdvantageEntry* advantage = nullptr;  // an entry of the table; never null in the result of choose_algorithm()
  ParameterValues advantage_parameters;       // of its function, if the run calls it
  std::optional<WhitenParams> whitening;      // of all advantages of a super-batch

  Surrogate surrogate;
  bool per_decision = false;  // one ratio per decision instead of one per sample
  Aggregation aggregation = Aggregation::token_mean;
  std::optional<double> aggregation_length;  // L of seq-mean-token-sum-norm
  ValueLossParams value_loss;
  KlEstimator kl;
  std::optional<RolloutCorrection> correction;
  Proximal proximal = Proximal::computed;  // of it, in token runs
  // Whether each step of an update makes its own.
  bool corrects_each_step() const { return correction && proximal == Proximal::interpolated; }

  // Whether samples are grouped into sequences, and whether minibatches hold only whole ones.
  bool sequences = false;
  bool whole_sequences = false;
  bool columns = false;  // whether batches consist of whole columns of rollouts
  bool start = false;    // whether the policy from before an update is evaluated on the samples
};

// Throws ConfigError that begins with the JSON path of the mistake: "algorithm.surrogate_params.tua_pos: unknown key,
// did you mean algorithm.surrogate_params.tau_pos?".
AlgorithmChoice choose_algorithm(const AlgorithmConfig& config);

RolloutExtras rollout_extras(const AlgorithmConfig& config);

// choose_algorithm(), and also checks the section against trainer.micro_batch and trainer.micro_batch_tokens, and
// rejects settings that have no effect. Call it together with validate().
void check_algorithm(const AlgorithmConfig& config, int64_t micro_batch, int64_t micro_batch_tokens = 0);

// Checks only that the names are in their tables. Call it before validate(), which would report a misspelled name by
// its consequences.
void check_names(const AlgorithmConfig& config);

// Replaces alternative spellings by the one that is stored: aliases of estimators, surrogates and KL estimates by their
// table names, a negative entropy_coef_end by -1. The meaning does not change. If clip_config is given, the surrogate
// stays unchanged, because the keys of clip_config are surrogate names as written.
void use_canonical_spelling(AlgorithmConfig& config);

// The names in the table behind `path` ("algorithm.advantage", "algorithm.surrogate" or "algorithm.kl"), without
// aliases. Empty for any other path.
std::vector<std::string> names_for(std::string_view path);

// Whether the estimator compares the sequences of a group.
bool needs_groups(const AlgorithmChoice& choice);

// Whether the estimator needs the probabilities of all actions, not only of the sampled ones.
bool needs_probabilities(const AlgorithmChoice& choice);

// The parameters of `algorithm.rollout_correction`.
std::span<const Setting> correction_settings();

// The parameters that belong to one name, for help and documentation.
struct ChoiceParameters {
  std::string path;                  // "algorithm.surrogate_params"
  std::string choice;                // the name they belong to, such as "sapo"; empty = valid for every choice
  std::vector<std::string> aliases;  // other spellings of the name
  std::vector<SettingInfo> parameters;
};
// All parameters of `algorithm.advantage_params`, `.surrogate_params` and `.rollout_correction`.
std::vector<ChoiceParameters> algorithm_parameters();

// The schema of config files (actors/config/config.h), extended with the names and parameters of the tables.
std::string algorithm_schema(const std::string& schema);

}  // namespace troupe
