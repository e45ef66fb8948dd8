#include "actors/peer_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "actors/experience/grid/grid_checks.h"
#include "algorithms/choice/algorithm_choice.h"

namespace troupe {

namespace {

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
  if (!request.starts.empty())
    if (auto error = check_flags("starts", request.starts)) return error;
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

int64_t value_rows(const ActRequest& request) {
  return request.value_observations.empty() ? 0 : request.value_observations[0].second.dim(0);
}

Misfit misfit(const EnvSpec& spec, const Recurrence& recurrence, const ActRequest& request) {
  if (request.rows > std::numeric_limits<int32_t>::max())
    return "the request has " + std::to_string(request.rows) + " rows";
  const auto rows = static_cast<int64_t>(request.rows);
  if (rows == 0 && value_rows(request) == 0) return "the request has no rows";
  if (rows > 0) {
    if (auto error = check_observations(spec, request.observations, {rows})) return error;
    if (auto error = check_array("seeds", request.seeds, DType::i64, {rows})) return error;
    if (spec.action.masked)
      if (auto error = check_array("action_mask", request.action_mask, DType::u8, {rows, spec.action.mask_size()}))
        return error;
  }
  if (value_rows(request) > 0)
    if (auto error = check_observations(spec, request.value_observations, {value_rows(request)})) return error;
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
    if (auto error = check_episodes(partial.episodes, partial.samples)) return error;
  }
  return std::nullopt;
}

Misfit misfit(const InferenceReport& report) {
  if (auto error = check_array("batch_rows", report.batch_rows, DType::i32, Shape{report.batch_rows.size()}))
    return error;
  return check_array("latency_us", report.latency_us, DType::f32, Shape{report.latency_us.size()});
}

bool is_taken(const NumberHolders& holders, const caf::actor_addr& sender, uint64_t number) {
  const auto own = holders.find(sender);
  if (own != holders.end()) return own->second != number;
  return std::ranges::any_of(holders, [&](const auto& holder) { return holder.second == number; });
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
