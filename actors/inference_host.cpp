#include "actors/inference_host.h"

#include "actors/spawn.h"
#include "actors/spec_fields.h"
#include "actors/weight_plane.h"
#include "actors/weight_receiver_actor.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

using InferenceHostSelf = SelfPointer<InferenceHostActor, InferenceHostState>;

// Ends the actors of the present membership. The inference actor answers pending requests with an error.
void stop_serving(InferenceHostSelf self, const std::string& why) {
  auto& st = self->state;
  if (st.receiver) st.receiver->stop();
  if (st.inference) {
    self->demonitor(st.inference.address());
    self->send(st.inference, Stop{why});
  }
  self->send(st.receiver_actor, Stop{why});
  st.receiver = nullptr;
  st.inference = nullptr;
  st.receiver_actor = nullptr;
  st.serving = false;
}

// Makes the receiver and the actors first and then asks the run for weights, so that none come too early.
void start_serving(InferenceHostSelf self, const Welcome& welcome) {
  auto& st = self->state;
  const Role role = st.dependencies.role;
  ServeRequest request{welcome.member, {}, {}, {}, {}, role};
  bool weights = true;
  RunContextPtr context;
  try {
    context = st.dependencies.make_context(welcome.config);
    watch_host(self, *context);
    const Route route = st.dependencies.route_to(st.joining.run.host);
    st.inference_index = welcome.member;
    st.inference = spawn_inference_on(self->system(), context, role, st.inference_index,
                                      InferencePeers{PublisherActor{}, welcome.replay, welcome.stats});
    weights = needs_weights(context->config, role);
    if (weights) {
      request.signature = published_signature(*context->signature);
      const auto published = std::make_shared<const Signature>(request.signature);
      st.receiver = std::make_shared<WeightReceiver>(context->make_group_backend(route.local), published,
                                                     std::make_shared<WeightSlot>(), channel_options(*context));
      st.receiver_actor = spawn_on(
          self->system(), context->threads, weight_receiver_actor, st.receiver, st.inference_index,
          WeightReceiverPeers{caf::actor_cast<WeightsHolder>(st.inference), InferenceHostActor(self)}, context);
    }
    request.inference = st.inference;
    request.address = route.remote;
    request.spec = spec_fields(*context);
  } catch (const std::exception& e) {
    return fail_joining(self, e.what());
  }
  self->monitor(st.inference);
  joined(self, std::string(name_of(role)) + ' ' + std::to_string(st.inference_index), context->config);
  ask_server<void>(self, std::move(request), [self, weights, index = st.inference_index] {
    if (!weights) self->send(self, Serving{index});
  });
}

void on_down(InferenceHostSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  if (on_server_down(self, down)) return;
  if (st.inference && down.source == st.inference.address())
    return join_again(self, "the inference actor ended (" + describe(down.reason) + ")");
}

void on_expelled(InferenceHostSelf self, const Expelled& expelled) {
  auto& st = self->state;
  if (expelled.inference_index != st.inference_index || !st.inference) return;
  if (!st.serving && ++st.fruitless >= kMaxFruitless)
    return fail_joining(self, "the run could not send weights to this process: " + expelled.why);
  join_again(self, "removed from the run: " + expelled.why);
}

}  // namespace

InferenceHostState::~InferenceHostState() {
  if (receiver) receiver->stop();
}

InferenceHostActor::behavior_type inference_host(InferenceHostSelf self, InferenceHostDependencies dependencies) {
  guard_joining(self);
  auto& st = self->state;
  st.joining = {.run = std::move(dependencies.run),
                .kind = name_of(dependencies.role),
                .on_welcome = [self](const Welcome& welcome) { start_serving(self, welcome); },
                .on_lost = [self](const std::string& why) { stop_serving(self, why); },
                .on_end = std::move(dependencies.on_end)};
  st.dependencies = std::move(dependencies);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
  return {
      [self](const Invitation& invitation) {
        auto& st = self->state;
        if (st.receiver && invitation.inference_index == st.inference_index) st.receiver->invite(invitation.rendezvous);
      },
      [self](const Expelled& expelled) { on_expelled(self, expelled); },
      [self](const Stop& stop) { stop_joining(self, stop); },
      [self](begin_atom) { begin_joining(self); },
      [self](const Serving& serving) {
        auto& st = self->state;
        if (serving.inference_index != st.inference_index || !st.joining.server) return;
        st.serving = true;
        st.fruitless = 0;
        st.joining.member_since = self->clock().now();
        log_info(name_of(st.dependencies.role),
                 "answers workers of the run at " + st.joining.run.text() + " as " + st.joining.member);
        self->send(st.joining.server, serving);
      },
  };
}

}  // namespace troupe
