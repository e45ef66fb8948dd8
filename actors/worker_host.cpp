#include "actors/worker_host.h"

#include <unistd.h>

#include <algorithm>

#include "actors/worker.h"
#include "runtime/caf_connect.h"
#include "runtime/log.h"

namespace troupe {

namespace {

using Self = WorkerHostActor::stateful_pointer<WorkerHostState>;

constexpr std::chrono::seconds kDeadline{5};  // of one connect, and of one join
constexpr std::chrono::milliseconds kFirstBackoff{100}, kLongestBackoff{3000};

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

void end(Self self, const std::string& error) {
  auto& st = self->state;
  if (st.ending) return;
  st.ending = true;
  if (st.worker) self->send(st.worker, Stop{"the host ends"});
  st.on_end(error);
  self->quit();
}

void forget_run(Self self) {
  auto& st = self->state;
  if (st.worker) {
    self->demonitor(st.worker.address());
    self->send(st.worker, Stop{"the connection to the run is lost"});
  }
  if (st.gate) self->demonitor(st.gate.address());
  st.worker = nullptr;
  st.gate = nullptr;
}

// Tries again after a pause that doubles, until patience ends. An address where no run ever answered is a mistake, not an outage.
void try_again(Self self, const std::string& why) {
  auto& st = self->state;
  if (st.ending || st.trying_again) return;
  forget_run(self);
  ++st.attempt;
  if (!st.found_run) return end(self, why);
  const auto now = self->clock().now();
  if (st.backoff.count() == 0) {
    st.lost_at = now;
    log_warn("worker", why + "; joining again");
  }
  if (now - st.lost_at > kJoinPatience)
    return end(self, why + "; gave up after " + std::to_string(kJoinPatience.count()) + " s");
  st.backoff = std::clamp(st.backoff * 2, kFirstBackoff, kLongestBackoff);
  st.trying_again = true;
  self->delayed_send(self, st.backoff, begin_atom_v);
}

void start_worker(Self self, const Welcome& welcome) {
  auto& st = self->state;
  try {
    const WiringPtr wiring = st.make_wiring(welcome.config);
    st.worker = spawn_on(self->system(), wiring->threads, rollout_worker, wiring, welcome.member,
                         WorkerPeers{welcome.inference, welcome.replay, welcome.stats});
  } catch (const std::exception& e) {
    return end(self, e.what());
  }
  self->monitor(st.worker);
  st.id = welcome.member;
  st.found_run = true;
  st.backoff = std::chrono::milliseconds{0};
  log_info("worker",
           "joined " + st.run.host + ":" + std::to_string(st.run.port) + " as worker " + std::to_string(st.id));
}

void join(Self self, const GateActor& gate) {
  auto& st = self->state;
  st.gate = gate;
  self->monitor(gate);
  self->request(gate, kDeadline, JoinRequest{kProtocolVersion, "worker", host_name(), static_cast<uint64_t>(getpid())})
      .then(
          [self, attempt = st.attempt](const Welcome& welcome) {
            if (attempt == self->state.attempt) start_worker(self, welcome);
          },
          [self, attempt = st.attempt](const caf::error& error) {
            if (attempt != self->state.attempt) return;
            if (fault_of(error) == Fault::bad_message) return end(self, "the run refuses: " + describe(error));
            if (fault_of(error) == Fault::shutting_down) return end(self, {});
            if (fault_of(error) == Fault::not_ready) self->state.found_run = true;
            try_again(self, "cannot join: " + describe(error));
          });
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.gate && down.source == st.gate.address())
    return try_again(self, "the run is gone (" + describe(down.reason) + ")");
  if (st.worker && down.source == st.worker.address()) {
    st.worker = nullptr;
    try_again(self, "the worker ended (" + describe(down.reason) + ")");
  }
}

}  // namespace

WorkerHostActor::behavior_type worker_host(Self self, RunAddress run,
                                           std::function<WiringPtr(const std::string&)> make_wiring,
                                           std::function<void(const std::string&)> on_end) {
  guard(self);
  auto& st = self->state;
  st.run = std::move(run);
  st.make_wiring = std::move(make_wiring);
  st.on_end = std::move(on_end);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
  return {
      [self](const InferenceReplaced& replaced) {
        if (self->state.worker) self->send(self->state.worker, replaced);
      },
      [self](const Stop&) { end(self, {}); },
      [self](begin_atom) {
        auto& st = self->state;
        st.trying_again = false;
        if (st.ending) return;
        if (st.run.local) {
          const GateActor gate = st.run.local();
          return gate ? join(self, gate) : try_again(self, "nothing of troupe is published there");
        }
        connect_to<GateActor>(
            static_cast<WorkerHostActor::base*>(self), st.run.host, st.run.port, kDeadline,
            [self](const GateActor& gate) { join(self, gate); },
            [self](const std::string& why) { try_again(self, why); });
      },
  };
}

}  // namespace troupe
