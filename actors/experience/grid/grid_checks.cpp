#include "actors/experience/grid/grid_checks.h"

#include <algorithm>
#include <limits>

#include "algorithms/choice/algorithm_choice.h"
#include "envs/observation_called.h"
#include "models/experience/episode_tasks.h"

namespace troupe {

namespace {

// At most this many bytes of a sample are in arrays with one number per step, those of its episode and final_steps
// included.
constexpr size_t kColumnBytes = 64;

// What an array must be.
struct Wanted {
  const char* name;
  const Array& array;
  DType dtype;
  Shape shape;
};

Misfit check_shapes(const EnvSpec& spec, int64_t steps, int64_t rows, const Grid& r) {
  const Shape grid{steps, rows};
  const Wanted all[] = {
      {"actions", r.actions, spec.action.dtype(), spec.action.shape().prepended(rows).prepended(steps)},
      {"log_probs", r.log_probs, DType::f32, {steps, rows, spec.action.decisions()}},
      {"values", r.values, DType::f32, grid},
      {"next_values", r.next_values, DType::f32, grid},
      {"rewards", r.rewards, DType::f32, grid},
      {"terminated", r.terminated, DType::u8, grid},
      {"truncated", r.truncated, DType::u8, grid},
      {"valid", r.valid, DType::u8, grid},
      {"version", r.version, DType::i64, grid},
  };
  for (const Wanted& wanted : all)
    if (auto error = check_array(wanted.name, wanted.array, wanted.dtype, wanted.shape)) return error;
  if (spec.action.chunk > 1)
    if (auto error = check_array("executed", r.executed, DType::i32, grid)) return error;
  if (spec.action.chunk == 1 && !r.executed.empty()) return "executed is given for chunks of one step";
  if (spec.action.masked)
    if (auto error = check_array("action_mask", r.action_mask, DType::u8, {steps, rows, spec.action.mask_size()}))
      return error;
  return check_observations(spec, r.observations, {steps, rows});
}

// Checks an array that only some runs have: `wanted` says whether this one does.
Misfit check_extra(const std::string& name, bool wanted, const Array& array, DType dtype, const Shape& shape) {
  if (wanted) return check_array(name, array, dtype, shape);
  return array.empty() ? Misfit() : name + " is given, but the run does not use it";
}

// Checks the arrays that only some estimators need.
Misfit check_extras(const RunConfig& config, const EnvSpec& spec, int64_t steps, int64_t rows, const Grid& r) {
  const RolloutExtras extras = rollout_extras(config.algorithm);
  const Shape grid{steps, rows};
  if (auto error = check_extra("advantages", extras.advantages, r.advantages, DType::f32, grid)) return error;
  if (auto error = check_extra("returns", extras.returns, r.returns, DType::f32, grid)) return error;
  if (auto error = check_extra("task", extras.tasks, r.task, DType::i32, grid)) return error;
  if (auto error = check_extra("policy_parameters", extras.policy_parameters, r.policy_parameters, DType::f32,
                               {steps, rows, spec.action.policy_parameters()}))
    return error;
  if (!extras.next_observations)
    return r.last_observations.empty() && r.final_observations.empty() && r.final_steps.empty()
               ? Misfit()
               : "it has observations after its steps, but the run does not use them";
  if (auto error = check_observations(spec, r.last_observations, {rows})) return error;
  const int64_t finals = r.final_steps.empty() ? 0 : r.final_steps.dim(0);
  if (finals == 0) return std::nullopt;
  if (auto error = check_array("final_steps", r.final_steps, DType::i32, {finals, 2})) return error;
  const auto at = r.final_steps.view<int32_t>();
  for (size_t i = 0; i < at.size(); i += 2)
    if (at[i] < 0 || at[i] >= steps || at[i + 1] < 0 || at[i + 1] >= rows) return "final_steps are out of range";
  return check_observations(spec, r.final_observations, {finals});
}

// Checks the recurrent state, which must be absent if the model has none.
Misfit check_state(const Recurrence& recurrence, int64_t steps, int64_t rows, const Grid& r) {
  if (recurrence.state_size == 0)
    return r.starts.empty() && r.chunk_states.empty() ? Misfit() : "it has the states of a recurrent model";
  if (auto error = check_array("starts", r.starts, DType::u8, {steps, rows})) return error;
  if (auto error = check_array("chunk_states", r.chunk_states, DType::f32,
                               {steps / recurrence.sequence, rows, recurrence.state_size}))
    return error;
  if (auto error = check_flags("starts", r.starts)) return error;
  return check_finite("chunk_states", r.chunk_states);
}

// Checks that discrete actions are within their bins and, at valid steps, allowed by their mask.
Misfit check_actions(const ActionSpec& spec, const Grid& r) {
  if (spec.kind == ActionKind::continuous) return std::nullopt;
  const auto valid = r.valid.view<uint8_t>();
  const int32_t* action = r.actions.view<int32_t>().data();
  for (size_t i = 0; i < valid.size(); ++i)
    for (int64_t k = 0; k < spec.chunk; ++k) {
      const uint8_t* mask = spec.masked ? r.action_mask.view<uint8_t>().data() + i * spec.mask_size() : nullptr;
      for (const int32_t bins : spec.bins) {
        if (*action < 0 || *action >= bins) return "an action is out of range";
        if (mask != nullptr && k == 0 && valid[i] != 0 && mask[*action] == 0) return "an action is masked";
        if (mask != nullptr) mask += bins;
        ++action;
      }
    }
  return std::nullopt;
}

// Checks that the numbers in the head of the rollout are those of its steps.
Misfit check_counts(const ActionSpec& spec, const Rollout& r) {
  const Grid& grid = r.grid();
  const auto valid = grid.valid.view<uint8_t>();
  const auto version = grid.version.view<int64_t>();
  uint64_t samples = 0, env_steps = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    const int32_t executed = grid.executed.empty() ? 1 : grid.executed.view<int32_t>()[i];
    if (executed < (valid[i] != 0 ? 1 : 0) || executed > spec.chunk)
      return std::to_string(executed) + " steps of a chunk of " + std::to_string(spec.chunk) + " were executed";
    if (valid[i] == 0) continue;
    ++samples;
    env_steps += static_cast<uint64_t>(executed);
    if (version[i] < 0 || static_cast<uint64_t>(version[i]) < r.oldest || static_cast<uint64_t>(version[i]) > r.newest)
      return "a step's version is not among those of the rollout";
  }
  if (samples != r.samples)
    return std::to_string(r.samples) + " samples, but " + std::to_string(samples) + " valid steps";
  if (env_steps != r.env_steps)
    return std::to_string(r.env_steps) + " environment steps, but " + std::to_string(env_steps) + " were executed";
  return std::nullopt;
}

// Checks the recurrent states of a request's rows, and the flags where episodes begin.
Misfit check_state(int64_t state_size, const StepRequest& request) {
  const auto rows = static_cast<int64_t>(request.rows);
  const auto fits = [](const Array& array, DType dtype, const Shape& shape) {
    return shape.elements() == 0 ? array.empty() : array.dtype() == dtype && array.shape() == shape;
  };
  if (!fits(request.state, DType::f32, {rows, state_size}) ||
      !fits(request.starts, DType::u8, {state_size > 0 ? rows : 0}))
    return "the recurrent state is " + request.state.shape().text() + " with starts " + request.starts.shape().text() +
           ", expected " + Shape{rows, state_size}.text();
  if (!request.starts.empty())
    if (auto error = check_flags("starts", request.starts)) return error;
  const Shape values{request.value_rows(), state_size};
  if (!fits(request.value_state, DType::f32, values))
    return "the recurrent state of the values is " + request.value_state.shape().text() + ", expected " + values.text();
  if (auto error = check_finite("recurrent states", request.state)) return error;
  return check_finite("recurrent states of the values", request.value_state);
}

// Checks an array of a reply, which is empty if its shape has no elements.
Misfit check_given(const std::string& name, const Array& array, DType dtype, const Shape& shape) {
  if (shape.elements() == 0)
    return array.empty() ? Misfit() : name + " are given, but the request did not ask for them";
  return check_array(name, array, dtype, shape);
}

// Checks that discrete actions are within their bins.
Misfit check_range(const ActionSpec& spec, const Array& actions) {
  if (actions.empty() || spec.kind == ActionKind::continuous) return std::nullopt;
  const auto action = actions.view<int32_t>();
  for (size_t i = 0; i < action.size(); ++i)
    if (action[i] < 0 || action[i] >= spec.bins[i % spec.bins.size()]) return "an action is out of range";
  return std::nullopt;
}

}  // namespace

