#pragma once
// The settings that are fixed when a run begins, so that a resumed run is still the same run. Pure functions on configs
// as JSON text; any thread. They throw std::runtime_error when a text is not JSON.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

// What the program knows about the settings of a run; runtime/ does not know them.
struct SettingsOfRun {
  // When the setting at a path may change; empty: never.
  std::function<Change(std::string_view path)> change;
  // Updates a config that an older program wrote, so that settings added since then have their defaults. If it is
  // empty, none is needed.
  std::function<std::string(const std::string&)> upgrade;
};

inline constexpr const char* kNotSet = "not set";

// A setting with different values in two configs.
struct SettingChange {
  std::string path;
  std::string before, now;  // as JSON, shortened if long; kNotSet if a config does not have the setting

  // "trainer.epochs was 4 and is now 8"
  std::string sentence() const { return path + " was " + before + " and is now " + now; }
  // "trainer.epochs 4 -> 8"
  std::string text() const { return path + ' ' + before + " -> " + now; }
};

// Every setting that differs, in the order of `now`; those only in `stored` follow the others of their section.
std::vector<SettingChange> changed_settings(const std::string& stored, const std::string& now);

// How far a run is. Before the first update, it may have made steps of its warm-up.
enum class RunStage : uint8_t { before_first_update, updates };

// The differing settings that may not change at a resume; empty if the run may be resumed.
std::vector<SettingChange> config_conflicts(const std::string& stored, const std::string& now,
                                            const SettingsOfRun& settings, RunStage stage = RunStage::updates);

// The config without the settings that may change at a resume of a run with updates, as compact JSON. The same for
// every start of a run.
std::string fixed_settings(const std::string& config, const SettingsOfRun& settings);

}  // namespace troupe
