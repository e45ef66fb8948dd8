#pragma once
// What the section "algorithm" of a run file chooses, looked up in the tables of this folder and checked: names,
// parameters, and whether they go together. Needs no LibTorch, so every program refuses a wrong run file before
// anything starts. Plain values.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/advantages/advantages.h"
#include "algorithms/common/algorithm_config.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/kl.h"
#include "algorithms/losses/rollout_correction.h"
#include "algorithms/losses/surrogate.h"
#include "algorithms/losses/value_loss.h"

namespace troupe {

// Which arrays the rollouts of a run have beside those that all rollouts have.
struct RolloutExtras {
  bool advantages = true;
  bool returns = true;
  bool next_observations = false;  // last_observations, final_observations and final_steps
  bool tasks = false;
  bool policy_parameters = false;
};

struct AlgorithmChoice {
  const AdvantageEntry* advantage = nullptr;  // of the table; never null once chosen
  ParameterValues advantage_parameters;       // of its function, where the run calls that
  std::optional<WhitenParams> whitening;      // of all advantages of a super-batch

  Surrogate surrogate;
  bool per_decision = false;  // one ratio per decision instead of one per sample
  Aggregation aggregation = Aggregation::token_mean;
  std::optional<double> aggregation_length;  // L of seq-mean-token-sum-norm
  ValueLossParams value_loss;
  KlEstimator kl;
  std::optional<RolloutCorrection> correction;

  // Whether samples are put together to sequences, and whether minibatches hold whole ones.
  bool sequences = false;
  bool whole_sequences = false;
  bool columns = false;  // whether batches are made of whole columns of rollouts
  bool start = false;    // whether the policy from before an update evaluates the samples
};

// Throws ConfigError beginning with the JSON path of what is wrong: "algorithm.surrogate_params.tua_pos: unknown key,
// did you mean algorithm.surrogate_params.tau_pos?".
AlgorithmChoice choose_algorithm(const AlgorithmConfig& config);

RolloutExtras rollout_extras(const AlgorithmConfig& config);

// The same with the rule between this section and trainer.micro_batch, and settings that have no effect. To be called
// next to validate().
void check_algorithm(const AlgorithmConfig& config, int64_t micro_batch);

// Only whether the names are in their tables. To be called before validate(), whose answer to a wrong name would be
// about its effect.
void check_names(const AlgorithmConfig& config);

// Replaces other spellings by the one that is stored: aliases of estimators, surrogates and KL estimates by the name of
// their table, a negative entropy_coef_end by -1. Means the same. A surrogate beside clip_config, whose entries go by
// its very name, stays as it is.
void use_canonical_spelling(AlgorithmConfig& config);

// The names that the table behind `path` ("algorithm.advantage", "algorithm.surrogate" or "algorithm.kl") lists,
// without their other spellings; none for any other path.
std::vector<std::string> names_for(std::string_view path);

// Whether the estimator compares the sequences of a group.
bool needs_groups(const AlgorithmChoice& choice);

// Whether the estimator asks for the probabilities of all actions, not only of those taken.
bool needs_probabilities(const AlgorithmChoice& choice);

// The parameters of one name, for help and documentation.
struct ChoiceParameters {
  std::string path;                  // "algorithm.surrogate_params"
  std::string choice;                // the name they belong to: "sapo"; empty = always
  std::vector<std::string> aliases;  // other spellings of the name
  std::vector<SettingInfo> parameters;
};
// All of `algorithm.advantage_params`, `.surrogate_params` and `.rollout_correction`.
std::vector<ChoiceParameters> algorithm_parameters();

// The schema of run files (actors/config/config.h) with the names and parameters of the tables put in.
std::string algorithm_schema(const std::string& schema);

}  // namespace troupe
