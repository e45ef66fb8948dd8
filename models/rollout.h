#pragma once
// Rollout: what a worker pushes to replay: T consecutive steps of the N rows of one vector environment. Plain data;
// immutable once pushed. Every array is [T, N, ...] (time-major). Column n is the T steps of row n; a step whose
// `valid` is 0 (its environment failed there) is not a sample. Replay hands out samples in units
// (models/rollout_units.h).

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/answers.h"
#include "runtime/base/array.h"
#include "runtime/base/version.h"

namespace troupe {

// Episodes that ended, in the order of their last steps.
struct Episodes {
  Array returns;  // [E] float32, unscaled
  Array lengths;  // [E] int32 environment steps
  Array success;  // [E] uint8

  int64_t count() const { return returns.size(); }
};

struct Rollout {
  uint64_t worker = 0;    // number given when it joined
  uint32_t group = 0;     // which of the worker's vector environments
  uint64_t sequence = 0;  // per worker, from 0, without gaps
  uint32_t epoch = 0;     // epoch of the policy versions in `version`
  uint64_t oldest = 0;    // smallest and largest policy version number among the valid steps
  uint64_t newest = 0;
  uint64_t samples = 0;    // valid steps
  uint64_t env_steps = 0;  // environment steps executed for them (more than `samples` with action chunks)

  Arrays observations;  // each [T, N, ...] as the environment gave them (not normalised)
  Array action_mask;    // [T, N, M] uint8, or empty
  Array actions;        // [T, N, K, A] int32 or float32, as sampled (continuous: before clipping to the bounds)
  Array log_probs;      // [T, N, D] float32 of the behaviour policy per decision, D = K * A
  // [T, N] int32 environment steps of the chunk that were executed: fewer than K where the episode ended inside it. The
  // decisions of the others were never made. Empty = all of them, as always when K is 1.
  Array executed;
  Array values;  // [T, N] float32 V(s_t) of the behaviour policy, in reward units
  // [T, N] float32 V(s'_t): of the real next observation (the final one where an episode was cut off).
  Array next_values;
  Array rewards;     // [T, N] float32, scaled
  Array terminated;  // [T, N] uint8
  Array truncated;   // [T, N] uint8: cut off here; also set where a failed row's segment was closed
  Array valid;       // [T, N] uint8
  Array version;     // [T, N] int64 policy version number
  // What the algorithm asks for (RolloutExtras in algorithms/choice/algorithm_choice.h); empty otherwise.
  Array advantages;  // [T, N] float32 of GAE; 0 where not valid
  Array returns;     // [T, N] float32 value targets, the returns of GAE
  Array task;        // [T, N] int32 task of the step's episode
  // [T, N, P] float32 of the behaviour policy: its logits, or its means and log standard deviations
  // (ActionSpec::policy_parameters)
  Array policy_parameters;
  // The observations after the last step, and the final observations of episodes that were cut off inside.
  Arrays last_observations;   // each [N, ...]
  Arrays final_observations;  // each [F, ...]
  Array final_steps;          // [F, 2] int32: (t, n) of each of final_observations
  // With a recurrent model, whose state before a step is zero where `starts` is 1, and else what the model gave after
  // the step before; empty otherwise. L is the sequence length (Recurrence::sequence), which divides T.
  //  - `starts` is 1 at the first decision of an episode: the first one of a row, the one after a step that is
  //    terminated or truncated, and the one after a step that is not valid (the environment failed there, so what
  //    follows is another episode).
  //  - `chunk_states` [k, n] is the state of row n that was sent with the request for step k * L, before `starts` of
  //    that step is applied: what the reply to the step before gave, also when that was the last step of the rollout
  //    before. Before a row's first decision it is zero.
  // V(s') of a final observation, and of the observation after the last step, takes the state after the step before it,
  // with no start.
  Array starts;        // [T, N] uint8
  Array chunk_states;  // [T / L, N, S] float32
  Episodes episodes;   // those whose last step is a valid step of this rollout
  // In a token run: what the rollout holds instead of all arrays above.
  Answers answers;

  int64_t steps() const { return values.dim(0); }
  int64_t columns() const { return values.dim(1); }
};

using RolloutPtr = std::shared_ptr<const Rollout>;

// The contents so far of a rollout that is not pushed yet.
struct PartialRollout {
  uint32_t group = 0;
  uint64_t samples = 0;
  uint64_t env_steps = 0;
  Episodes episodes;
};

// The unit that replay hands out.
enum class UnitKind : uint8_t {
  column = 0,  // index n: the valid steps of column n
  sample = 1,  // index t * N + n: one valid step
  group = 2,   // index g: all answers to prompt g
};

// Some units of one rollout.
struct RolloutUnits {
  RolloutPtr rollout;
  std::vector<int32_t> indices;  // ascending
  UnitKind kind = UnitKind::column;
};

// The samples that one update trains on.
struct SuperBatch {
  uint64_t index = 0;      // the update that uses it: the policy version's number when it starts
  uint64_t samples = 0;    // valid steps of all units
  uint64_t env_steps = 0;  // of the whole run when this batch was handed out
  std::vector<RolloutUnits> parts;
};

}  // namespace troupe
