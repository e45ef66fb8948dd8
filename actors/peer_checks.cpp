#include "actors/peer_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "algorithms/choice/algorithm_choice.h"
#include "envs/observation_called.h"

namespace troupe {

namespace {

using Misfit = std::optional<std::string>;

uint64_t samples_per_rollout(const RunConfig& config) {
  if (is_token_run(config)) return static_cast<uint64_t>(config.generation.answers);
  return static_cast<uint64_t>(config.rollout.length) * static_cast<uint64_t>(config.env.rows);
}

// At most this many bytes of a sample are in arrays with one number per step, those of its episode and final_steps
// included.
constexpr size_t kColumnBytes = 64;
// Limit for names, shapes and counts.
constexpr size_t kNamesBytes = size_t{1} << 20;

// Of one row.
size_t observation_bytes(const EnvSpec& spec) {
  size_t bytes = 0;
  for (const ArraySpec& array : spec.observations)
    bytes += static_cast<size_t>(array.shape.elements()) * size_of(array.dtype);
  return bytes;
}

Misfit check(const std::string& name, const Array& array, DType dtype, const Shape& shape) {
  if (array.dtype() == dtype && array.shape() == shape) return std::nullopt;
  return name + " is " + std::string(name_of(array.dtype())) + array.shape().text() + ", expected " +
         std::string(name_of(dtype)) + shape.text();
}

// Checks an array that is empty or float32.
Misfit check_finite(const std::string& name, const Array& array) {
  if (array.empty() || std::ranges::all_of(array.view<float>(), [](float x) { return std::isfinite(x); }))
    return std::nullopt;
  return name + " are not finite";
}

// Checks that the arrays are exactly those of the environment's observations, each with the dimensions `leading` in
// front.
Misfit check(const EnvSpec& spec, const Arrays& arrays, std::initializer_list<int64_t> leading) {
  if (arrays.size() != spec.observations.size()) return "it has " + std::to_string(arrays.size()) + " observations";
  for (const ArraySpec& wanted : spec.observations) {
    const Array* array = arrays.find(wanted.name);
    if (array == nullptr) return observation_called(wanted.name) + " is missing";
    Shape shape = wanted.shape;
    for (auto extent = std::rbegin(leading); extent != std::rend(leading); ++extent) shape = shape.prepended(*extent);
    if (auto error = check(observation_called(wanted.name), *array, wanted.dtype, shape)) return error;
  }
  return std::nullopt;
}

Misfit check_shapes(const EnvSpec& spec, int64_t steps, int64_t rows, const Rollout& r) {
  const Shape grid{steps, rows};
  struct Wanted {
    const char* name;
    const Array& array;
    DType dtype;
    Shape shape;
  };
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
    if (auto error = check(wanted.name, wanted.array, wanted.dtype, wanted.shape)) return error;
  if (spec.action.chunk > 1)
    if (auto error = check("executed", r.executed, DType::i32, grid)) return error;
  if (spec.action.chunk == 1 && !r.executed.empty()) return "executed is given for chunks of one step";
  if (spec.action.masked)
    if (auto error = check("action_mask", r.action_mask, DType::u8, {steps, rows, spec.action.mask_size()}))
      return error;
  return check(spec, r.observations, {steps, rows});
}

// Checks an array that only some runs have: `wanted` says whether this one does.
Misfit check_extra(const std::string& name, bool wanted, const Array& array, DType dtype, const Shape& shape) {
  if (wanted) return check(name, array, dtype, shape);
  return array.empty() ? Misfit() : name + " is given, but the run does not use it";
}

// Checks the arrays that only some estimators need.
Misfit check_extras(const RunConfig& config, const EnvSpec& spec, int64_t steps, int64_t rows, const Rollout& r) {
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
  if (auto error = check(spec, r.last_observations, {rows})) return error;
  const int64_t finals = r.final_steps.empty() ? 0 : r.final_steps.dim(0);
  if (finals == 0) return std::nullopt;
  if (auto error = check("final_steps", r.final_steps, DType::i32, {finals, 2})) return error;
  const auto at = r.final_steps.view<int32_t>();
  for (size_t i = 0; i < at.size(); i += 2)
    if (at[i] < 0 || at[i] >= steps || at[i + 1] < 0 || at[i + 1] >= rows) return "final_steps are out of range";
  return check(spec, r.final_observations, {finals});
}

// Checks the recurrent state, which must be absent if the model has none.
Misfit check_state(const Recurrence& recurrence, int64_t steps, int64_t rows, const Rollout& r) {
  if (recurrence.state_size == 0)
    return r.starts.empty() && r.chunk_states.empty() ? Misfit() : "it has the states of a recurrent model";
  if (auto error = check("starts", r.starts, DType::u8, {steps, rows})) return error;
  if (auto error =
          check("chunk_states", r.chunk_states, DType::f32, {steps / recurrence.sequence, rows, recurrence.state_size}))
    return error;
  if (std::ranges::any_of(r.starts.view<uint8_t>(), [](uint8_t start) { return start > 1; }))
    return "starts are neither 0 nor 1";
  return check_finite("chunk_states", r.chunk_states);
}

// Checks that discrete actions are within their bins and, at valid steps, allowed by their mask.
Misfit check_actions(const ActionSpec& spec, const Rollout& r) {
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

Misfit check(const Episodes& episodes, uint64_t samples) {
  if (episodes.returns.empty() && episodes.lengths.empty() && episodes.success.empty()) return std::nullopt;
  const Shape shape{episodes.returns.size()};
  if (auto error = check("returns", episodes.returns, DType::f32, shape)) return error;
  if (auto error = check("lengths", episodes.lengths, DType::i32, shape)) return error;
  if (auto error = check("success", episodes.success, DType::u8, shape)) return error;
  if (static_cast<uint64_t>(episodes.count()) > samples)
    return std::to_string(episodes.count()) + " episodes in " + std::to_string(samples) + " samples";
  return std::nullopt;
}

Misfit check_counts(const ActionSpec& spec, PolicyVersion newest, const Rollout& r) {
  const auto valid = r.valid.view<uint8_t>();
  const auto version = r.version.view<int64_t>();
  uint64_t samples = 0, env_steps = 0;
  for (size_t i = 0; i < valid.size(); ++i) {
    const int32_t executed = r.executed.empty() ? 1 : r.executed.view<int32_t>()[i];
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
  if (samples > 0 && newest < PolicyVersion{r.epoch, r.newest})
    return "it comes from a version that does not exist yet";
  return std::nullopt;
}

// Checks the recurrent states of a request's rows, and the flags where episodes begin.
Misfit check_state(int64_t state_size, const ActRequest& request) {
  const auto rows = static_cast<int64_t>(request.rows);
  const auto fits = [](const Array& array, DType dtype, const Shape& shape) {
    return shape.elements() == 0 ? array.empty() : array.dtype() == dtype && array.shape() == shape;
  };
  if (!fits(request.state, DType::f32, {rows, state_size}) ||
      !fits(request.starts, DType::u8, {state_size > 0 ? rows : 0}))
    return "the recurrent state is " + request.state.shape().text() + " with starts " + request.starts.shape().text() +
           ", expected " + Shape{rows, state_size}.text();
  if (!request.starts.empty() &&
      std::ranges::any_of(request.starts.view<uint8_t>(), [](uint8_t start) { return start > 1; }))
    return "starts are neither 0 nor 1";
  const Shape values{value_rows(request), state_size};
  if (!fits(request.value_state, DType::f32, values))
    return "the recurrent state of the values is " + request.value_state.shape().text() + ", expected " + values.text();
  if (auto error = check_finite("recurrent states", request.state)) return error;
  return check_finite("recurrent states of the values", request.value_state);
}

// Checks an array of a reply, which is empty if its shape has no elements.
Misfit check_given(const std::string& name, const Array& array, DType dtype, const Shape& shape) {
  if (shape.elements() == 0)
    return array.empty() ? Misfit() : name + " are given, but the request did not ask for them";
  return check(name, array, dtype, shape);
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

int64_t value_rows(const ActRequest& request) {
  return request.value_observations.empty() ? 0 : request.value_observations[0].second.dim(0);
}

Misfit misfit(const EnvSpec& spec, const Recurrence& recurrence, const ActRequest& request) {
  if (request.rows > std::numeric_limits<int32_t>::max())
    return "the request has " + std::to_string(request.rows) + " rows";
  const auto rows = static_cast<int64_t>(request.rows);
  if (rows == 0 && value_rows(request) == 0) return "the request has no rows";
  if (rows > 0) {
    if (auto error = check(spec, request.observations, {rows})) return error;
    if (auto error = check("seeds", request.seeds, DType::i64, {rows})) return error;
    if (spec.action.masked)
      if (auto error = check("action_mask", request.action_mask, DType::u8, {rows, spec.action.mask_size()}))
        return error;
  }
  if (value_rows(request) > 0)
    if (auto error = check(spec, request.value_observations, {value_rows(request)})) return error;
  return check_state(recurrence.state_size, request);
}

Misfit misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence, const ActRequest& request,
              const ActReply& reply) {
  const auto rows = static_cast<int64_t>(request.rows);
  const ActionSpec& action = spec.action;
  const int64_t parameters = rollout_extras(config.algorithm).policy_parameters ? action.policy_parameters() : 0;
  struct Wanted {
    const char* name;
    const Array& array;
    DType dtype;
    Shape shape;
  };
  const Wanted all[] = {
      {"actions", reply.actions, action.dtype(), action.shape().prepended(rows)},
      {"log_probs", reply.log_probs, DType::f32, {rows, action.decisions()}},
      {"values", reply.values, DType::f32, {rows}},
      {"extra_values", reply.extra_values, DType::f32, {value_rows(request)}},
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

Misfit misfit(const RunConfig& config, const WorkerHello& hello) {
  if (hello.groups == static_cast<uint32_t>(config.workers.groups) &&
      hello.samples_per_rollout == samples_per_rollout(config))
    return std::nullopt;
  return std::to_string(hello.groups) + " groups with " + std::to_string(hello.samples_per_rollout) +
         " samples a rollout, expected " + std::to_string(config.workers.groups) + " with " +
         std::to_string(samples_per_rollout(config));
}

Misfit misfit(const RunConfig& config, const EnvSpec& spec, const WorkerReport& report) {
  // A group can have two partial rollouts: one that waits for its last values, and the next one.
  const auto groups = static_cast<uint64_t>(config.workers.groups);
  if (report.partial.size() > 2 * groups) return std::to_string(report.partial.size()) + " rollouts under way";
  for (const PartialRollout& partial : report.partial) {
    if (partial.group >= groups) return "group " + std::to_string(partial.group) + " of " + std::to_string(groups);
    if (partial.samples > samples_per_rollout(config))
      return std::to_string(partial.samples) + " samples in a rollout of " +
             std::to_string(samples_per_rollout(config));
    if (partial.env_steps > partial.samples * static_cast<uint64_t>(spec.action.chunk))
      return std::to_string(partial.env_steps) + " environment steps in a rollout under way";
    if (auto error = check(partial.episodes, partial.samples)) return error;
  }
  return std::nullopt;
}

Misfit misfit(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence, PolicyVersion newest,
              const Rollout& rollout) {
  const int64_t steps = config.rollout.length, rows = config.env.rows;
  if (auto error = check_shapes(spec, steps, rows, rollout)) return error;
  if (auto error = check_extras(config, spec, steps, rows, rollout)) return error;
  if (auto error = check_state(recurrence, steps, rows, rollout)) return error;
  if (auto error = check_actions(spec.action, rollout)) return error;
  if (rollout.group >= static_cast<uint32_t>(config.workers.groups))
    return "group " + std::to_string(rollout.group) + " of " + std::to_string(config.workers.groups);
  if (auto error = check(rollout.episodes, rollout.samples)) return error;
  return check_counts(spec.action, newest, rollout);
}

Misfit misfit(const InferenceReport& report) {
  if (auto error = check("batch_rows", report.batch_rows, DType::i32, Shape{report.batch_rows.size()})) return error;
  return check("latency_us", report.latency_us, DType::f32, Shape{report.latency_us.size()});
}

bool is_taken(const NumberHolders& holders, const caf::actor_addr& sender, uint64_t number) {
  const auto own = holders.find(sender);
  if (own != holders.end()) return own->second != number;
  return std::ranges::any_of(holders, [&](const auto& holder) { return holder.second == number; });
}

size_t most_bytes_of_rollout(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence) {
  const auto& action = spec.action;
  const size_t masks = action.masked ? static_cast<size_t>(action.mask_size()) : 0;
  const size_t actions = static_cast<size_t>(action.decisions()) * 2 * sizeof(float);  // and log-probabilities
  const auto parameters = rollout_extras(config.algorithm).policy_parameters
                              ? static_cast<size_t>(action.policy_parameters()) * sizeof(float)
                              : 0;
  // Twice the observation: if every episode has one step, each sample also has a final observation.
  const size_t sample = 2 * observation_bytes(spec) + masks + actions + parameters + kColumnBytes;
  const auto rows = static_cast<size_t>(config.env.rows);
  const int64_t states = recurrence.sequence > 0 ? config.rollout.length / recurrence.sequence : 0;
  const size_t state_bytes = rows * static_cast<size_t>(states * recurrence.state_size) * sizeof(float);
  return samples_per_rollout(config) * sample + rows * observation_bytes(spec) + state_bytes + kNamesBytes;
}

size_t most_bytes_of_request(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence) {
  const size_t masks = spec.action.masked ? static_cast<size_t>(spec.action.mask_size()) : 0;
  const auto rows = static_cast<size_t>(config.inference.max_batch);
  const size_t state_bytes = static_cast<size_t>(recurrence.state_size) * sizeof(float) + 1;
  return rows * (observation_bytes(spec) + masks + state_bytes + sizeof(int64_t)) + kNamesBytes;
}

size_t most_bytes_of_reply(const RunConfig& config, const EnvSpec& spec, const Recurrence& recurrence) {
  const ActionSpec& action = spec.action;
  const auto parameters = rollout_extras(config.algorithm).policy_parameters ? action.policy_parameters() : 0;
  // Actions and log-probabilities; the values of the current, a final and a last observation; state and parameters.
  const auto numbers = static_cast<size_t>(2 * action.decisions() + 3 + recurrence.state_size + parameters);
  return static_cast<size_t>(config.env.rows) * numbers * sizeof(float) + kNamesBytes;
}

size_t most_bytes_of_report(const RunConfig& config) {
  constexpr size_t kEpisodeBytes = sizeof(float) + sizeof(int32_t) + sizeof(uint8_t);
  return 2 * static_cast<size_t>(config.workers.groups) * samples_per_rollout(config) * kEpisodeBytes + kNamesBytes;
}

}  // namespace troupe
