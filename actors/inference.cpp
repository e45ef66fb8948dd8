#include "actors/inference.h"

#include <algorithm>
#include <cstring>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/common/state_bytes.h"
#include "actors/experience/grid/grid_checks.h"
#include "actors/experience/kinds.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using InferenceSelf = SelfPointer<InferenceActor, InferenceState>;
using Clock = RequestBatcher::Clock;
using Pending = InferenceState::Pending;

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr size_t kMaxLatencies = 4096;  // kept between two reports
constexpr uint64_t kOpenRequests = 16;  // limit on incomplete requests in parts, if all have the largest size
// How long an incomplete request in parts, and the client itself, are kept after the client's last message. The parts
// of a request follow each other at once, and a worker without an answer asks again after 10 s.
constexpr std::chrono::seconds kPartsKept{10}, kClientKept{60};

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

// Limit on the bytes of all incomplete requests in parts. The number of senders has no limit. A part over the limit is
// dropped, and its sender repeats the request.
uint64_t most_open_bytes(const RunContext& context) {
  return std::max<uint64_t>(kMaxArrayBytes, kOpenRequests * kind_of(context).most_bytes_of_request(context));
}

struct Forward {
  ActOutput output;
  Array extra_values;
};

Forward run_forward(Policy& policy, const RunContext& context, const std::vector<Pending>& batch) {
  const bool masked = context.spec.action.masked, recurrent = context.recurrence.state_size > 0;
  Forward forward;
  std::vector<const Arrays*> observations, others;
  std::vector<const Array*> masks, seeds, states, starts, value_states;
  int64_t rows = 0;
  for (const Pending& pending : batch) {
    const StepRequest& request = pending.request.steps();
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
    input.with_parameters = rollout_extras(context.config.algorithm).policy_parameters;
    forward.output = policy.act(input);
  }
  if (!others.empty())
    forward.extra_values = policy.values(concatenate(others), recurrent ? concatenate(value_states) : Array());
  return forward;
}

void send_reply(InferenceSelf self, const Pending& pending, InferenceReply reply) {
  auto& st = self->state;
  send_in_parts(self, caf::actor_cast<InferenceClient>(pending.client), std::move(reply),
                static_cast<size_t>(st.context->config.network.chunk_bytes), st.streams);
}

void fail(InferenceSelf self, const Pending& pending, Fault fault, const std::string& error) {
  InferenceReply reply;
  reply.id = pending.request.id;
  reply.group = pending.request.group;
  if (self->state.version) reply.version = *self->state.version;
  reply.fault = fault;
  reply.error = error.substr(0, kMostErrorBytes);
  send_reply(self, pending, std::move(reply));
}

// The rows of a batch's results that belong to one request: `row` and `extra` are the first ones.
StepReply reply_to(const StepRequest& request, const Forward& forward, int64_t row, int64_t extra) {
  const ActOutput& output = forward.output;
  const int64_t rows = row + static_cast<int64_t>(request.rows), extras = extra + request.value_rows();
  StepReply reply;
  if (rows > row) {
    reply.actions = output.actions.slice(row, rows);
    reply.log_probs = output.log_probs.slice(row, rows);
    reply.values = output.values.slice(row, rows);
    if (!output.state.empty()) reply.state = output.state.slice(row, rows);
    if (!output.policy_parameters.empty()) reply.policy_parameters = output.policy_parameters.slice(row, rows);
  }
  if (extras > extra) reply.extra_values = forward.extra_values.slice(extra, extras);
  return reply;
}

void answer(InferenceSelf self, const std::vector<Pending>& batch, const Forward& forward) {
  int64_t row = 0, extra = 0;
  for (const Pending& pending : batch) {
    const StepRequest& request = pending.request.steps();
    InferenceReply reply;
    reply.id = pending.request.id;
    reply.group = pending.request.group;
    reply.version = *self->state.version;
    reply.body = reply_to(request, forward, row, extra);
    row += static_cast<int64_t>(request.rows);
    extra += request.value_rows();
    send_reply(self, pending, std::move(reply));
  }
}

void note_batch(InferenceState& st, LeaveReason reason, int64_t rows, Clock::duration latency) {
  ++st.report.batches;
  st.report.rows += static_cast<uint64_t>(rows);
  ++(reason == LeaveReason::full      ? st.report.full
     : reason == LeaveReason::timeout ? st.report.timeout
                                      : st.report.all_waiting);
  if (st.batch_rows.size() < kMaxLatencies) {
    st.batch_rows.push_back(static_cast<int32_t>(rows));
    st.latency_us.push_back(std::chrono::duration<float, std::micro>(latency).count());
  }
}

