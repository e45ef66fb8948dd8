#include "tools/cli/sweep_progress.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

// The seconds that a whole run takes; NaN if that is not known.
double seconds_of_run(const SweepProgress& sweep) {
  constexpr double kLeast = 0.02;  // of its progress: before that it says little
  if (std::isfinite(sweep.mean_seconds)) return sweep.mean_seconds;
  double longest = NAN;
  for (const SweptRunProgress& run : sweep.running)
    if (run.progress >= kLeast) longest = std::fmax(longest, run.seconds / run.progress);
  return longest;
}

}  // namespace

double seconds_left(const SweepProgress& sweep) {
  const double whole = seconds_of_run(sweep);
  const size_t begun = sweep.ended + sweep.running.size();
  double work = whole * static_cast<double>(sweep.runs - std::min(begun, sweep.runs)), longest = 0;
  for (const SweptRunProgress& run : sweep.running) {
    const double left = std::isfinite(run.progress) ? whole * (1 - std::min(run.progress, 1.0)) : whole - run.seconds;
    work += std::max(left, 0.0);
    longest = std::max(longest, left);
  }
  return std::isnan(whole) ? whole : std::max(work / static_cast<double>(std::max<size_t>(sweep.jobs, 1)), longest);
}

std::string sweep_progress_text(const SweepProgress& sweep) {
  std::string text = format_count(sweep.ended) + " of " + format_count(sweep.runs) + " ended";
  for (const SweptRunProgress& run : sweep.running)
    text += (&run == &sweep.running.front() ? ", trains " : ", ") + run.name +
            (std::isfinite(run.progress) ? " (" + format_percent(run.progress) + ')' : "");
  if (const double left = seconds_left(sweep); std::isfinite(left)) text += ", ETA " + format_seconds(left);
  return text;
}

}  // namespace troupe
