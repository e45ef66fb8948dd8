#include "actors/run_progress.h"

#include <algorithm>

#include "runtime/stats/unknown.h"

namespace troupe {

double time_progress(const StopConfig& stop, double seconds, const ReplayStart& start) {
  if (!(stop.seconds > 0)) return 0;
  const double done = start.time_progress < 1
                          ? start.time_progress + (1 - start.time_progress) * seconds / stop.seconds
                          : (start.totals.elapsed_seconds + seconds) / (start.totals.elapsed_seconds + stop.seconds);
  return std::clamp(done, 0.0, 1.0);
}

double run_progress(const StopConfig& stop, uint64_t env_steps, uint64_t updates, double time) {
  double done = time;
  if (stop.env_steps > 0) done = std::max(done, static_cast<double>(env_steps) / static_cast<double>(stop.env_steps));
  if (stop.updates > 0) done = std::max(done, static_cast<double>(updates) / static_cast<double>(stop.updates));
  return std::min(done, 1.0);
}

double progress_at_start(const StopConfig& stop, const ReplayStart& start) {
  return run_progress(stop, start.env_steps, start.version.number, time_progress(stop, 0, start));
}

double seconds_left(double progress, double before, double seconds) {
  return progress > before ? seconds * (1 - progress) / (progress - before) : kUnknown;
}

bool due(uint64_t updates, int64_t every) {
  return every > 0 && updates > 0 && updates % static_cast<uint64_t>(every) == 0;
}

bool checkpoint_due(const RunConfig& config, uint64_t updates) {
  return due(updates, config.checkpoint.every_updates) ||
         (config.checkpoint.keep_best > 0 && due(updates, config.evaluation.every_updates));
}

}  // namespace troupe
