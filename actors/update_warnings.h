#pragma once
// What the trainer says of an update that did less than it should, or after which it waits. Pure functions; any thread.

#include <cstdint>
#include <string>

#include "actors/config/run_config.h"
#include "models/policy.h"

namespace troupe {

// Of an update that skipped optimizer steps. It names settings that the run has.
std::string skipped_warning(const RunConfig& config, uint64_t update, const UpdateReport& report);
// Of an update that found nothing to train on.
std::string empty_warning(const RunConfig& config, uint64_t update, uint64_t samples);
// Training waits after this update, because the checkpoint before the one that is due is not written yet.
std::string slow_disk_warning(const RunConfig& config, uint64_t update);

// Training waits after this update, because so many evaluations are open.
std::string evaluations_warning(uint64_t update, uint64_t evaluations);

}  // namespace troupe
