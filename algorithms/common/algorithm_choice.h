#pragma once
// What the section "algorithm" of a run file chooses, looked up in the tables of this folder and checked: names, parameters, and
// whether they go together. Needs no LibTorch, so every program refuses a wrong run file before anything starts. Plain values.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/advantages/advantages.h"
#include "algorithms/common/moments.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/kl.h"
#include "algorithms/losses/rollout_correction.h"
#include "algorithms/losses/surrogate.h"
#include "algorithms/losses/value_loss.h"
#include "runtime/config/run_config.h"

namespace troupe {

struct AlgorithmChoice {
  // Of the table; nullptr: the GAE that rollouts carry, or V-trace.
  const AdvantageEntry* advantage = nullptr;
  ParameterValues advantage_parameters;
  bool vtrace = false;
  std::optional<WhitenParams> whitening;  // of all advantages of a super-batch

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
};

// Throws ConfigError beginning with the JSON path of what is wrong: "algorithm.surrogate_params.tua_pos: unknown key, did you mean
// tau_pos?".
AlgorithmChoice choose_algorithm(const AlgorithmConfig& config);

// The same for a whole run, with the rules between this section and the others. To be called next to validate().
void check_algorithm(const RunConfig& config);

// Only whether the names are in their tables. To be called before validate(), whose answer to a wrong name would be about its effect.
void check_names(const AlgorithmConfig& config);

// The names that the table behind `path` ("algorithm.advantage" or "algorithm.surrogate") lists, without their other spellings; none
// for any other path.
std::vector<std::string> names_for(std::string_view path);

// Whether the estimator asks for the probabilities of all actions, not only of those taken.
bool needs_probabilities(const AlgorithmChoice& choice);

// A parameter of `algorithm.advantage_params`, `.surrogate_params` or `.rollout_correction` for help and schema.
struct ChoiceField {
  std::string path;      // "algorithm.surrogate_params"
  std::string choice;    // the name it belongs to: "sapo"; empty = always
  std::string key;       // "tau_pos"
  std::string fallback;  // default as JSON text; "null" = unset
  std::string expected;  // "a number above 0"
  std::string help;
};
std::vector<ChoiceField> algorithm_fields();

// The schema of run files (runtime/config/config.h) with the names and parameters of the tables put in.
std::string algorithm_schema(const std::string& schema);

}  // namespace troupe
