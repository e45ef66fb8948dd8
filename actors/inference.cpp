#include "actors/inference.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/kinds.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using InferenceSelf = SelfPointer<InferenceActor, InferenceState>;
using Pending = InferenceState::Pending;

constexpr std::chrono::milliseconds kReportInterval{500};
constexpr uint64_t kOpenRequests = 16;  // limit on incomplete requests in parts, if all have the largest size
// How long an incomplete request in parts, and the client itself, are kept after the client's last message. The parts
// of a request follow each other at once.
constexpr std::chrono::seconds kPartsKept{10}, kClientKept{60};
// How long a request is in progress before its client is told so, and then until it is told again.
constexpr std::chrono::seconds kToldInProgress{2};

// Limit on the bytes of all incomplete requests in parts. The number of senders has no limit. A part over the limit is
// dropped, and its sender repeats the request.
uint64_t most_open_bytes(const RunContext& context) {
  return std::max<uint64_t>(kMaxArrayBytes, kOpenRequests * kind_of(context).most_bytes_of_request(context));
}

void send_reply(InferenceSelf self, const Pending& pending, InferenceReply reply) {
  auto& st = self->state;
  reply.id = pending.request;
  reply.group = pending.id.group;
  if (st.version) reply.version = *st.version;
  send_in_parts(self, caf::actor_cast<InferenceClient>(pending.client), std::move(reply),
                static_cast<size_t>(st.context->config.network.chunk_bytes), st.streams);
}

void fail(InferenceSelf self, const Pending& pending, Fault fault, const std::string& error) {
  InferenceReply reply;
  reply.fault = fault;
  reply.error = error.substr(0, kMostErrorBytes);
  send_reply(self, pending, std::move(reply));
}

// Removes the request from what is pending.
Pending take_pending(InferenceState& st, uint64_t ticket) {
  const auto it = st.pending.find(ticket);
  TROUPE_CHECK(it != st.pending.end(), ticket);
  Pending pending = std::move(it->second);
  st.pending.erase(it);
  st.tickets.erase(pending.id);
  return pending;
}

// Drops the client's request, if it has one: nobody waits for its result.
void withdraw(InferenceState& st, const ClientId& client) {
  const auto it = st.tickets.find(client);
  if (it == st.tickets.end()) return;
  st.server->forget(it->second);
  st.pending.erase(it->second);
  st.tickets.erase(it);
}

}  // namespace

class ServerPortToActors final : public ServerPort {
 public:
  explicit ServerPortToActors(InferenceSelf self) : self_(self) {}

  void reply(uint64_t ticket, ReplyBody body) override {
    InferenceReply reply;
    reply.body = std::move(body);
    send_reply(self_, take_pending(self_->state, ticket), std::move(reply));
  }
  void fail(uint64_t ticket, const std::string& error) override {
    troupe::fail(self_, take_pending(self_->state, ticket), Fault::forward_failed, error);
  }
  Server::Clock::time_point now() const override { return self_->clock().now(); }

 private:
  InferenceSelf self_;
};

InferenceState::InferenceState() = default;
InferenceState::~InferenceState() = default;

namespace {

// Sends a message to oneself for the time at which the next work is due.
void schedule(InferenceSelf self) {
  auto& st = self->state;
  const auto due = st.server->due();
  if (!due || st.timer != 0) return;
  st.timer = ++st.timers;
  if (*due <= self->clock().now())
    self->send(self, due_atom_v, st.timer);
  else
    self->scheduled_send(self, *due, due_atom_v, st.timer);
}

// Says so if the server uses other weights than before.
void note_version(InferenceSelf self) {
  auto& st = self->state;
  if (!st.server->version() || st.version == st.server->version()) return;
  st.version = st.server->version();
  if (st.role != Role::sampling) return;
  self->send(st.peers.replay, Applied{st.inference_index, *st.version});
  self->send(st.peers.stats, Applied{st.inference_index, *st.version});
}

// Computes what is ready. Then waits until more is due.
void run_ready(InferenceSelf self) {
  auto& st = self->state;
  if (!st.version) return;
  st.server->run_ready(*st.port);
  note_version(self);
  schedule(self);
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
  const auto it = st.tickets.lower_bound({client.number, 0});
  return it != st.tickets.end() && it->first.worker == client.number;
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
    st.server->forget_worker(client.number);
    self->demonitor(address);
    return true;
  });
  run_ready(self);
}

// Tells clients that their requests are in progress. They then know that these were not lost, however long the result
// takes. Without weights nothing is in progress.
void tell_in_progress(InferenceSelf self) {
  if (!self->state.version) return;
  const auto now = self->clock().now();
  for (auto& [ticket, pending] : self->state.pending) {
    if (now - pending.told < kToldInProgress) continue;
    pending.told = now;
    send_reply(self, pending, {});
  }
}

