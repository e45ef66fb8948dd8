#include "actors/experience/grid/policy_server.h"

#include <cstring>
#include <utility>

#include "actors/experience/grid/grid_checks.h"
#include "algorithms/choice/algorithm_choice.h"

namespace troupe {

namespace {

// The concatenation along the first dimension; no copy when there is only one array.
Array concatenate(const std::vector<const Array*>& parts) {
  if (parts.size() == 1) return *parts.front();
  int64_t rows = 0;
  for (const Array* part : parts) rows += part->dim(0);
  Array result = Array::uninitialized(parts.front()->dtype(), parts.front()->shape().without_first().prepended(rows));
  std::byte* at = result.mutable_data();
  for (const Array* part : parts) {
    std::memcpy(at, part->data(), part->bytes());
    at += part->bytes();
  }
  return result;
}

Arrays concatenate(const std::vector<const Arrays*>& parts) {
  Arrays result;
  for (const auto& [name, array] : *parts.front()) {
    std::vector<const Array*> same;
    for (const Arrays* part : parts) same.push_back(&part->at(name));
    result.set(name, concatenate(same));
  }
  return result;
}

}  // namespace

struct PolicyServer::Forward {
  ActOutput output;
  Array extra_values;

  // The rows that belong to one request: `row` and `extra` are the first ones.
  StepReply reply_to(const StepRequest& request, int64_t row, int64_t extra) const;
};

StepReply PolicyServer::Forward::reply_to(const StepRequest& request, int64_t row, int64_t extra) const {
  const int64_t rows = row + static_cast<int64_t>(request.rows), extras = extra + request.value_rows();
  StepReply reply;
  if (rows > row) {
    reply.actions = output.actions.slice(row, rows);
    reply.log_probs = output.log_probs.slice(row, rows);
    reply.values = output.values.slice(row, rows);
    if (!output.state.empty()) reply.state = output.state.slice(row, rows);
    if (!output.policy_parameters.empty()) reply.policy_parameters = output.policy_parameters.slice(row, rows);
  }
  if (extras > extra) reply.extra_values = extra_values.slice(extra, extras);
  return reply;
}

PolicyServer::PolicyServer(const RunSpec& run, const RunFactories& factories)
    : run_(run), factories_(factories), batcher_(run.config.inference) {}

Misfit PolicyServer::misfit(const RequestBody& request) const {
  const auto* steps = std::get_if<StepRequest>(&request);
  if (steps == nullptr) return "the request is not one for actions";
  if (auto error = troupe::misfit(run_.spec, run_.recurrence, *steps)) return error;
  const int64_t rows = static_cast<int64_t>(steps->rows) + steps->value_rows();
  if (rows > run_.config.inference.max_batch)
    return "a request of " + std::to_string(rows) + " rows exceeds inference.max_batch";
  return std::nullopt;
}

void PolicyServer::accept(uint64_t ticket, ClientId client, const RequestBody& request, Clock::time_point now) {
  const auto& steps = std::get<StepRequest>(request);
  batcher_.add({client, ticket, static_cast<int64_t>(steps.rows) + steps.value_rows(), now});
  requests_.emplace(ticket, steps);
}

void PolicyServer::forget(uint64_t ticket) {
  batcher_.remove(ticket);
  requests_.erase(ticket);
}

void PolicyServer::forget_worker(uint64_t worker) {
  for (const uint64_t ticket : batcher_.forget(worker)) requests_.erase(ticket);
}

void PolicyServer::load(const WeightsPtr& weights, Clock::time_point /*now*/) {
  if (!policy_) {
    factories_.use_threads(static_cast<int>(run_.config.inference.threads));
    policy_ = factories_.make_policy();
  }
  policy_->load(*weights);
  version_ = weights->version;
}

void PolicyServer::run_ready(ServerPort& port) {
  while (const std::optional<LeaveReason> reason = batcher_.ready(port.now())) run_batch(*reason, port);
}

void PolicyServer::run_batch(LeaveReason reason, ServerPort& port) {
  std::vector<Asked> batch;
  int64_t rows = 0;
  const std::vector<RequestBatcher::Request> taken = batcher_.take();
  for (const RequestBatcher::Request& each : taken) {
    batch.push_back({each.ticket, std::move(requests_.extract(each.ticket).mapped())});
    rows += each.rows;
  }
  compute(batch, port);
  ++(reason == LeaveReason::full      ? counts_.full
     : reason == LeaveReason::timeout ? counts_.timeout
                                      : counts_.all_waiting);
  note_batch(rows, port.now() - taken.front().arrived);
}

// When the forward fails, each of the requests is computed alone, so that one that cannot be computed does not fail
// those of other clients.
void PolicyServer::compute(const std::vector<Asked>& batch, ServerPort& port) {
  std::optional<Forward> forward;
  try {
    forward = run_forward(batch);
  } catch (const std::exception& e) {
    ++counts_.failed;
    if (batch.size() == 1) return port.fail(batch.front().ticket, e.what());
  }
  // Outside the try block: requests that have been answered must not be computed and answered again.
  if (!forward) {
    for (const Asked& asked : batch) compute({asked}, port);
    return;
  }
  int64_t row = 0, extra = 0;
  for (const auto& [ticket, request] : batch) {
    port.reply(ticket, forward->reply_to(request, row, extra));
    row += static_cast<int64_t>(request.rows);
    extra += request.value_rows();
  }
}

PolicyServer::Forward PolicyServer::run_forward(const std::vector<Asked>& batch) {
  const bool masked = run_.spec.action.masked, recurrent = run_.recurrence.state_size > 0;
  Forward forward;
  std::vector<const Arrays*> observations, others;
  std::vector<const Array*> masks, seeds, states, starts, value_states;
  int64_t rows = 0;
  for (const auto& [ticket, request] : batch) {
    if (request.rows > 0) {
      rows += static_cast<int64_t>(request.rows);
      observations.push_back(&request.observations);
      seeds.push_back(&request.seeds);
      if (masked) masks.push_back(&request.action_mask);
      states.push_back(&request.state);
      starts.push_back(&request.starts);
    }
    if (request.value_rows() > 0) {
      others.push_back(&request.value_observations);
      value_states.push_back(&request.value_state);
    }
  }
  if (rows > 0) {
    ActInput input;
    input.observations = concatenate(observations);
    input.seeds = concatenate(seeds);
    if (masked) input.action_mask = concatenate(masks);
    if (recurrent) input.state = concatenate(states);
    if (recurrent) input.starts = concatenate(starts);
    input.deterministic = Array(DType::u8, {rows});
    input.with_parameters = rollout_extras(run_.config.algorithm).policy_parameters;
    forward.output = policy_->act(input);
  }
  if (!others.empty())
    forward.extra_values = policy_->values(concatenate(others), recurrent ? concatenate(value_states) : Array());
  return forward;
}

}  // namespace troupe
