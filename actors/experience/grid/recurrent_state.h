#pragma once
// RecurrentState: what a client of a policy keeps of a recurrent model between two requests, for some rows. Empty where
// the model has no state. Plain logic, one thread. A state that was handed out is never written again.

#include <cstdint>
#include <span>

#include "envs/env.h"
#include "runtime/base/array.h"

namespace troupe {

class RecurrentState {
 public:
  // `state_size` 0: the model has none.
  explicit RecurrentState(int64_t state_size = 0, int64_t rows = 0);

  bool empty() const { return state_.empty(); }
  // [N, S] float32 from the last reply; zeros before the first.
  const Array& state() const { return state_; }
  // [N] uint8: 1 where the next observation begins an episode.
  const Array& starts() const { return starts_; }

  // Stores the state that a policy returned. Throws InvariantError if its shape or dtype is wrong.
  void take(const Array& state);
  // Notes the rows whose episode ended with this step, or whose environment failed.
  void note_step(const EnvStep& step);

  // Restores a saved state.
  void load(const Array& state, const Array& starts);

 private:
  Array state_, starts_;
};

}  // namespace troupe
