#include "actors/worker_host.h"

#include "actors/spawn.h"
#include "actors/spec_fields.h"
#include "runtime/caf/route.h"

namespace troupe {

namespace {

using WorkerHostSelf = SelfPointer<WorkerHostActor, WorkerHostState>;

void stop_worker(WorkerHostSelf self, const std::string& why) {
  auto& st = self->state;
  if (!st.worker) return;
  self->demonitor(st.worker.address());
  self->send(st.worker, Stop{why});
  st.worker = nullptr;
}

// Makes CAF send messages to an inference process through the run, which relays them: there is no direct connection.
void reach_through_run(WorkerHostSelf self, const InferenceService& inference) {
  const JoinService& server = self->state.joining.server;  // null if the host has left the run meanwhile
  if (inference && server) route_through(self->system(), server.node(), inference.node());
}

void start_worker(WorkerHostSelf self, const Welcome& welcome) {
  auto& st = self->state;
  reach_through_run(self, welcome.inference);
  reach_through_run(self, welcome.scorer);
  RunContextPtr context;
  try {
    context = st.make_context(welcome.config);
    watch_host(self, *context);
    st.worker =
        spawn_worker_on(self->system(), context, welcome.member,
                        WorkerPeers{welcome.inference, welcome.replay, welcome.stats, welcome.epoch, welcome.scorer});
  } catch (const std::exception& e) {
    return fail_joining(self, e.what());
  }
  self->monitor(st.worker);
  st.joining.member_since = self->clock().now();
  // Another worker is refused at its hello.
  if (!spec_difference(welcome.spec, spec_fields(*context)))
    joined(self, "worker " + std::to_string(welcome.member), context->config);
}

void on_down(WorkerHostSelf self, const caf::down_msg& down) {
  auto& st = self->state;
  if (on_server_down(self, down)) return;
  if (st.worker && down.source == st.worker.address()) {
    st.worker = nullptr;
    if (fault_of(down.reason) == Fault::incompatible)
      return fail_joining(self, st.joining.run.text() + ": " + describe(down.reason));
    join_again(self, "the worker ended (" + describe(down.reason) + ")");
  }
}

}  // namespace

WorkerHostActor::behavior_type worker_host(WorkerHostSelf self, RunAddress run,
                                           std::function<RunContextPtr(const std::string&)> make_context,
                                           std::function<void(const std::string&)> on_end) {
  guard_joining(self);
  auto& st = self->state;
  st.make_context = std::move(make_context);
  st.joining = {.run = std::move(run),
                .kind = "worker",
                .on_welcome = [self](const Welcome& welcome) { start_worker(self, welcome); },
                .on_lost = [self](const std::string& why) { stop_worker(self, why); },
                .on_end = std::move(on_end)};
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
  return {
      [self](const InferenceReplaced& replaced) {
        reach_through_run(self, replaced.inference);
        if (self->state.worker) self->send(self->state.worker, replaced);
      },
      [self](const Stop& stop) { stop_joining(self, stop); },
      [self](begin_atom) { begin_joining(self); },
  };
}

}  // namespace troupe
