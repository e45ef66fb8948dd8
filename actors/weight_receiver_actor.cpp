#include "actors/weight_receiver_actor.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using ReceiverSelf = SelfPointer<WeightReceiverActor, WeightReceiverState>;
using Did = ReceiverStep::Did;

constexpr std::chrono::milliseconds kLook{2};  // polling interval without threads

void take(ReceiverSelf self, const ReceiverStep& step) {
  auto& st = self->state;
  if (!step.error.empty()) log_warn("weights", step.error);
  if (step.did != Did::applied) return;
  self->send(st.peers.inference, WeightsMessage{step.weights});
  if (st.serving) return;
  st.serving = true;
  self->send(st.peers.host, Serving{st.inference_index});
}

}  // namespace

WeightReceiverState::~WeightReceiverState() {
  if (receiver) receiver->stop();
}

WeightReceiverActor::behavior_type weight_receiver_actor(ReceiverSelf self, std::shared_ptr<WeightReceiver> receiver,
                                                         InferenceIndex inference_index, WeightReceiverPeers peers,
                                                         const RunContextPtr& context) {
  begin_actor(self, *context);
  auto& st = self->state;
  st.receiver = std::move(receiver);
  st.inference_index = inference_index;
  st.peers = std::move(peers);
  self->send(self, next_atom_v);
  return {
      [self, threads = context->threads](next_atom) {
        const ReceiverStep step = self->state.receiver->step(threads ? kForever : std::chrono::milliseconds(0));
        if (step.did == Did::stopped) return self->quit();
        take(self, step);
        if (threads) {
          self->send(self, next_atom_v);
        } else {
          self->delayed_send(self, kLook, next_atom_v);
        }
      },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
