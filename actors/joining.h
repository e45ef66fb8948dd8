#pragma once
// Joining: how a host in a process of its own finds a run, joins it, notices that it is lost, and joins again. Between
// two attempts it pauses, each time for longer, until its patience ends; patience begins anew with each loss, the
// pauses only after a membership that has lasted, so that a worker whose environments cannot be made does not join
// again and again without a rest. A host's state has a Joining named `joining`, used by that actor alone; what the host
// holds while it is a member of the run is the host's own business.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "actors/config/config.h"
#include "actors/messages.h"
#include "actors/run_address.h"
#include "runtime/caf/connect.h"
#include "runtime/caf/keep_alive.h"

namespace troupe {

constexpr std::chrono::seconds kJoinDeadline{5};  // of one connect, and of one request to the join server, at most
constexpr std::chrono::milliseconds kLeastJoinDeadline{500};  // also at the end of patience

struct Joining {
  RunAddress run;
  std::string kind;                                      // "worker", "inference" or "scorer"
  std::function<void(const Welcome&)> on_welcome;        // the run took the host in
  std::function<void(const std::string& why)> on_lost;   // gives up what belongs to the present membership
  std::function<void(const std::string& error)> on_end;  // once; an empty text when the run ended in order
  JoinService server = {};                               // of the run that is being joined, or was
  caf::actor keep_alive = {};  // of the connection to the join server, once the run's settings are known
  std::string member = {};     // "worker 3" while it is a member, and afterwards
  std::string run_id = {};     // of the run that took it in first: it joins no other
  bool found_run = false;      // a run answered once
  bool told_refusal = false;   // since it was a member, why a run does not take it in yet
  bool trying_again = false;   // begin_atom is on its way
  uint64_t attempt = 0;        // of joining; what an earlier one brings comes too late
  bool ending = false;
  // When the last membership was lost, or the first run was first looked for; nothing while the host is a member.
  std::optional<std::chrono::steady_clock::time_point> lost_at = {};
  std::chrono::milliseconds backoff{0};  // the pause before the last attempt; 0 = none, or the membership has lasted
  // When the membership became of use: a worker was started, or inference serves. next_pause() sees from it whether it
  // has lasted.
  std::optional<std::chrono::steady_clock::time_point> member_since = {};
};

// What this process says of itself.
JoinRequest join_request(const Joining& joining);
// The patience that counts now: before a run has answered, or after.
std::chrono::seconds patience_of(const Joining& joining);
// The run took the host in: its patience begins anew with the next loss.
void taken_in(Joining& joining);
// The next pause, which is never beyond the end of patience; nothing when that has come.
std::optional<std::chrono::milliseconds> next_pause(Joining& joining, std::chrono::steady_clock::time_point now);
// How long an attempt that begins now may take. It does not go beyond the end of patience by more than
// kLeastJoinDeadline.
std::chrono::milliseconds attempt_deadline(Joining& joining, std::chrono::steady_clock::time_point now);
// Tells on_news, or the log.
void tell_news(const Joining& joining, JoinNews::Kind kind, const std::string& text);

template <class Self>
void leave_run(Self self, const std::string& why) {
  Joining& joining = self->state.joining;
  joining.on_lost(why);
  if (joining.server) self->demonitor(joining.server.address());
  if (joining.keep_alive) self->send_exit(joining.keep_alive, caf::exit_reason::user_shutdown);
  joining.keep_alive = nullptr;
  joining.server = nullptr;
}

// `why` is for the console; `error` is empty when the host ends in order.
template <class Self>
void end_joining(Self self, const std::string& why, const std::string& error) {
  Joining& joining = self->state.joining;
  if (joining.ending) return;
  joining.ending = true;
  leave_run(self, "the host ends");
  if (error.empty()) tell_news(joining, JoinNews::Kind::ended, "ended: " + why);
  joining.on_end(error);
  self->quit();
}

template <class Self>
void fail_joining(Self self, const std::string& error) {
  end_joining(self, error, error);
}

// After an exception, like that of a thread that cannot be started, the host ends with an error.
template <class Self>
void guard_joining(Self self) {
  drop_strange_messages(self, self->name());
  self->set_exception_handler([self](std::exception_ptr& failure) {
    Joining& joining = self->state.joining;
    caf::error fault = fault_of_exception(failure);
    if (!std::exchange(joining.ending, true)) {
      leave_run(self, "the host ends");
      tell_news(joining, JoinNews::Kind::gave_up, describe(fault));
      joining.on_end(describe(fault));
    }
    return fault;
  });
}

// Stop comes from the run, which ended, or from this process.
template <class Self>
void stop_joining(Self self, const Stop& stop) {
  const bool by_run = self->current_sender() != nullptr;
  end_joining(self, by_run ? "the run ended" + (stop.reason.empty() ? "" : " (" + stop.reason + ")") : stop.reason, {});
}

template <class Self>
void join_again(Self self, const std::string& why) {
  Joining& joining = self->state.joining;
  if (joining.ending || joining.trying_again) return;
  leave_run(self, "the connection to the run is lost");
  ++joining.attempt;
  const bool first = joining.backoff.count() == 0 || !joining.lost_at;
  const auto pause = next_pause(joining, self->clock().now());
  const auto seconds = patience_of(joining).count();
  const std::string patience = std::to_string(seconds) + " s";
  if (!pause) {
    const std::string error = why + (seconds == 0 ? "; tried once" : "; gave up after " + patience);
    if (!joining.member.empty()) tell_news(joining, JoinNews::Kind::gave_up, error);
    return fail_joining(self, error);
  }
  if (first && joining.member.empty())
    tell_news(joining, JoinNews::Kind::searching, why + "; trying again for up to " + patience);
  if (first && !joining.member.empty())
    tell_news(joining, JoinNews::Kind::lost, why + "; joining again for up to " + patience);
  joining.trying_again = true;
  self->delayed_send(self, *pause, begin_atom_v);
}

// A run that is ending may be resumed at the same address, so only who was a member of it, or was started together with
// it, takes that for the end.
template <class Self>
void on_join_refused(Self self, const caf::error& error) {
  Joining& joining = self->state.joining;
  if (fault_of(error) == Fault::bad_message)
    return fail_joining(self, joining.run.text() + ": the run refuses: " + describe(error));
  if (fault_of(error) == Fault::shutting_down && (!joining.member.empty() || joining.run.launched))
    return end_joining(self, "the run ended", {});
  if (fault_of(error) == Fault::not_ready) {
    joining.found_run = true;
    if (!joining.member.empty() && !std::exchange(joining.told_refusal, true))
      tell_news(joining, JoinNews::Kind::searching, joining.run.text() + ": " + describe(error) + "; trying again");
  }
  join_again(self, joining.run.text() + ": cannot join: " + describe(error));
}

// The host is now `member`, such as "worker 3", of the run with this config.
template <class Self>
void joined(Self self, const std::string& member, const RunConfig& config) {
  Joining& joining = self->state.joining;
  taken_in(joining);
  joining.member = member;
  tell_news(joining, JoinNews::Kind::joined,
            "joined " + config.name + " (" + env_or_task(config) + ") at " + joining.run.text());
}

// Asks the join server; `ok` gets its answer unless another attempt has begun.
template <class Result, class Self, class Request, class Ok>
void ask_server(Self self, Request request, Ok ok, std::chrono::milliseconds deadline = kJoinDeadline) {
  Joining& joining = self->state.joining;
  const auto refused = [self, attempt = joining.attempt](const caf::error& error) {
    if (attempt == self->state.joining.attempt) on_join_refused(self, error);
  };
  auto asked = self->request(joining.server, deadline, std::move(request));
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

// Signs of life begin before the host makes what it needs as a member, which takes its time.
template <class Self>
void on_welcome(Self self, const Welcome& welcome) {
  Joining& joining = self->state.joining;
  if (joining.run_id.empty()) joining.run_id = welcome.run;
  if (!joining.run.local) {
    try {
      const NetworkConfig network = parse_config(welcome.config, "the run's config").network;
      joining.keep_alive = keep_alive(self->system(), joining.server.address(), network, self->ctrl());
    } catch (const ConfigError& e) {
      return fail_joining(self, e.what());
    }
  }
  joining.on_welcome(welcome);
}

template <class Self>
void join_at(Self self, const JoinService& server) {
  Joining& joining = self->state.joining;
  joining.server = server;
  self->monitor(server);
  ask_server<Welcome>(
      self, join_request(joining), [self](const Welcome& welcome) { on_welcome(self, welcome); },
      attempt_deadline(joining, self->clock().now()));
}

// What a host does at begin_atom, which it sends itself at its start and join_again() later.
template <class Self>
void begin_joining(Self self) {
  Joining& joining = self->state.joining;
  joining.trying_again = false;
  if (joining.ending) return;
  if (joining.run.local) {
    const JoinService server = joining.run.local();
    return server ? join_at(self, server) : join_again(self, "no run is open there");
  }
  connect_to<JoinService>(
      self, joining.run.host, joining.run.port, attempt_deadline(joining, self->clock().now()),
      [self](const JoinService& server) { join_at(self, server); },
      [self](const std::string& why) { join_again(self, why); },
      [self](const std::string& why) { fail_joining(self, why); });
}

// Whether it was the join server that ended.
template <class Self>
bool on_server_down(Self self, const caf::down_msg& down) {
  const Joining& joining = self->state.joining;
  if (!joining.server || down.source != joining.server.address()) return false;
  join_again(self, joining.run.text() + ": the run is gone (" + describe(down.reason) + ")");
  return true;
}

}  // namespace troupe
