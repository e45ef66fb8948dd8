#pragma once
// Joining: how a host in a process of its own finds a run, joins it, notices that it is lost, and joins again after a pause that
// doubles, until kJoinPatience ends. A host's state has a Joining named `joining`, used by that actor alone; what the host holds
// while it is a member of the run is the host's own business.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "actors/messages.h"
#include "runtime/caf_connect.h"
#include "runtime/log.h"

namespace troupe {

constexpr std::chrono::seconds kJoinPatience{120};
constexpr std::chrono::seconds kJoinDeadline{5};  // of one connect, and of one request to the gate

struct RunAddress {
  std::string host;
  uint16_t port = 0;
  std::function<GateActor()>
      local;  // the gate itself, where there is no network; it gives nothing while there is no run
  std::string text() const { return host + ":" + std::to_string(port); }
};

struct Joining {
  RunAddress run;
  std::string kind;                                      // "worker" or "inference"
  std::function<void(const Welcome&)> on_welcome;        // the run took the host in
  std::function<void(const std::string& why)> on_lost;   // gives up what belongs to the present membership
  std::function<void(const std::string& error)> on_end;  // once; an empty text when the run ended in order
  GateActor gate = {};                                   // of the run that is being joined, or was
  bool found_run = false;                                // a run answered once, so that an outage is worth waiting for
  bool trying_again = false;                             // begin_atom is on its way
  uint64_t attempt = 0;                                  // of joining; what an earlier one brings comes too late
  bool ending = false;
  std::chrono::steady_clock::time_point lost_at = {};
  std::chrono::milliseconds backoff{0};  // 0 = joined, or not lost yet
};

// What this process says of itself.
JoinRequest join_request(const std::string& kind);
// The next pause; nothing when patience has ended.
std::optional<std::chrono::milliseconds> next_pause(Joining& joining, std::chrono::steady_clock::time_point now);

template <class Self>
void leave_run(Self self, const std::string& why) {
  Joining& joining = self->state.joining;
  joining.on_lost(why);
  if (joining.gate) self->demonitor(joining.gate.address());
  joining.gate = nullptr;
}

template <class Self>
void end_joining(Self self, const std::string& error) {
  Joining& joining = self->state.joining;
  if (joining.ending) return;
  joining.ending = true;
  leave_run(self, "the host ends");
  joining.on_end(error);
  self->quit();
}

// An address where no run ever answered is a mistake, not an outage: that ends the host.
template <class Self>
void join_again(Self self, const std::string& why) {
  Joining& joining = self->state.joining;
  if (joining.ending || joining.trying_again) return;
  leave_run(self, "the connection to the run is lost");
  ++joining.attempt;
  if (!joining.found_run) return end_joining(self, why);
  if (joining.backoff.count() == 0) log_warn(joining.kind, why + "; joining again");
  const auto pause = next_pause(joining, self->clock().now());
  if (!pause) return end_joining(self, why + "; gave up after " + std::to_string(kJoinPatience.count()) + " s");
  joining.trying_again = true;
  self->delayed_send(self, *pause, begin_atom_v);
}

template <class Self>
void on_join_refused(Self self, const caf::error& error) {
  if (fault_of(error) == Fault::bad_message) return end_joining(self, "the run refuses: " + describe(error));
  if (fault_of(error) == Fault::shutting_down) return end_joining(self, {});
  if (fault_of(error) == Fault::not_ready) self->state.joining.found_run = true;
  join_again(self, "cannot join: " + describe(error));
}

// Asks the gate; `ok` gets its answer unless another attempt has begun.
template <class Result, class Self, class Request, class Ok>
void ask_gate(Self self, Request request, Ok ok) {
  Joining& joining = self->state.joining;
  const auto refused = [self, attempt = joining.attempt](const caf::error& error) {
    if (attempt == self->state.joining.attempt) on_join_refused(self, error);
  };
  auto asked = self->request(joining.gate, kJoinDeadline, std::move(request));
  if constexpr (std::is_void_v<Result>) {
    asked.then(ok, refused);
  } else {
    asked.then(
        [self, ok, attempt = joining.attempt](const Result& result) {
          if (attempt == self->state.joining.attempt) ok(result);
        },
        refused);
  }
}

template <class Self>
void join_at(Self self, const GateActor& gate) {
  Joining& joining = self->state.joining;
  joining.gate = gate;
  self->monitor(gate);
  ask_gate<Welcome>(self, join_request(joining.kind),
                    [self](const Welcome& welcome) { self->state.joining.on_welcome(welcome); });
}

// What a host does at begin_atom, which it sends itself at its start and join_again() later.
template <class Self>
void begin_joining(Self self) {
  Joining& joining = self->state.joining;
  joining.trying_again = false;
  if (joining.ending) return;
  if (joining.run.local) {
    const GateActor gate = joining.run.local();
    return gate ? join_at(self, gate) : join_again(self, "nothing of troupe is published there");
  }
  connect_to<GateActor>(
      self, joining.run.host, joining.run.port, kJoinDeadline, [self](const GateActor& gate) { join_at(self, gate); },
      [self](const std::string& why) { join_again(self, why); });
}

// Whether it was the gate that ended.
template <class Self>
bool on_gate_down(Self self, const caf::down_msg& down) {
  const Joining& joining = self->state.joining;
  if (!joining.gate || down.source != joining.gate.address()) return false;
  join_again(self, "the run is gone (" + describe(down.reason) + ")");
  return true;
}

}  // namespace troupe
