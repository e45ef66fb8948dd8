#pragma once
// Deterministic runs (RunContext::deterministic): the actors of a run, and no others, on one thread and a clock that
// only moves when nothing else can. Whenever every actor rests (no message is left, no timer is set) the supervisor
// gets a turn: the actors report, a checkpoint is taken if it is due, and the trainer begins its next update.
// docs/determinism.md says what follows from it.

#include <chrono>
#include <functional>

#include "actors/messages.h"

namespace troupe {

// From one step of a turn to the next: the clock gets there when all messages of the step before are handled.
constexpr std::chrono::milliseconds kIdleStep{1};

// Runs `system`, whose scheduler is CAF's test coordinator, on this thread until `ended`. `interrupted` is asked again
// and again; once it says yes the supervisor is told to stop, at the next rest, so that the checkpoint is one that an
// uninterrupted run could have taken.
void run_deterministically(caf::actor_system& system, const SupervisorActor& supervisor, const bool& ended,
                           const std::function<bool()>& interrupted);

}  // namespace troupe
