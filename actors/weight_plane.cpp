#include "actors/weight_plane.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/log.h"
#include "runtime/caf/system.h"
#include "runtime/weights/sender.h"

namespace troupe {

namespace {

using PlaneActorSelf = SelfPointer<WeightPlaneActor, WeightPlaneState>;
using std::chrono::milliseconds;

// If all actors share one thread, receivers cannot answer while this actor blocks. Instead of blocking, it gives them
// this much time of the actor clock between the sending of weights and the collection of their answers.
constexpr milliseconds kAnswerTime{20};

std::shared_ptr<WeightSender> make_sender(PlaneActorSelf self, std::shared_ptr<const Signature> signature,
                                          const std::string& address) {
  const RunContext& context = *self->state.context;
  TROUPE_CHECK(context.make_group_backend, "this process cannot make process groups");
  const auto deliver = [self](InferenceIndex inference_index, const Rendezvous& rendezvous) {
    const auto host = self->state.hosts.find(inference_index);
    if (host != self->state.hosts.end()) self->send(host->second, Invitation{inference_index, rendezvous});
  };
  const std::string& bound = context.network_address.empty() ? address : context.network_address;
  return std::make_shared<WeightSender>(context.make_group_backend(bound), std::move(signature), deliver,
                                        channel_options(context));
}

void on_joined(PlaneActorSelf self, const std::shared_ptr<const Signature>& signature, const ReceiverJoined& joined) {
  auto& st = self->state;
  if (!st.sender) st.sender = make_sender(self, signature, joined.address);
  st.hosts[joined.inference_index] = joined.host;
  const auto difference =
      st.sender->admit(joined.inference_index, *signature);  // the supervisor has already compared signatures
  TROUPE_CHECK(!difference, *difference);
  self->send(st.driver, PlaneReady{st.sender});
}

void step(PlaneActorSelf self) {
  auto& st = self->state;
  if (!st.sender) return;
  const auto done = std::make_shared<const SenderStep>(st.sender->step());
  if (done->did == SenderStep::Did::connected)
    log_info("weights", "connected to the inference processes (group " + std::to_string(st.sender->generation()) + ')');
  if (done->did == SenderStep::Did::sent && !st.context->threads) {
    self->delayed_send(st.driver, kAnswerTime, PlaneStep{done});
  } else {
    self->send(st.driver, PlaneStep{done});
  }
}

}  // namespace

ChannelOptions channel_options(const RunContext& context) {
  const NetworkConfig& network = context.config.network;
  ChannelOptions options;
  options.bucket_bytes = static_cast<size_t>(network.chunk_bytes);
  options.transfer_timeout = context.threads ? network.transfer_timeout : milliseconds(0);
  options.connect_timeout = std::min(options.connect_timeout, options.transfer_timeout);
  return options;
}

WeightPlaneActor::behavior_type weight_plane(PlaneActorSelf self, RunContextPtr context,
                                             std::shared_ptr<const Signature> signature, PlaneDriver driver) {
  begin_actor(self, *context);
  auto& st = self->state;
  st.context = std::move(context);
  st.driver = std::move(driver);
  self->monitor(st.driver);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {
      [self, signature](const ReceiverJoined& joined) { on_joined(self, signature, joined); },
      [self](const ReceiverGone& gone) {
        auto& st = self->state;
        st.hosts.erase(gone.inference_index);
        if (st.sender) st.sender->remove(gone.inference_index);
      },
      [self](next_atom) { step(self); },
      [self](const Stop&) { self->quit(); },
  };
}

}  // namespace troupe
