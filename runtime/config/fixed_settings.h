#pragma once
// Which settings of a run are fixed when it begins, so that a resumed run is still the same run. Pure functions on
// configs as JSON text; any thread. They throw std::runtime_error when a text is not JSON.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

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

// One line naming the first setting that differs between two configs and may not change at a resume: "trainer.epochs
// was 4 and is now 8"; nothing when the run may be resumed.
std::optional<std::string> config_conflict(const std::string& stored, const std::string& now,
                                           const SettingsOfRun& settings);

// "stop.updates was 10 and is now 20"; nothing when both configs give the field at this dotted path the same value.
std::optional<std::string> changed_setting(const std::string& stored, const std::string& now, const std::string& path);

// The config without the settings that may change at a resume, as compact JSON. Equal for every start of a run.
std::string fixed_settings(const std::string& config, const SettingsOfRun& settings);

}  // namespace troupe