Misfit check_observations(const EnvSpec& spec, const Arrays& arrays, std::initializer_list<int64_t> leading) {
  if (arrays.size() != spec.observations.size()) return "it has " + std::to_string(arrays.size()) + " observations";
  for (const ArraySpec& wanted : spec.observations) {
    const Array* array = arrays.find(wanted.name);
    if (array == nullptr) return observation_called(wanted.name) + " is missing";
    Shape shape = wanted.shape;
    for (auto extent = std::rbegin(leading); extent != std::rend(leading); ++extent) shape = shape.prepended(*extent);
    if (auto error = check_array(observation_called(wanted.name), *array, wanted.dtype, shape)) return error;
  }
  return std::nullopt;
}

size_t observation_bytes(const EnvSpec& spec) {
  size_t bytes = 0;
  for (const ArraySpec& array : spec.observations)
    bytes += static_cast<size_t>(array.shape.elements()) * size_of(array.dtype);
  return bytes;
}

Misfit grid_misfit(const RunSpec& run, const Rollout& rollout) {
  const int64_t steps = run.config.rollout.length, rows = run.config.env.rows;
  const Grid& grid = rollout.grid();
  if (auto error = check_shapes(run.spec, steps, rows, grid)) return error;
  if (auto error = check_extras(run.config, run.spec, steps, rows, grid)) return error;
  if (auto error = check_state(run.recurrence, steps, rows, grid)) return error;
  if (auto error = check_actions(run.spec.action, grid)) return error;
  return check_counts(run.spec.action, rollout);
}

