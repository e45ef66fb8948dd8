#pragma once
// Deterministic runs (RunContext::deterministic): all actors of the run share one thread and a virtual clock that moves
// only when no message is left. When every actor is idle (no message left, no timer set) the supervisor gets a turn:
// the actors report, a checkpoint is taken if one is due, and the trainer begins its next update. docs/determinism.md
// describes the consequences.

#include <chrono>
#include <functional>

#include "actors/messages.h"

namespace troupe {

// Virtual time between two steps of a turn: the next step starts when all messages of the previous one are handled.
constexpr std::chrono::milliseconds kIdleStep{1};

// Runs `system`, whose scheduler must be CAF's test coordinator, on this thread until `ended`. Calls `interrupted`
// before each message; once it returns true, tells the supervisor to stop when all actors are idle, so that the
// checkpoint is one that an uninterrupted run could have taken. `stopping` is called before it is told.
void run_deterministically(caf::actor_system& system, const SupervisorActor& supervisor, const bool& ended,
                           const std::function<bool()>& interrupted, const std::function<void()>& stopping = {});

}  // namespace troupe
