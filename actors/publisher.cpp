#include "actors/publisher.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/weight_plane.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"
#include "runtime/weights/sender.h"

namespace troupe {

namespace {

using PublisherSelf = SelfPointer<PublisherActor, PublisherState>;

constexpr int kMaxFailures = 3;

// Tells the weight plane to run a step if there is work.
void drive(PublisherSelf self) {
  auto& st = self->state;
  if (!st.sender || st.stepping || !st.sender->wait_for_work(std::chrono::milliseconds(0))) return;
  st.stepping = true;
  self->send(st.plane, next_atom_v);
}

void lose(PublisherSelf self, InferenceIndex inference_index, const std::string& why) {
  auto& st = self->state;
  if (st.remote.erase(inference_index) == 0) return;
  if (st.sender) st.sender->remove(inference_index);
  self->send(st.plane, ReceiverGone{inference_index});
  self->send(st.dependencies.supervisor, ReceiverLost{inference_index, why});
}

void lose_all(PublisherSelf self, const std::string& why) {
  const std::set<InferenceIndex> all = self->state.remote;
  for (const InferenceIndex inference_index : all) lose(self, inference_index, why);
}

void on_step(PublisherSelf self, const SenderStep& step) {
  auto& st = self->state;
  st.stepping = false;
  if (step.did == SenderStep::Did::delivered) st.failures = 0;
  for (const InferenceIndex inference_index : step.lost) lose(self, inference_index, step.error);
  if (step.did == SenderStep::Did::failed && step.lost.empty() && !step.error.empty()) {
    log_warn("weights", "a transfer failed: " + step.error);
    if (++st.failures >= kMaxFailures) {
      st.failures = 0;
      lose_all(self, step.error);
    }
  }
  drive(self);
}

void on_plane_down(PublisherSelf self, const caf::error& reason) {
  auto& st = self->state;
  log_warn("weights", "the weight plane ended: " + describe(reason));
  st.plane = nullptr;
  st.sender = nullptr;
  st.stepping = false;
  lose_all(self, describe(reason));
}

void on_joined(PublisherSelf self, const ReceiverJoined& joined) {
  auto& st = self->state;
  if (!st.plane) {
    st.plane = spawn_on(self->system(), st.dependencies.context->threads, weight_plane, st.dependencies.context,
                        st.dependencies.signature, PlaneDriver(self));
    self->monitor(st.plane);
  }
  st.remote.insert(joined.inference_index);
  self->send(st.plane, joined);
}

}  // namespace

PublisherState::~PublisherState() {
  if (sender) sender->stop();
}

PublisherActor::behavior_type publisher(PublisherSelf self, PublisherDependencies dependencies) {
  begin_actor(self, *dependencies.context);
  self->state.dependencies = std::move(dependencies);
  self->set_down_handler([self](const caf::down_msg& down) {
    auto& st = self->state;
    if (st.plane && down.source == st.plane.address()) return on_plane_down(self, down.reason);
    std::erase_if(st.receivers, [&](const WeightsHolder& receiver) { return receiver.address() == down.source; });
  });
  return {
      [self](const WeightsMessage& message) {
        auto& st = self->state;
        TROUPE_CHECK(!st.current || st.current->version <= message.weights->version, st.current->version.text(),
                     message.weights->version.text());
        st.current = message.weights;
        for (const WeightsHolder& receiver : st.receivers) self->send(receiver, message);
        if (st.sender) st.sender->publish(st.current);
        drive(self);
      },
      [self](next_atom) {
        auto& st = self->state;
        auto receiver = caf::actor_cast<WeightsHolder>(self->current_sender());
        self->monitor(receiver);
        st.receivers.push_back(receiver);
        if (st.current) self->send(receiver, WeightsMessage{st.current});
      },
      [self](const ReceiverJoined& joined) { on_joined(self, joined); },
      [self](const ReceiverGone& gone) {
        auto& st = self->state;
        if (st.remote.erase(gone.inference_index) == 0) return;
        // The plane handles the message only after its current step; this ends the step early.
        if (st.sender) st.sender->remove(gone.inference_index);
        self->send(st.plane, gone);
        drive(self);
      },
      [self](const PlaneReady& ready) {
        auto& st = self->state;
        st.sender = ready.sender;
        if (st.current) st.sender->publish(st.current);
        drive(self);
      },
      [self](const PlaneStep& done) { on_step(self, *done.step); },
      [self](const Stop& stop) {
        auto& st = self->state;
        if (st.sender) st.sender->stop();
        self->send(st.plane, stop);
        self->quit();
      },
  };
}

}  // namespace troupe