// Computes a batch and answers it. When that fails, each of its requests is computed alone, so that one that cannot be
// computed does not fail those of other clients.
void compute(InferenceSelf self, const std::vector<Pending>& batch) {
  auto& st = self->state;
  std::optional<Forward> forward;
  try {
    forward = run_forward(*st.policy, *st.context, batch);
  } catch (const std::exception& e) {
    ++st.report.failed;
    if (batch.size() == 1) return fail(self, batch.front(), Fault::forward_failed, e.what());
  }
  // Outside the try block: requests that have been answered must not be computed and answered again.
  if (forward) return answer(self, batch, *forward);
  for (const Pending& pending : batch) compute(self, {pending});
}

void run_batch(InferenceSelf self, LeaveReason reason) {
  auto& st = self->state;
  std::vector<Pending> batch;
  int64_t rows = 0;
  const std::vector<RequestBatcher::Request> requests = st.batcher->take();
  for (const RequestBatcher::Request& request : requests) {
    const auto it = st.pending.find(request.ticket);
    batch.push_back(std::move(it->second));
    st.pending.erase(it);
    rows += request.rows;
  }
  compute(self, batch);
  note_batch(st, reason, rows, self->clock().now() - requests.front().arrived);
}

// Computes all batches that are due. Then schedules a message for the deadline of the oldest request that remains.
void run_ready(InferenceSelf self) {
  auto& st = self->state;
  if (!st.version) return;
  while (const std::optional<LeaveReason> reason = st.batcher->ready(self->clock().now())) run_batch(self, *reason);
  const auto deadline = st.batcher->deadline();
  if (!deadline || st.timer != 0) return;
  st.timer = ++st.timers;
  self->scheduled_send(self, *deadline, due_atom_v, st.timer);
}

// The client that sent the current message. A new one is monitored.
InferenceState::Client& sending_client(InferenceSelf self) {
  auto& st = self->state;
  const caf::strong_actor_ptr& sender = self->current_sender();
  const auto [it, added] = st.clients.try_emplace(sender->address());
  if (added) {
    it->second.number = st.next_client++;
    self->monitor(caf::actor_cast<caf::actor>(sender));
  }
  it->second.heard = self->clock().now();
  return it->second;
}

bool waits(const InferenceState& st, const InferenceState::Client& client) {
  return std::ranges::any_of(st.pending, [&](const auto& entry) { return entry.second.id.worker == client.number; });
}

// Frees what is held for clients that stay silent. The run relays the messages of workers in other processes, and CAF
// does not report the loss of the connection behind the relay. A client that was only inside a long step becomes a new
// client with its next request.
void forget_silent(InferenceSelf self) {
  auto& st = self->state;
  const auto now = self->clock().now();
  std::erase_if(st.clients, [&](const auto& entry) {
    const auto& [address, client] = entry;
    const auto silence = now - client.heard;
    if (silence >= kPartsKept) st.parts.forget(address);
    if (silence < kClientKept || waits(st, client)) return false;
    st.batcher->forget(client.number);
    self->demonitor(address);
    return true;
  });
  run_ready(self);
}

void on_request(InferenceSelf self, const InferenceRequest& request) {
  auto& st = self->state;
  if (!self->current_sender()) return;  // the connection is already lost: a reply would reach nobody
  InferenceState::Client& client = sending_client(self);
  const Pending pending{self->current_sender(), {client.number, request.group}, request};
  const auto* steps = std::get_if<StepRequest>(&request.body);
  if (steps == nullptr) return fail(self, pending, Fault::bad_message, "the request is not one for actions");
  if (const auto error = misfit(st.context->spec, st.context->recurrence, *steps))
    return fail(self, pending, Fault::bad_message, *error);
  client.worker = request.worker;
  const uint64_t ticket = st.next_ticket++;
  const int64_t rows = static_cast<int64_t>(steps->rows) + steps->value_rows();
  std::optional<uint64_t> replaced;
  if (!st.batcher->add({pending.id, ticket, rows, self->clock().now()}, replaced)) {
    fail(self, pending, Fault::bad_message,
         "a request of " + std::to_string(rows) + " rows exceeds inference.max_batch");
    return;
  }
  if (replaced) st.pending.erase(*replaced);  // the client has asked again: only its newest request is answered
  st.pending.emplace(ticket, pending);
  run_ready(self);
}

