#pragma once
// Collates the units of a super-batch into contiguous rows, one row per sample, without any tensor library. A pure function;
// any thread.

#include <cstdint>
#include <vector>

#include "algorithms/common/algorithm_choice.h"
#include "envs/env.h"
#include "models/networks/inputs.h"
#include "models/rollout.h"

namespace troupe {

// T steps of n columns, time-major; the rows before them belong to other segments.
struct StagedSegment {
  int64_t first_row = 0;
  int64_t steps = 0;
  int64_t columns = 0;
};

struct StagedRows {
  int64_t rows = 0;                  // R; all of them samples unless there are segments
  std::vector<Array> inputs;         // of the network, each [R, ...]; not normalised until the update begins
  Array action_mask;                 // [R, M] uint8, or empty
  Array actions;                     // [R, D] int32 or float32
  Array log_probs;                   // [R, D]
  Array policy_parameters;           // [R, P] of the behaviour policy; empty unless rollouts carry them
  Array executed;                    // [R] int32 decisions that were executed, from the first on; empty = all
  Array values;                      // [R] of the behaviour policy
  Array advantages;                  // [R] of the rollout; empty where the trainer makes them
  Array returns;                     // [R] likewise
  std::vector<int64_t> sample_rows;  // the rows to train on, ascending

  // With whole columns; empty otherwise.
  std::vector<StagedSegment> segments;
  Array rewards, next_values;          // [R]
  Array terminated, truncated, valid;  // [R] uint8
  Array task;                          // [R] int32, or empty
  // Where the rollouts brought them along.
  std::vector<Array> bootstrap_inputs;  // each [C, ...]: of the observations after a segment's end or a cut
  std::vector<int64_t> bootstrap_rows;  // [C] the row whose next observation it is

  // Decisions of a row that were executed.
  int64_t decisions_of(int64_t row) const {
    return executed.empty() ? log_probs.row_size() : executed.view<int32_t>()[static_cast<size_t>(row)];
  }
};

// Only valid steps become rows, unless `whole_columns` asks for all. Throws InvariantError naming what does not fit when a
// rollout is not one of this environment.
StagedRows stage_rows(const SuperBatch& batch, const EnvSpec& env, const InputEncoder& encoder, bool whole_columns,
                      const RolloutExtras& extras = {});

}  // namespace troupe
