#include "runtime/stats/expected_gain.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "runtime/stats/processor_use.h"

namespace troupe {

namespace {

constexpr double kLimitsNext = 0.95;  // share of time at which the next part limits the run
constexpr double kTwice = 2;          // times as fast, with twice as much of the resource

double known_share(double share) { return std::isfinite(share) ? share : 0; }

// The largest share of time of the parts that do not belong to the resource.
double next_busiest(const BusyShares& b, Resource resource) {
  const std::string_view limit = limit_of(resource);
  double busiest = 0;
  const auto count = [&](std::string_view part, double share) {
    if (part != limit) busiest = std::max(busiest, known_share(share));
  };
  count("workers", b.workers);
  count("inference", std::max(known_share(b.inference), known_share(b.scorers)));
  count("replay", b.replay);
  count("prefetcher", b.prefetcher);
  count("trainer", b.trainer);
  count("machine", no_processor_left(b) || !std::isfinite(b.run) ? b.machine : b.run);
  return busiest;
}

// Resources of which the benchmark has shown it.
constexpr std::initializer_list<Resource> kShownResources = {Resource::env_stepping, Resource::trainer};

}  // namespace

double predicted_gain(const StatsSnapshot& s, const Bottleneck& verdict) {
  const Resource resource = verdict.resource;
  if (resource == Resource::unknown || resource == Resource::none || resource == Resource::waste ||
      !std::isfinite(verdict.share))
    return kUnknown;
  // What the run gets of processors that it shares with other programs is not known beforehand.
  if (others_slow_it(s.busy) && resource != Resource::oversubscribed) return kUnknown;
  double faster = kTwice;
  // Without the wait, the rest of the time is left.
  const bool waits = resource == Resource::disk || resource == Resource::evaluation;
  if (waits && verdict.share < 1) faster = std::min(faster, 1 / (1 - verdict.share));
  // All processors are busy with other programs: without them, as many are left for the run.
  if (resource == Resource::oversubscribed)
    faster = std::min(faster, known_share(s.busy.run) > 0 ? kLimitsNext / s.busy.run : kTwice);
  else if (const double next = next_busiest(s.busy, resource); next > 0)
    faster = std::min(faster, kLimitsNext / next);
  return std::max(faster - 1, 0.0);
}

bool gain_is_shown(Resource resource) { return std::ranges::find(kShownResources, resource) != kShownResources.end(); }

double shown_gain(const StatsSnapshot& s, const Bottleneck& verdict) {
  return gain_is_shown(verdict.resource) ? predicted_gain(s, verdict) : kUnknown;
}

}  // namespace troupe
