#pragma once
// Grid: what a rollout of a run on environments holds. Plain data; immutable once pushed.

#include <cstdint>

#include "runtime/base/array.h"

namespace troupe {

// The steps of the rows of one vector environment, T of each of N. Every array is [T, N, ...] (time-major). Column n is
// the steps of row n; a step whose `valid` is 0 (its environment failed there) is not a sample.
struct Grid {
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

  int64_t steps() const { return values.dim(0); }
  int64_t columns() const { return values.dim(1); }

  // use() with all arrays, in the order in which they are sent; `self` may be const.
  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.observations, self.action_mask, self.actions, self.log_probs, self.executed, self.values,
               self.next_values, self.rewards, self.terminated, self.truncated, self.valid, self.version,
               self.advantages, self.returns, self.last_observations, self.final_observations, self.final_steps,
               self.task, self.starts, self.chunk_states, self.policy_parameters);
  }
};

}  // namespace troupe
