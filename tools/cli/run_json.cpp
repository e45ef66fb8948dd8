#include "tools/cli/run_json.h"

#include <cstdint>
#include <optional>

#include <nlohmann/json.hpp>

#include "runtime/config/fixed_settings.h"

namespace troupe {

using OrderedJson = nlohmann::ordered_json;

namespace {

OrderedJson json_of(const std::optional<RunScore>& score) {
  if (!score) return nullptr;
  return {{"of", score->evaluation ? "evaluation" : "training"},
          {"return_mean", score->mean},
          {"return_std", score->spread},
          {"updates", score->updates}};
}

// A count, which is a whole number; null where it is not known.
OrderedJson count_json(double value) {
  return value >= 0 && value < 0x1p53 ? OrderedJson(static_cast<uint64_t>(value)) : OrderedJson();
}

// The level of each alarm.
OrderedJson json_of(const AlarmLevels& alarms) {
  OrderedJson result = OrderedJson::object();
  for (const auto& [name, level] : alarms) result[name] = text_of(level);
  return result;
}

}  // namespace

OrderedJson counts_json(const AlarmCounts& counts) {
  return {{"errors", counts.errors}, {"warnings", counts.warnings}};
}

OrderedJson alarms_json(const RunAlarms& alarms) {
  OrderedJson result = counts_json(count_of(alarms.raised));
  result["raised"] = json_of(alarms.raised);
  result["standing"] = json_of(alarms.standing);
  return result;
}

OrderedJson run_json(const RunOverview& run, const SettingValues& differs, const std::string& bottleneck,
                     const RunAlarms& alarms) {
  OrderedJson settings = OrderedJson::object();
  for (const auto& [path, value] : differs)
    settings[path] = value == kNotSet ? OrderedJson() : OrderedJson::parse(value, nullptr, false);
  return {{"run", run.folder},
          {"name", run.about.name},
          {"tags", run.about.tags},
          {"note", run.about.note},
          {"config", run.name},
          {"task", run.task},
          {"tokens", run.tokens},
          {"state", text_of(run.state)},
          {"reason", run.reason},
          {"env_steps", count_json(run.env_steps)},
          {"updates", count_json(run.updates)},
          {"seconds", run.seconds},
          {"mean_env_steps_per_second", run.mean_speed},
          {"score", json_of(run.score)},
          {"best", json_of(run.best)},
          {"differs", settings},
          {"changed", run.changed},
          {"mean_env_steps_per_second", run.mean_speed},
          {"bottleneck", bottleneck},
          {"alarms", alarms_json(alarms)}};
}

}  // namespace troupe
