#pragma once
// Which settings of a run are fixed when it begins, so that a resumed run is still the same run. Pure functions on
// configs as JSON text; any thread. They throw std::runtime_error when a text is not JSON.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

// What the program knows of the settings of a run; runtime/ itself knows none of them.
struct SettingsOfRun {
  // When the setting at a path may change; empty: never.
  std::function<Change(std::string_view path)> change;
  // Brings a config that an older program wrote up to date, so that settings added since have their defaults; empty:
  // not needed.
  std::function<std::string(const std::string&)> upgrade;
};

inline constexpr const char* kNotSet = "not set";

// A setting that two configs give different values.
struct SettingChange {
  std::string path;
  std::string before, now;  // as JSON, cut where it is long; kNotSet where a config does not have the setting

  // "trainer.epochs was 4 and is now 8"
  std::string sentence() const { return path + " was " + before + " and is now " + now; }
  // "trainer.epochs 4 -> 8"
  std::string text() const { return path + ' ' + before + " -> " + now; }
};

// Every setting that differs, in the order of `now`; those that only `stored` has follow the others of their section.
std::vector<SettingChange> changed_settings(const std::string& stored, const std::string& now);

// The first of them that may not change at a resume; nothing when the run may be resumed.
std::optional<SettingChange> config_conflict(const std::string& stored, const std::string& now,
                                             const SettingsOfRun& settings);

// The config without the settings that may change at a resume, as compact JSON. Equal for every start of a run.
std::string fixed_settings(const std::string& config, const SettingsOfRun& settings);

}  // namespace troupe
