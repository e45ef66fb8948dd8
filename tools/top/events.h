#pragma once
// What has changed between two snapshots, in words, for `troupe top`. Pure functions; any thread.

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/stats/snapshot.h"

namespace troupe {

enum class EventLevel : uint8_t { news, warning, error };

struct TopEvent {
  EventLevel level = EventLevel::news;
  std::string text;
  std::string time = {};  // of day, as text; empty = before top was started
};

// What the first snapshot says of the time before it.
std::vector<TopEvent> events_before(const StatsSnapshot& first);
std::vector<TopEvent> events_between(const StatsSnapshot& before, const StatsSnapshot& now);

}  // namespace troupe
