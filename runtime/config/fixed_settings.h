#pragma once
// Which settings of a run are fixed when it begins, so that a resumed run is still the same run. Pure functions on configs as JSON
// text; any thread. They throw std::runtime_error when a text is not JSON.

#include <functional>
#include <optional>
#include <string>

namespace troupe {

// Brings a config that an older program wrote up to date, so that fields added since have their defaults.
using UpgradeConfig = std::function<std::string(const std::string&)>;

// One line naming the first field that differs between two configs and may not change within a run: "trainer.epochs was 4 and is
// now 8"; nothing when the run may go on. Fields that may change: the name, all of stop, evaluation, checkpoint, stats, network,
// workers and inference, and trainer.threads, trainer.device and trainer.max_skipped. In a deterministic run workers and inference
// may not change: they decide about the results.
std::optional<std::string> config_conflict(const std::string& stored, const std::string& now);

// "stop.updates was 10 and is now 20"; nothing when both configs give the field at this dotted path the same value.
std::optional<std::string> changed_setting(const std::string& stored, const std::string& now, const std::string& path);

// The config without the fields that may change, as compact JSON. Equal for every start of a run.
std::string fixed_settings(const std::string& config);

}  // namespace troupe
