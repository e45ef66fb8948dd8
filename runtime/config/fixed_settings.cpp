#include "runtime/config/fixed_settings.h"

#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// Whether the setting at `path` may change when a run is resumed.
class MayChange {
 public:
  MayChange(const SettingsOfRun& settings, bool deterministic, RunStage stage)
      : settings_(settings), deterministic_(deterministic), stage_(stage) {}

  bool operator()(const std::string& path) const {
    const Change change = settings_.change ? settings_.change(path) : Change::never;
    switch (change) {
      case Change::never: return false;
      case Change::before_first_update: return stage_ == RunStage::before_first_update && !deterministic_;
      case Change::at_resume_unless_deterministic: return !deterministic_;
      case Change::at_resume:
      case Change::while_running: return true;
    }
    return false;
  }

 private:
  const SettingsOfRun& settings_;
  bool deterministic_;
  RunStage stage_;
};

bool is_deterministic(const Json& config) {
  if (!config.is_object()) return false;
  const auto found = config.find("deterministic");
  return found != config.end() && found->is_boolean() && found->get<bool>();
}

std::string text_of(const Json* value) { return value != nullptr ? printable(value->dump(), 200) : kNotSet; }

const Json* member(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

// An object without members says as little as a missing one: what is left of one whose members may all change.
bool is_nothing(const Json* value) { return value == nullptr || (value->is_object() && value->empty()); }

// Appends the differences between the values at `path`.
void collect(const std::string& path, const Json* stored, const Json* now, std::vector<SettingChange>& changes) {
  if (is_nothing(stored) && is_nothing(now)) return;
  const bool both_objects = stored != nullptr && now != nullptr && stored->is_object() && now->is_object();
  if (!both_objects) {
    if (stored == nullptr || now == nullptr || *stored != *now)
      changes.push_back({path, text_of(stored), text_of(now)});
    return;
  }
  const std::string prefix = path.empty() ? "" : path + '.';
  for (const auto& [key, value] : now->items()) collect(prefix + key, member(*stored, key), &value, changes);
  for (const auto& [key, value] : stored->items())
    if (!now->contains(key)) collect(prefix + key, &value, nullptr, changes);
}

std::vector<SettingChange> changes_between(const Json& stored, const Json& now) {
  std::vector<SettingChange> changes;
  collect("", &stored, &now, changes);
  return changes;
}

// Removes from `object`, which is at `path`, the fields that may change, and objects that contain nothing else.
void remove_changeable(Json& object, const std::string& path, const MayChange& may_change) {
  const std::string prefix = path.empty() ? "" : path + '.';
  std::vector<std::string> changeable;
  for (auto& [key, value] : object.items()) {
    const bool section = value.is_object() && !value.empty();
    if (section) remove_changeable(value, prefix + key, may_change);
    if ((section && value.empty()) || may_change(prefix + key)) changeable.push_back(key);
  }
  for (const std::string& key : changeable) object.erase(key);
}

}  // namespace

std::vector<SettingChange> changed_settings(const std::string& stored, const std::string& now) {
  return changes_between(parse_strict(stored, "the stored config"), parse_strict(now, "this config"));
}

std::vector<SettingChange> config_conflicts(const std::string& stored, const std::string& now,
                                            const SettingsOfRun& settings, RunStage stage) {
  const Json before = parse_strict(stored, "the stored config");
  const Json after = parse_strict(now, "this config");
  const MayChange may_change(settings, is_deterministic(after), stage);
  std::vector<SettingChange> conflicts = changes_between(before, after);
  std::erase_if(conflicts, [&](const SettingChange& change) { return may_change(change.path); });
  return conflicts;
}

std::string fixed_settings(const std::string& config, const SettingsOfRun& settings) {
  Json kept = parse_strict(config, "this config");
  if (kept.is_object()) remove_changeable(kept, "", MayChange(settings, is_deterministic(kept), RunStage::updates));
  return kept.dump();
}

}  // namespace troupe
