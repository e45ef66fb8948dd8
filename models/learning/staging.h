#pragma once
// Collates the units of a super-batch into contiguous arrays with one entry per sample, without any tensor library. A
// pure function; any thread.

#include <cstdint>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "envs/env.h"
#include "models/experience/rollout.h"
#include "models/networks/inputs.h"

namespace troupe {

// The part of a rollout that a batch holds: T steps of n of its columns, time-major, in consecutive samples.
struct StagedRollout {
  int64_t first_sample = 0;
  int64_t steps = 0;
  int64_t columns = 0;
};

// The samples of a batch. With whole columns the void steps (`valid` 0) are among them, so that every column keeps all
// its steps; they are not trained on. Nor are incomplete sequences that the algorithm drops (targets.h), nor the
// burn-in of chunks (trained_samples() in chunks.h).
struct StagedSamples {
  int64_t count = 0;             // B
  std::vector<Array> inputs;     // of the network, each [B, ...]; not normalised until the update begins
  Array action_mask;             // [B, M] uint8, or empty
  Array actions;                 // [B, D] int32 or float32
  Array log_probs;               // [B, D]
  Array policy_parameters;       // [B, P] of the behaviour policy; empty unless rollouts carry them
  Array executed;                // [B] int32 decisions that were executed, from the first on; empty = all
  Array values;                  // [B] of the behaviour policy
  Array advantages;              // [B] of the rollout; empty where the trainer makes them
  Array returns;                 // [B] likewise
  Array versions;                // [B] int64 policy version; empty unless staged by stage_versions()
  std::vector<uint8_t> lags;     // [B] class of the policy lag (lag_classes.h); empty unless staged by stage_lags()
  std::vector<int64_t> trained;  // indices of the samples to train on, ascending

  // With whole columns; empty otherwise.
  std::vector<StagedRollout> rollouts;
  Array rewards, next_values;          // [B]
  Array terminated, truncated, valid;  // [B] uint8
  Array task;                          // [B] int32, or empty
  // If the rollouts carry them.
  std::vector<Array> bootstrap_inputs;     // each [C, ...]: of the observations after a rollout's last step or a cut
  std::vector<int64_t> bootstrap_samples;  // [C] the sample whose next observation it is

  // Decisions of a sample that were executed.
  int64_t decisions_of(int64_t sample) const {
    return executed.empty() ? log_probs.row_size() : executed.view<int32_t>()[static_cast<size_t>(sample)];
  }
};

// Takes only the valid steps, unless `whole_columns` asks for all. Throws InvariantError naming the mismatch when a
// rollout does not belong to this environment.
StagedSamples stage_samples(const SuperBatch& batch, const EnvSpec& env, const InputEncoder& encoder,
                            bool whole_columns, const RolloutExtras& extras = {});
// The policy version of each sample of that batch, [B] int64; empty when a rollout does not record it.
Array stage_versions(const SuperBatch& batch, bool whole_columns);
// The class of the policy lag of samples with these versions in that batch; empty without versions.
std::vector<uint8_t> stage_lags(const SuperBatch& batch, const Array& versions);

}  // namespace troupe