void on_part(InferenceSelf self, const Part& part) {
  if (!self->current_sender()) return;  // the connection is already lost: a reply would reach nobody
  sending_client(self);                 // monitors it, so that its parts are freed when it ends
  InferenceRequest request;
  try {
    TROUPE_CHECK(part.of == PartOf::request, static_cast<int>(part.of));
    const auto whole = self->state.parts.add(self->current_sender()->address(), part);
    if (!whole) return;
    request = deserialize<InferenceRequest>(self->system(), *whole);
  } catch (const std::exception& e) {  // no reply: the sender asks again after a time
    const std::string who = process_of(self->current_sender()->node());
    return self->state.log.warn("a request of a worker of " + who + " is dropped: " + e.what());
  }
  on_request(self, request);
}

// A client can only pause its own requests. Actors of the run's process can also pause those of a worker that is gone.
void on_pause(InferenceSelf self, const Pause& pause) {
  auto& st = self->state;
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (!sender) return;  // the connection is already lost
  if (const auto own = st.clients.find(sender->address()); own != st.clients.end()) {
    own->second.heard = self->clock().now();
    st.batcher->pause({own->second.number, pause.group});
  } else if (sender->node() == st.peers.replay.node()) {
    for (const auto& [address, client] : st.clients)
      if (client.worker == pause.worker) st.batcher->pause({client.number, pause.group});
  }
  run_ready(self);
}

void on_down(InferenceSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  st.parts.forget(down.source);
  const auto it = st.clients.find(down.source);
  if (it == st.clients.end()) return;
  for (uint64_t ticket : st.batcher->forget(it->second.number)) st.pending.erase(ticket);
  st.clients.erase(it);
  run_ready(self);
}

void report(InferenceSelf self) {
  auto& st = self->state;
  InferenceReport report = st.report;
  report.inference_index = st.inference_index;
  if (st.version) report.version = *st.version;
  report.busy_us = self->busy_us();
  report.batch_rows = Array::of<int32_t>({static_cast<int64_t>(st.batch_rows.size())}, st.batch_rows);
  report.latency_us = Array::of<float>({static_cast<int64_t>(st.latency_us.size())}, st.latency_us);
  st.batch_rows.clear();
  st.latency_us.clear();
  self->send(st.peers.stats, std::move(report));
}

}  // namespace

InferenceActor::behavior_type inference_actor(InferenceSelf self, RunContextPtr context, InferenceIndex inference_index,
                                              InferencePeers peers) {
  guard(self);
  auto& st = self->state;
  st.context = context;
  st.inference_index = inference_index;
  st.peers = peers;
  st.batcher.emplace(context->config.inference);
  st.parts = PartAssembler(kind_of(*context).most_bytes_of_request(*context), most_open_bytes(*context));
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(peers.publisher, next_atom_v);
  const std::string name = "inference " + std::to_string(inference_index);
  if (const std::string* state = context->state_of(name)) {
    InferenceReport& r = st.report;
    restoring([&] { from_bytes(*state, name, r.batches, r.rows, r.full, r.timeout, r.all_waiting, r.failed); });
  }
  beat_after(self, *context, kReportInterval);
  return {
      [self](const InferenceRequest& request) { on_request(self, request); },
      [self](const Part& part) { on_part(self, part); },
      [self](const Pause& pause) { on_pause(self, pause); },
      [self](const WeightsMessage& message) {
        auto& st = self->state;
        if (!st.policy) {
          st.context->use_threads(static_cast<int>(st.context->config.inference.threads));
          st.policy = st.context->make_policy();
        }
        if (st.version && message.weights->version <= *st.version) return;
        st.policy->load(*message.weights);
        st.version = message.weights->version;
        self->send(st.peers.replay, Applied{st.inference_index, *st.version});
        self->send(st.peers.stats, Applied{st.inference_index, *st.version});
        run_ready(self);
      },
      [self](due_atom, uint64_t timer) {
        if (timer != self->state.timer) return;
        self->state.timer = 0;
        run_ready(self);
      },
      [self, context](beat_atom) {
        report(self);
        if (!context->deterministic) forget_silent(self);  // in a deterministic run, all clients are in this process
        beat_after(self, *context, kReportInterval);
      },
      [self, name](const SaveMessage& save) {
        const InferenceReport& r = self->state.report;
        TROUPE_CHECK(self->state.pending.empty(), self->state.pending.size());
        self->send(save.recorder,
                   ActorState{name, to_bytes(r.batches, r.rows, r.full, r.timeout, r.all_waiting, r.failed)});
      },
      [self](const Stop&) {
        auto& st = self->state;
        for (const auto& [ticket, pending] : st.pending) fail(self, pending, Fault::shutting_down, "the run is ending");
        st.pending.clear();
        report(self);
        self->quit();
      },
  };
}

}  // namespace troupe