void on_request(InferenceSelf self, const InferenceRequest& request) {
  auto& st = self->state;
  if (!self->current_sender()) return;  // the connection is already lost: a reply would reach nobody
  InferenceState::Client& client = sending_client(self);
  const auto now = self->clock().now();
  const Pending pending{self->current_sender(), {client.number, request.group}, request.id, now};
  if (const auto error = st.server->misfit(request.body)) return fail(self, pending, Fault::bad_message, *error);
  client.worker = request.worker;
  const auto it = st.tickets.find(pending.id);
  if (it != st.tickets.end() && st.pending.at(it->second).request == request.id) return;  // it has come again
  withdraw(st, pending.id);  // of the client's requests only the newest one is answered
  const uint64_t ticket = st.next_ticket++;
  st.tickets.emplace(pending.id, ticket);
  st.pending.emplace(ticket, pending);
  st.server->accept(ticket, pending.id, request.body, now);
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
  const auto pause_client = [&](uint64_t number) {
    withdraw(st, {number, pause.group});
    st.server->pause({number, pause.group});
  };
  if (const auto own = st.clients.find(sender->address()); own != st.clients.end()) {
    own->second.heard = self->clock().now();
    pause_client(own->second.number);
  } else if (sender->node() == st.peers.replay.node()) {
    for (const auto& [address, client] : st.clients)
      if (client.worker == pause.worker) pause_client(client.number);
  }
  run_ready(self);
}

void on_down(InferenceSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  st.parts.forget(down.source);
  const auto it = st.clients.find(down.source);
  if (it == st.clients.end()) return;
  const uint64_t number = it->second.number;
  st.server->forget_worker(number);
  std::erase_if(st.pending, [&](const auto& entry) { return entry.second.id.worker == number; });
  std::erase_if(st.tickets, [&](const auto& entry) { return entry.first.worker == number; });
  st.clients.erase(it);
  run_ready(self);
}

void load(InferenceSelf self, const WeightsPtr& weights) {
  auto& st = self->state;
  if (st.version && weights->version <= *st.version) return;
  st.server->load(weights, self->clock().now());
  note_version(self);
  run_ready(self);
}

void report(InferenceSelf self) {
  auto& st = self->state;
  if (st.role == Role::scoring && !st.version) return;  // it does not serve yet
  InferenceReport report = st.server->take_report();
  report.inference_index = st.inference_index;
  report.role = st.role;
  if (st.version) report.version = *st.version;
  report.busy_us = self->busy_us();
  self->send(st.peers.stats, std::move(report));
}

}  // namespace

bool needs_weights(const RunConfig& config, Role role) {
  return role == Role::sampling || config.reference.by_scorers();
}

InferenceActor::behavior_type inference_actor(InferenceSelf self, RunContextPtr context, Role role,
                                              InferenceIndex inference_index, InferencePeers peers) {
  begin_actor(self, *context, role == Role::scoring ? "scorer" : "inference");
  auto& st = self->state;
  st.context = context;
  st.role = role;
  st.inference_index = inference_index;
  st.peers = peers;
  const ExperienceKind& kind = kind_of(*context);
  st.server = (role == Role::sampling ? kind.make_server : kind.make_scoring_server)(*context, *context);
  st.port = std::make_unique<ServerPortToActors>(self);
  st.parts = PartAssembler(kind.most_bytes_of_request(*context), most_open_bytes(*context));
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  if (needs_weights(context->config, role))
    self->send(peers.publisher, next_atom_v);
  else
    st.version.emplace();
  const std::string name = std::string(name_of(role)) + ' ' + std::to_string(inference_index);
  if (const std::string* state = context->state_of(name)) restoring([&] { st.server->load_counts(*state, name); });
  beat_after(self, *context, kReportInterval);
  return {
      [self](const InferenceRequest& request) { on_request(self, request); },
      [self](const Part& part) { on_part(self, part); },
      [self](const Pause& pause) { on_pause(self, pause); },
      [self](const WeightsMessage& message) { load(self, message.weights); },
      [self](due_atom, uint64_t timer) {
        auto& st = self->state;
        if (timer != st.timer) return;
        st.timer = 0;
        if (!st.version) return;
        st.server->run_due(*st.port);
        note_version(self);
        schedule(self);
      },
      [self, context](beat_atom) {
        report(self);
        report_process(self, *context, self->state.peers.stats);
        tell_in_progress(self);
        if (!context->deterministic) forget_silent(self);  // in a deterministic run, all clients are in this process
        beat_after(self, *context, kReportInterval);
      },
      [self, name](const SaveMessage& save) {
        self->send(save.recorder, ActorState{name, self->state.server->save()});
      },
      [self](const Stop& stop) {
        auto& st = self->state;
        for (const auto& [ticket, pending] : st.pending)
          fail(self, pending, Fault::shutting_down, "inference ends: " + stop.reason);
        st.pending.clear();
        report(self);
        self->quit();
      },
  };
}

}  // namespace troupe
