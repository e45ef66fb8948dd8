#include "actors/answer_worker.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/answer_core.h"
#include "actors/experience/kinds.h"
#include "actors/spec_fields.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using AnswerWorkerSelf = SelfPointer<WorkerActor, AnswerWorkerState>;

constexpr std::chrono::seconds kAnswerBeat{1};

}  // namespace

class AnswerPortToActors final : public AnswerPort {
 public:
  AnswerPortToActors(AnswerWorkerSelf self, size_t chunk_bytes) : self_(self), chunk_bytes_(chunk_bytes) {}

  void ask(InferenceRequest request) override {
    if (self_->state.peers.inference) deliver(self_->state.peers.inference, std::move(request));
  }
  void push(RolloutPtr rollout) override { deliver(self_->state.peers.replay, RolloutMessage{std::move(rollout)}); }
  void retry_later(uint32_t group, std::chrono::milliseconds delay) override {
    self_->delayed_send(self_, delay, retry_atom_v, group);
  }

 private:
  template <class Service, class Message>
  void deliver(const Service& service, Message message) {
    send_in_parts(self_, service, std::move(message), chunk_bytes_, streams_);
  }

  AnswerWorkerSelf self_;
  size_t chunk_bytes_;
  uint64_t streams_ = 0;
};

AnswerWorkerState::AnswerWorkerState() = default;
AnswerWorkerState::~AnswerWorkerState() = default;

namespace {

void report(AnswerWorkerSelf self, bool last = false) {
  auto& st = self->state;
  WorkerReport report = st.core->report();
  report.last = last;
  WorkerMemory::fill(report, st.peers.replay.node() == self->node());
  report.busy_us = self->busy_us();
  report.last_error.resize(std::min(report.last_error.size(), kMostErrorBytes));
  self->send(st.peers.replay, report);
  self->send(st.peers.stats, std::move(report));
}

// Ends the worker because inference has failed too often on one request.
void end_failed(AnswerWorkerSelf self, uint64_t worker, const std::string& error) {
  report(self, /*last=*/true);
  self->send(self->state.peers.replay, EnvironmentsFailing{worker, error.substr(0, kMostErrorBytes)});
  self->quit(make_error(Fault::forward_failed, error));
}

void on_reply(AnswerWorkerSelf self, uint64_t worker, const InferenceReply& reply) {
  auto& st = self->state;
  if (reply.fault == Fault::bad_message && st.core->awaits(reply)) {
    report(self, /*last=*/true);
    return self->quit(make_error(Fault::incompatible, "inference refuses its requests: " + reply.error));
  }
  try {
    if (const auto why = st.core->on_reply(reply))
      log_warn("worker " + std::to_string(worker), "a reply does not fit its request: " + *why);
  } catch (const InferenceFailed& failed) {
    end_failed(self, worker, failed.what());
  }
}

void on_part(AnswerWorkerSelf self, uint64_t worker, const Part& part) {
  auto& st = self->state;
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (!sender || !st.peers.inference || sender->address() != st.peers.inference.address()) return;
  try {
    TROUPE_CHECK(part.of == PartOf::reply, static_cast<int>(part.of));
    if (const auto whole = st.parts.add(sender->address(), part))
      on_reply(self, worker, deserialize<InferenceReply>(self->system(), *whole));
  } catch (const std::exception& e) {  // the request is asked again after a time
    log_warn("worker " + std::to_string(worker), std::string("a reply in parts is damaged: ") + e.what());
  }
}

void replace_inference(AnswerWorkerSelf self, const InferenceService& inference) {
  auto& st = self->state;
  if (st.peers.inference) st.parts.forget(st.peers.inference.address());
  st.peers.inference = inference;
  if (inference) self->monitor(inference);
  st.core->retry_all();
}

}  // namespace

WorkerActor::behavior_type answer_worker(AnswerWorkerSelf self, RunContextPtr context, uint64_t worker,
                                         WorkerPeers peers) {
  guard(self);
  auto& st = self->state;
  st.peers = peers;
  st.port = std::make_unique<AnswerPortToActors>(self, static_cast<size_t>(context->config.network.chunk_bytes));
  st.core = std::make_unique<AnswerCore>(context->config, context->tokens, worker, *st.port);
  const size_t most = kind_of(*context).most_bytes_of_reply(*context);
  st.parts = PartAssembler(most, most);
  self->monitor(peers.replay);
  if (peers.inference) self->monitor(peers.inference);
  self->set_down_handler([self](const caf::down_msg& down) {
    // If the inference actor ended, the supervisor sends a new one. If replay ended, the run has ended.
    self->state.parts.forget(down.source);
    if (down.source == self->state.peers.replay.address()) self->quit(make_error(Fault::peer_gone, "replay"));
  });
  self->send(self, begin_atom_v);
  const std::string name = "worker " + std::to_string(worker);
  if (const std::string* state = context->state_of(name)) restoring([&] { st.core->load(*state); });
  drop_strange_messages(self, name);
  return {
      [self, worker](const InferenceReply& reply) { on_reply(self, worker, reply); },
      [self, worker](const Part& part) { on_part(self, worker, part); },
      [self](const Credits& credits) { self->state.core->add_credits(credits.count, credits.epoch); },
      [self, context, worker](begin_atom) {
        auto& st = self->state;
        self->send(st.peers.replay,
                   WorkerHello{worker, st.core->groups(), st.core->samples_per_rollout(), spec_fields(*context)});
        beat_after(self, *context, kAnswerBeat);
      },
      [self](retry_atom, uint32_t group) { self->state.core->retry(group); },
      [](revive_atom, uint32_t, uint32_t) {},
      [self, context, worker](beat_atom) {
        auto& st = self->state;
        st.core->beat();
        report(self);
        if (const auto error = st.core->failing())
          self->send(st.peers.replay, EnvironmentsFailing{worker, error->substr(0, kMostErrorBytes)});
        beat_after(self, *context, kAnswerBeat);
      },
      [self, name](const SaveMessage& save) { self->send(save.recorder, ActorState{name, self->state.core->save()}); },
      [self](const InferenceReplaced& replaced) { replace_inference(self, replaced.inference); },
      [self](const Stop&) {
        report(self, /*last=*/true);
        self->quit();
      },
  };
}

}  // namespace troupe
