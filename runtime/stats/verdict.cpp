#include "runtime/stats/verdict.h"

#include <algorithm>
#include <array>

namespace troupe {

namespace {

struct ResourceName {
  Resource resource;
  std::string_view name, limit;
};

constexpr std::array kResourceNames = {
    ResourceName{Resource::unknown, "unknown", ""},
    ResourceName{Resource::none, "none", ""},
    ResourceName{Resource::workers, "workers", "workers"},
    ResourceName{Resource::env_stepping, "env_stepping", "workers"},
    ResourceName{Resource::inference, "inference", "inference"},
    ResourceName{Resource::scorers, "scorers", "inference"},
    ResourceName{Resource::deadline, "deadline", "inference"},
    ResourceName{Resource::batch_size, "batch_size", "inference"},
    ResourceName{Resource::trainer, "trainer", "trainer"},
    ResourceName{Resource::exchange, "exchange", "trainer"},
    ResourceName{Resource::replay, "replay", "replay"},
    ResourceName{Resource::prefetcher, "prefetcher", "prefetcher"},
    ResourceName{Resource::lag_cap, "lag_cap", "replay"},
    ResourceName{Resource::disk, "disk", ""},
    ResourceName{Resource::evaluation, "evaluation", ""},
    ResourceName{Resource::machine, "machine", "machine"},
    ResourceName{Resource::oversubscribed, "oversubscribed", "machine"},
    ResourceName{Resource::straggler, "straggler", "workers"},
    ResourceName{Resource::waste, "waste", ""},
};

// The table is in the order of the values.
constexpr bool names_are_ordered() {
  for (size_t i = 0; i < kResourceNames.size(); ++i)
    if (static_cast<size_t>(kResourceNames[i].resource) != i) return false;
  return true;
}
static_assert(names_are_ordered() && kResourceNames.back().resource == Resource::waste);

}  // namespace

std::string_view name_of(Resource resource) { return kResourceNames[static_cast<size_t>(resource)].name; }

Resource resource_of(std::string_view name) {
  const auto* const found = std::ranges::find(kResourceNames, name, &ResourceName::name);
  return found == kResourceNames.end() ? Resource::unknown : found->resource;
}

std::string_view limit_of(Resource resource) { return kResourceNames[static_cast<size_t>(resource)].limit; }

}  // namespace troupe
