#include "actors/rank_host.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/rank_trainer.h"
#include "actors/spec_fields.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

using RankHostSelf = SelfPointer<RankHostActor, RankHostState>;

void stop_rank(RankHostSelf self, const std::string& why) {
  auto& st = self->state;
  if (!st.rank) return;
  self->demonitor(st.rank.address());
  self->send(st.rank, Stop{why});
  st.rank = nullptr;
}

// The learner first, which may take long.
void start_rank(RankHostSelf self, const Welcome& welcome) {
  auto& st = self->state;
  RankReady ready;
  ready.process = welcome.member;
  RunContextPtr context;
  try {
    context = st.dependencies.make_context(welcome.config);
    watch_host(self, *context);
    std::shared_ptr<Learner> learner = context->make_learner();
    ready.signature = *learner->saved_signature();
    ready.spec = spec_fields(*context);
    GradientBackendTowards gradients;
    if (const auto& route_to = st.dependencies.route_to; context->make_gradient_backend && route_to) {
      ready.address = route_to(st.joining.run.host).remote;
      gradients = [context, route_to](const std::string& host) {
        return context->make_gradient_backend(route_to(host).local);
      };
    }
    st.rank = spawn_on(self->system(), context->threads, rank_trainer, context, std::move(learner), gradients);
    ready.rank = st.rank;
  } catch (const std::exception& e) {
    return fail_joining(self, e.what());
  }
  self->monitor(st.rank);
  joined(self, "rank process " + std::to_string(welcome.member), context->config);
  st.joining.member_since = self->clock().now();
  ask_server<void>(self, std::move(ready), [] {});
}

void on_down(RankHostSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  if (on_server_down(self, down)) return;
  if (!st.rank || down.source != st.rank.address()) return;
  st.rank = nullptr;
  if (!down.reason) return join_again(self, "rank 0 has given this rank up");
  fail_joining(self, "the trainer of the rank ended: " + describe(down.reason));
}

}  // namespace

RankHostActor::behavior_type rank_host(RankHostSelf self, RankHostDependencies dependencies) {
  guard_joining(self);
  auto& st = self->state;
  st.joining = {.run = std::move(dependencies.run),
                .kind = kRankKind,
                .on_welcome = [self](const Welcome& welcome) { start_rank(self, welcome); },
                .on_lost = [self](const std::string& why) { stop_rank(self, why); },
                .on_end = std::move(dependencies.on_end)};
  st.dependencies = std::move(dependencies);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
  return {
      [self](begin_atom) { begin_joining(self); },
      [self](const Stop& stop) { stop_joining(self, stop); },
  };
}

}  // namespace troupe
