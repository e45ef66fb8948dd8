#pragma once
// How far a run is, and whether its limits are reached, as its trainer sees it. Functions of the trainer's thread.

#include <string>

#include "actors/trainer_update.h"

namespace troupe {

inline constexpr const char* kTimeIsUp = "stop.seconds reached";

inline double seconds_of(TrainerState::Clock::duration d) { return std::chrono::duration<double>(d).count(); }
// The part of stop.seconds that is used, of all starts.
double time_used(TrainerSelf self);
// Progress of the run in [0, 1], for the schedules.
double progress(TrainerSelf self);
// Why training must end now; empty if it continues. Not during a warm-up.
std::string limit_reached(TrainerSelf self);

}  // namespace troupe
