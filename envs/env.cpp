#include "envs/env.h"

#include <numeric>

namespace troupe {

int64_t ActionSpec::mask_size() const { return std::accumulate(bins.begin(), bins.end(), int64_t{0}); }

EnvStep EnvStep::allocate(const EnvSpec& spec, int64_t rows) {
  EnvStep step;
  for (const ArraySpec& observation : spec.observations) {
    step.observations.set(observation.name, Array(observation.dtype, observation.shape.prepended(rows)));
    step.final_observations.set(observation.name, Array(observation.dtype, observation.shape.prepended(rows)));
  }
  if (spec.action.masked) step.action_mask = Array(DType::u8, {rows, spec.action.mask_size()});
  step.rewards = Array(DType::f32, {rows});
  step.terminated = Array(DType::u8, {rows});
  step.truncated = Array(DType::u8, {rows});
  step.success = Array(DType::u8, {rows});
  step.executed = Array(DType::i32, {rows});
  step.failed = Array(DType::u8, {rows});
  step.task = Array(DType::i32, {rows});
  return step;
}

}  // namespace troupe
