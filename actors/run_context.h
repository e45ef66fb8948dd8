#pragma once
// RunContext: what a run is, and the factories that its actors use. Constant once made; shared by all actors of a
// process. The command line fills in the real factories; tests and the simulator fill in their own.

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/run_spec.h"
#include "actors/joined_actors.h"
#include "actors/messages.h"
#include "runtime/caf/system.h"
#include "runtime/stats/actor_board.h"
#include "runtime/weights/process_group.h"

namespace troupe {

struct LmModel;

struct RunContext : RunSpec, RunFactories {
  std::shared_ptr<const LmModel> language_model;  // of a token run, in processes that compute with it
  // Signature of the run's model, as its checkpoints have it. Empty in a process that only hosts workers.
  std::shared_ptr<const Signature> signature;
  // Makes a backend for the weight plane; its members connect to this process at `address`. Empty if this process
  // cannot transfer weights to other processes.
  std::function<std::shared_ptr<GroupBackend>(const std::string& address)> make_group_backend;
  // Likewise for gradients, between rank processes; empty if they go through rank 0 (network.backend).
  std::function<std::shared_ptr<GroupBackend>(const std::string& address)> make_gradient_backend;
  // For the ranks of this process besides the first. Empty where there is never more than one.
  std::function<std::shared_ptr<Learner>()> make_learner;
  bool rank_processes = false;  // ranks besides the first are other processes, which join
  // Identity of the run, the same at every start; workers and inference processes of another run may not join. Empty in
  // a run that no process can join.
  std::string run_id;
  // The address at which other processes connect to this one; empty = the address that the first of them used.
  std::string network_address;
  // True: each detached actor has its own thread. False: every actor runs on the system's scheduler (deterministic and
  // simulated runs).
  bool threads = true;
  // Deterministic run, see actors/deterministic_run.h: actors send heartbeats, report, save and begin an update only
  // when they are told to, never because of a timer.
  bool deterministic = false;
  // In a resumed deterministic run: the states of the actors from the checkpoint, by actor name.
  std::map<std::string, std::string> states;
  // Start of the process, for reports; nullopt = the start of the run's actors.
  std::optional<std::chrono::steady_clock::time_point> started;
  // Where the actors note their times; null: nowhere.
  std::shared_ptr<ActorBoard> board;

  const std::string* state_of(const std::string& actor) const {
    const auto it = states.find(actor);
    return it == states.end() ? nullptr : &it->second;
  }
};

// Call it first: guard(), and the actor notes its times on the board of the run, if there is one.
template <class Self>
void begin_actor(Self* self, const RunContext& context, const char* kind) {
  guard(self);
  if (context.board) self->watch(context.board->add(kind));
}
template <class Self>
void begin_actor(Self* self, const RunContext& context) {
  begin_actor(self, context, self->state.name);
}

// For a host, which learns what the run is only later. Call it as often as it does.
template <class Self>
void watch_host(Self* self, const RunContext& context) {
  if (context.board && !self->is_watched()) self->watch(context.board->add(self->state.name));
}

// Tells stats how the actors of this process spend their time, unless it is the run's own process.
template <class Self, class Stats>
void report_process(Self* self, const RunContext& context, const Stats& stats) {
  if (context.board && stats && stats.node() != self->node()) self->send(stats, report_of(*context.board));
}

// Schedules the actor's next heartbeat after `interval`; does nothing in deterministic runs, where turns trigger it.
template <class Self>
void beat_after(Self* self, const RunContext& context, std::chrono::milliseconds interval) {
  if (!context.deterministic) self->delayed_send(self, interval, beat_atom_v);
}

// How long the end of a run waits for an actor that may be silent: a worker in another process, or one whose
// environment is inside a step.
constexpr std::chrono::milliseconds kFarewell{2500};

using RunContextPtr = std::shared_ptr<const RunContext>;

}  // namespace troupe