size_t most_bytes_of_grid(const RunSpec& run) {
  const RunConfig& config = run.config;
  const ActionSpec& action = run.spec.action;
  const Recurrence& recurrence = run.recurrence;
  const size_t masks = action.masked ? static_cast<size_t>(action.mask_size()) : 0;
  const size_t actions = static_cast<size_t>(action.decisions()) * 2 * sizeof(float);  // and log-probabilities
  const auto parameters = rollout_extras(config.algorithm).policy_parameters
                              ? static_cast<size_t>(action.policy_parameters()) * sizeof(float)
                              : 0;
  // Twice the observation: if every episode has one step, each sample also has a final observation.
  const size_t tasks = std::min(run.spec.tasks.size(), kMostTasks) * sizeof(float);  // likewise, of every episode
  const size_t sample = 2 * observation_bytes(run.spec) + masks + actions + parameters + tasks + kColumnBytes;
  const auto rows = static_cast<size_t>(config.env.rows);
  const int64_t states = recurrence.sequence > 0 ? config.rollout.length / recurrence.sequence : 0;
  const size_t state_bytes = rows * static_cast<size_t>(states * recurrence.state_size) * sizeof(float);
  return samples_per_rollout(config) * sample + rows * observation_bytes(run.spec) + state_bytes + kNamesBytes;
}

Misfit misfit(const EnvSpec& spec, const Recurrence& recurrence, const StepRequest& request) {
  if (request.rows > std::numeric_limits<int32_t>::max())
    return "the request has " + std::to_string(request.rows) + " rows";
  const auto rows = static_cast<int64_t>(request.rows);
  if (rows == 0 && request.value_rows() == 0) return "the request has no rows";
  if (rows > 0) {
    if (auto error = check_observations(spec, request.observations, {rows})) return error;
    if (auto error = check_array("seeds", request.seeds, DType::i64, {rows})) return error;
    if (spec.action.masked)
      if (auto error = check_array("action_mask", request.action_mask, DType::u8, {rows, spec.action.mask_size()}))
        return error;
  }
  if (request.value_rows() > 0)
    if (auto error = check_observations(spec, request.value_observations, {request.value_rows()})) return error;
  return check_state(recurrence.state_size, request);
}

Misfit misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence, const StepRequest& request,
              const StepReply& reply) {
  const auto rows = static_cast<int64_t>(request.rows);
  const ActionSpec& action = spec.action;
  const int64_t parameters = rollout_extras(config.algorithm).policy_parameters ? action.policy_parameters() : 0;
  const Wanted all[] = {
      {"actions", reply.actions, action.dtype(), action.shape().prepended(rows)},
      {"log_probs", reply.log_probs, DType::f32, {rows, action.decisions()}},
      {"values", reply.values, DType::f32, {rows}},
      {"extra_values", reply.extra_values, DType::f32, {request.value_rows()}},
      {"states", reply.state, DType::f32, {rows, recurrence.state_size}},
      {"policy_parameters", reply.policy_parameters, DType::f32, {rows, parameters}},
  };
  for (const Wanted& wanted : all)
    if (auto error = check_given(wanted.name, wanted.array, wanted.dtype, wanted.shape)) return error;
  for (const Wanted& wanted : all)
    if (wanted.dtype == DType::f32)
      if (auto error = check_finite(wanted.name, wanted.array)) return error;
  return check_range(action, reply.actions);
}

size_t most_bytes_of_step_request(const RunSpec& run) {
  const RunConfig& config = run.config;
  const EnvSpec& spec = run.spec;
  const Recurrence& recurrence = run.recurrence;
  const size_t masks = spec.action.masked ? static_cast<size_t>(spec.action.mask_size()) : 0;
  const auto rows = static_cast<size_t>(config.inference.max_batch);
  const size_t state_bytes = static_cast<size_t>(recurrence.state_size) * sizeof(float) + 1;
  return rows * (observation_bytes(spec) + masks + state_bytes + sizeof(int64_t)) + kNamesBytes;
}

size_t most_bytes_of_step_reply(const RunSpec& run) {
  const RunConfig& config = run.config;
  const EnvSpec& spec = run.spec;
  const Recurrence& recurrence = run.recurrence;
  const ActionSpec& action = spec.action;
  const auto parameters = rollout_extras(config.algorithm).policy_parameters ? action.policy_parameters() : 0;
  // Actions and log-probabilities; the values of the current, a final and a last observation; state and parameters.
  const auto numbers = static_cast<size_t>(2 * action.decisions() + 3 + recurrence.state_size + parameters);
  return static_cast<size_t>(config.env.rows) * numbers * sizeof(float) + kNamesBytes;
}

}  // namespace troupe
