#include "actors/inference_host.h"

#include <unistd.h>

#include <algorithm>

#include "actors/inference.h"
#include "actors/weight_intake.h"
#include "actors/weight_plane.h"
#include "runtime/caf_connect.h"
#include "runtime/log.h"

namespace troupe {

namespace {

using Self = InferenceHostActor::stateful_pointer<InferenceHostState>;

constexpr std::chrono::seconds kDeadline{5};  // of one connect, and of one request to the gate
constexpr std::chrono::milliseconds kFirstBackoff{100}, kLongestBackoff{3000};

std::string host_name() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0) return "unknown";
  return name;
}

// Ends what belongs to the present membership; requests that wait are answered with an error.
void leave_run(Self self, const std::string& why) {
  auto& st = self->state;
  if (st.receiver) st.receiver->stop();
  if (st.inference) {
    self->demonitor(st.inference.address());
    self->send(st.inference, Stop{why});
  }
  if (st.gate) self->demonitor(st.gate.address());
  self->send(st.intake, Stop{why});
  st.receiver = nullptr;
  st.inference = nullptr;
  st.intake = nullptr;
  st.gate = nullptr;
  st.serving = false;
}

void end(Self self, const std::string& error) {
  auto& st = self->state;
  if (st.ending) return;
  st.ending = true;
  leave_run(self, "the inference process ends");
  st.parts.on_end(error);
  self->quit();
}

// Tries again after a pause that doubles, until patience ends.
void try_again(Self self, const std::string& why) {
  auto& st = self->state;
  if (st.ending || st.trying_again) return;
  leave_run(self, "the connection to the run is lost");
  ++st.attempt;
  if (!st.found_run) return end(self, why);
  const auto now = self->clock().now();
  if (st.backoff.count() == 0) {
    st.lost_at = now;
    log_warn("inference", why + "; joining again");
  }
  if (now - st.lost_at > kJoinPatience)
    return end(self, why + "; gave up after " + std::to_string(kJoinPatience.count()) + " s");
  st.backoff = std::clamp(st.backoff * 2, kFirstBackoff, kLongestBackoff);
  st.trying_again = true;
  self->delayed_send(self, st.backoff, begin_atom_v);
}

void on_refusal(Self self, const caf::error& error) {
  if (fault_of(error) == Fault::bad_message) return end(self, "the run refuses: " + describe(error));
  if (fault_of(error) == Fault::shutting_down) return end(self, {});
  if (fault_of(error) == Fault::not_ready) self->state.found_run = true;
  try_again(self, "cannot join: " + describe(error));
}

// Everything is in place to receive before the run hears of it.
void start_serving(Self self, const Welcome& welcome) {
  auto& st = self->state;
  ServeRequest request{welcome.member, {}, {}, {}};
  try {
    const WiringPtr wiring = st.parts.make_wiring(welcome.config);
    const Route route = st.parts.route_to(st.parts.run.host);
    const auto signature = wiring->make_policy()->signature();
    st.id = welcome.member;
    st.receiver = std::make_shared<WeightReceiver>(wiring->make_group_backend(route.local), signature,
                                                   std::make_shared<WeightSlot>(), channel_options(*wiring));
    st.inference = spawn_on(self->system(), wiring->threads, inference_actor, wiring, st.id,
                            InferencePeers{PublisherActor{}, welcome.replay, welcome.stats});
    st.intake =
        spawn_on(self->system(), wiring->threads, weight_intake, st.receiver, st.id,
                 IntakePeers{caf::actor_cast<WeightsHolder>(st.inference), InferenceHostActor(self)}, wiring->threads);
    request.inference = st.inference;
    request.signature = *signature;
    request.address = route.remote;
  } catch (const std::exception& e) {
    return end(self, e.what());
  }
  self->monitor(st.inference);
  st.found_run = true;
  self->request(st.gate, kDeadline, std::move(request))
      .then([] {},
            [self, attempt = st.attempt](const caf::error& error) {
              if (attempt == self->state.attempt) on_refusal(self, error);
            });
}

void join(Self self, const GateActor& gate) {
  auto& st = self->state;
  st.gate = gate;
  self->monitor(gate);
  self->request(gate, kDeadline,
                JoinRequest{kProtocolVersion, "inference", host_name(), static_cast<uint64_t>(getpid())})
      .then(
          [self, attempt = st.attempt](const Welcome& welcome) {
            if (attempt == self->state.attempt) start_serving(self, welcome);
          },
          [self, attempt = st.attempt](const caf::error& error) {
            if (attempt == self->state.attempt) on_refusal(self, error);
          });
}

void on_down(Self self, const caf::down_msg& down) {
  auto& st = self->state;
  if (st.gate && down.source == st.gate.address())
    return try_again(self, "the run is gone (" + describe(down.reason) + ")");
  if (st.inference && down.source == st.inference.address())
    return try_again(self, "the inference actor ended (" + describe(down.reason) + ")");
}

void on_expelled(Self self, const Expelled& expelled) {
  auto& st = self->state;
  if (expelled.receiver != st.id || !st.receiver) return;
  if (!st.serving && ++st.fruitless >= kMaxFruitless)
    return end(self, "the run could not send weights to this process: " + expelled.why);
  try_again(self, "set aside by the run: " + expelled.why);
}

void begin(Self self) {
  auto& st = self->state;
  st.trying_again = false;
  if (st.ending) return;
  if (st.parts.run.local) {
    const GateActor gate = st.parts.run.local();
    return gate ? join(self, gate) : try_again(self, "nothing of troupe is published there");
  }
  connect_to<GateActor>(
      static_cast<InferenceHostActor::base*>(self), st.parts.run.host, st.parts.run.port, kDeadline,
      [self](const GateActor& gate) { join(self, gate); }, [self](const std::string& why) { try_again(self, why); });
}

}  // namespace

InferenceHostState::~InferenceHostState() {
  if (receiver) receiver->stop();
}

InferenceHostActor::behavior_type inference_host(Self self, InferenceHostParts parts) {
  guard(self);
  self->state.parts = std::move(parts);
  self->set_down_handler([self](const caf::down_msg& down) { on_down(self, down); });
  self->send(self, begin_atom_v);
  return {
      [self](const Invitation& invitation) {
        auto& st = self->state;
        if (st.receiver && invitation.receiver == st.id) st.receiver->invite(invitation.rendezvous);
      },
      [self](const Expelled& expelled) { on_expelled(self, expelled); },
      [self](const Stop&) { end(self, {}); },
      [self](begin_atom) { begin(self); },
      [self](const Serving& serving) {
        auto& st = self->state;
        if (serving.receiver != st.id || !st.gate) return;
        st.serving = true;
        st.fruitless = 0;
        st.backoff = std::chrono::milliseconds{0};
        log_info("inference", "serves " + st.parts.run.host + ":" + std::to_string(st.parts.run.port) +
                                  " as receiver " + std::to_string(st.id));
        self->send(st.gate, serving);
      },
  };
}

}  // namespace troupe
