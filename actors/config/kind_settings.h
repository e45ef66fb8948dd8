#pragma once
// What follows for the settings of a run from its kind of experience. A kind is an entry of the table in
// kind_settings.cpp. Pure functions; any thread.

#include <cstdint>
#include <string>

#include "actors/config/run_config.h"
#include "models/experience/rollout.h"

namespace troupe {

struct KindSettings {
  // The id of the environment, or the name of the task.
  const std::string& (*env_or_task)(const RunConfig& config);
  uint64_t (*samples_per_rollout)(const RunConfig& config);
  // What replay draws.
  UnitKind (*unit)(const RunConfig& config);
  bool waits_for_late;  // what replay.late "auto" stands for
  // Whether the model has values that it learns.
  bool (*has_values)(const RunConfig& config);
  // Graders of each worker.
  int64_t (*graders)(const RunConfig& config);
  const char* reward_size;              // the setting that changes the size of rewards
  const char *rollouts, *rollout_size;  // in messages: "rollouts" "of 512 SAMPLES (their factors)"
  // The rules of a run of the kind. Each throws ConfigError.
  void (*check)(const RunConfig& config);        // the kind's own settings
  void (*check_sizes)(const RunConfig& config);  // that they fit each other, after the sizes of batches
};

const KindSettings& settings_of_kind(const RunConfig& config);

}  // namespace troupe
