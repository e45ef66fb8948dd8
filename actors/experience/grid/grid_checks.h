#pragma once
// Whether the steps of environments that a peer sent fit the run. Pure functions.

#include <cstddef>
#include <initializer_list>

#include "actors/experience/common/array_checks.h"
#include "actors/experience/common/run_spec.h"
#include "models/experience/step_request.h"

namespace troupe {

// Of the body of a rollout, and of the numbers in its head that follow from the body.
Misfit grid_misfit(const RunSpec& run, const Rollout& rollout);
// No such rollout has more bytes on the wire.
size_t most_bytes_of_grid(const RunSpec& run);

Misfit misfit(const EnvSpec& spec, const Recurrence& recurrence, const StepRequest& request);
Misfit misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence, const StepRequest& request,
              const StepReply& reply);
// No request or reply of a worker has more bytes on the wire.
size_t most_bytes_of_step_request(const RunSpec& run);
size_t most_bytes_of_step_reply(const RunSpec& run);

// Whether the arrays are exactly those of the environment's observations, each with the dimensions `leading` in front.
Misfit check_observations(const EnvSpec& spec, const Arrays& arrays, std::initializer_list<int64_t> leading);
// Of one row.
size_t observation_bytes(const EnvSpec& spec);

}  // namespace troupe
