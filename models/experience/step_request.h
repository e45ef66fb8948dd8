#pragma once
// The bodies of the messages by which a worker with environments asks for actions. They cross the network.

#include <cstdint>

#include "runtime/base/array.h"

namespace troupe {

// A request of one vector environment for actions (rows may be 0), and for values of other observations: final ones,
// and those after the end of a rollout.
struct StepRequest {
  uint64_t rows = 0;
  Arrays observations;        // each [N, ...]
  Array action_mask;          // [N, M] uint8, or empty
  Array seeds;                // [N] int64
  Arrays value_observations;  // each [F, ...], or empty
  // With a recurrent model, as in ActInput. value_state holds the states after the steps that led to the value
  // observations.
  Array state;        // [N, S] float32
  Array starts;       // [N] uint8
  Array value_state;  // [F, S] float32

  // Rows of which only the values are needed.
  int64_t value_rows() const { return value_observations.empty() ? 0 : value_observations[0].second.dim(0); }

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.rows, self.observations, self.action_mask, self.seeds, self.value_observations, self.state,
               self.starts, self.value_state);
  }
};

struct StepReply {
  Array actions;            // [N, K, A]
  Array log_probs;          // [N, D]
  Array values;             // [N]
  Array extra_values;       // [F] of value_observations
  Array state;              // [N, S] after the observations, with a recurrent model
  Array policy_parameters;  // [N, P] where rollouts carry them

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.actions, self.log_probs, self.values, self.extra_values, self.state, self.policy_parameters);
  }
};

}  // namespace troupe
