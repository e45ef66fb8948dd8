#include "runtime/config/fixed_settings.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

// Whether the setting at `path` may change when a run is resumed.
class MayChange {
 public:
  MayChange(const SettingsOfRun& settings, bool deterministic) : settings_(settings), deterministic_(deterministic) {}

  bool operator()(const std::string& path) const {
    const Change change = settings_.change ? settings_.change(path) : Change::never;
    return change != Change::never && !(deterministic_ && change == Change::at_resume_unless_deterministic);
  }

 private:
  const SettingsOfRun& settings_;
  bool deterministic_;
};

bool is_deterministic(const Json& config) {
  if (!config.is_object()) return false;
  const auto found = config.find("deterministic");
  return found != config.end() && found->is_boolean() && found->get<bool>();
}

std::string text_of(const Json* value) { return value != nullptr ? printable(value->dump(), 200) : "not set"; }

const Json* member(const Json& object, const std::string& key) {
  const auto found = object.find(key);
  return found != object.end() ? &*found : nullptr;
}

// In the order of `now`, then what is only in `stored`.
std::optional<std::string> first_conflict(const std::string& path, const Json* stored, const Json* now,
                                          const MayChange& may_change) {
  const bool both_objects = stored != nullptr && now != nullptr && stored->is_object() && now->is_object();
  if (!both_objects) {
    if (may_change(path) || (stored != nullptr && now != nullptr && *stored == *now)) return std::nullopt;
    return path + " was " + text_of(stored) + " and is now " + text_of(now);
  }
  const std::string prefix = path.empty() ? "" : path + '.';
  for (const auto& [key, value] : now->items())
    if (auto conflict = first_conflict(prefix + key, member(*stored, key), &value, may_change)) return conflict;
  for (const auto& [key, value] : stored->items())
    if (!now->contains(key))
      if (auto conflict = first_conflict(prefix + key, &value, nullptr, may_change)) return conflict;
  return std::nullopt;
}

// Removes from `object`, which is at `path`, the fields that may change, and objects that hold nothing else.
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

std::optional<std::string> config_conflict(const std::string& stored, const std::string& now,
                                           const SettingsOfRun& settings) {
  const Json before = parse_strict(stored, "the stored config");
  const Json after = parse_strict(now, "this config");
  return first_conflict("", &before, &after, MayChange(settings, is_deterministic(after)));
}

std::optional<std::string> changed_setting(const std::string& stored, const std::string& now, const std::string& path) {
  std::string pointer = '/' + path;
  std::ranges::replace(pointer, '.', '/');
  const auto value = [&](const std::string& config, const char* name) {
    const Json parsed = parse_strict(config, name);
    const Json::json_pointer at(pointer);
    return parsed.contains(at) ? parsed.at(at) : Json();
  };
  const Json before = value(stored, "the stored config"), after = value(now, "this config");
  if (before == after) return std::nullopt;
  return path + " was " + text_of(before.is_null() ? nullptr : &before) + " and is now " +
         text_of(after.is_null() ? nullptr : &after);
}

std::string fixed_settings(const std::string& config, const SettingsOfRun& settings) {
  Json kept = parse_strict(config, "this config");
  if (kept.is_object()) remove_changeable(kept, "", MayChange(settings, is_deterministic(kept)));
  return kept.dump();
}

}  // namespace troupe
