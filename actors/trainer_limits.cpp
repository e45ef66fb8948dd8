#include "actors/trainer_limits.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/resume.h"
#include "actors/run_progress.h"

namespace troupe {

namespace {

double elapsed(TrainerSelf self) { return seconds_of(self->clock().now() - self->state.started); }

}  // namespace

double time_used(TrainerSelf self) {
  return time_progress(self->state.context->config.stop, elapsed(self), self->state.start);
}

double progress(TrainerSelf self) {
  return run_progress(self->state.context->config.stop, self->state.env_steps, self->state.version.number,
                      time_used(self));
}

std::string limit_reached(TrainerSelf self) {
  const TrainerState& st = self->state;
  const StopConfig& stop = st.context->config.stop;
  if (stop.after_warmup) return "stop.after_warmup reached";
  if (stop.updates > 0 && st.version.number >= static_cast<uint64_t>(stop.updates)) return "stop.updates reached";
  if (stop.env_steps > 0 && st.env_steps >= static_cast<uint64_t>(stop.env_steps)) return "stop.env_steps reached";
  if (stop.seconds > 0 && elapsed(self) >= stop.seconds) return kTimeIsUp;
  if (stop.eval_return != 0 && st.evaluated >= stop.eval_return) return "stop.eval_return reached";
  return {};
}

}  // namespace troupe
