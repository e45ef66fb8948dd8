#include "runtime/run_folder/alarm_file.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/strict_json.h"
#include "runtime/run_folder/alarm_records.h"

namespace troupe {

namespace {

constexpr const char* kAlarmFile = "/alarms.json";

Json json_of(const PastAlarm& each) {
  Json json = {{"alarm", each.name}, {"level", text_of(each.level)}, {"text", each.text}};
  if (each.since) json["since_update"] = *each.since;
  if (each.until) json["until_update"] = *each.until;
  json["standing"] = each.standing;
  return json;
}

std::optional<uint64_t> count_at(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_unsigned() ? std::optional(found->get<uint64_t>()) : std::nullopt;
}

// The alarms in a document; nothing where it is none of ours.
std::optional<std::vector<PastAlarm>> alarms_of(const Json& document) {
  if (!document.is_object() || !document.contains("alarms") || !document["alarms"].is_array()) return std::nullopt;
  std::vector<PastAlarm> alarms;
  for (const Json& each : document["alarms"]) {
    const std::string name = text_member(each, "alarm");
    if (name.empty()) continue;
    const bool error = text_member(each, "level") == text_of(AlarmLevel::error);
    alarms.push_back({.name = name,
                      .level = error ? AlarmLevel::error : AlarmLevel::warning,
                      .text = text_member(each, "text"),
                      .since = count_at(each, "since_update"),
                      .until = count_at(each, "until_update"),
                      .standing = each.contains("standing") && each["standing"] == true});
  }
  return alarms;
}

}  // namespace

std::optional<std::vector<PastAlarm>> read_alarms(const Disk& disk, const std::string& folder) {
  try {
    return alarms_of(stored_object(disk, folder + kAlarmFile));
  } catch (const IoError&) {
    return std::nullopt;
  }
}

void AlarmFile::begin(const std::optional<Resume>& resume) {
  if (resume) take_up(*resume);
  write();
}

void AlarmFile::take_up(const Resume& resume) {
  if (auto before = read_alarms(*disk_, folder_)) {
    alarms_ = std::move(*before);
  } else {
    if (disk_->exists(folder_ + kAlarmFile))
      log_warn("run folder", folder_ + kAlarmFile + ": is damaged; the alarms are those of the records");
    for (const auto& [name, level] : alarms_in_records(*disk_, folder_))
      alarms_.push_back({.name = name, .level = level, .text = {}, .since = {}, .until = {}});
  }
  const auto is_later = [&](const PastAlarm& each) { return each.since > resume.updates; };
  if (resume.as_before) std::erase_if(alarms_, is_later);
  for (PastAlarm& each : alarms_) {
    if (is_later(each)) {
      each.standing = false;
      each.until.reset();
    } else if (resume.as_before && each.until > resume.updates) {
      each.standing = true;
      each.until.reset();
    }
  }
}

PastAlarm* AlarmFile::newest(const std::string& name) {
  const auto found =
      std::find_if(alarms_.rbegin(), alarms_.rend(), [&](const auto& each) { return each.name == name; });
  return found == alarms_.rend() ? nullptr : &*found;
}

// Unless it is there. One that was raised again after as many updates as before counts once.
void AlarmFile::add(const std::string& name, const Alarm& alarm) {
  if (const PastAlarm* known = newest(name); known != nullptr && known->since == alarm.since_update) return;
  if (std::ranges::count(alarms_, name, &PastAlarm::name) >= std::ptrdiff_t{kMostOfOne})
    alarms_.erase(std::ranges::find(alarms_, name, &PastAlarm::name));
  alarms_.push_back({name, alarm.level, alarm.text, alarm.since_update, {}, /*standing=*/true});
  written_ = false;
}

void AlarmFile::note(uint64_t updates, const std::vector<RaisedAlarm>& raised,
                     const std::map<std::string, Alarm>& standing) {
  for (const RaisedAlarm& each : raised) add(each.name, each.alarm);
  for (const auto& [name, alarm] : standing) add(name, alarm);
  for (PastAlarm& each : alarms_) {
    const bool stands = standing.contains(each.name) && newest(each.name) == &each;
    if (each.standing == stands) continue;
    each.standing = stands;
    each.until = stands ? std::nullopt : std::optional(updates);
    written_ = false;
  }
  if (!written_) write();
}

void AlarmFile::write() {
  Json list = Json::array();
  for (const PastAlarm& each : alarms_) list.push_back(json_of(each));
  const Json document = {{"alarms", std::move(list)}};
  write_if_possible("alarms.json", lost_, [&] {
    disk_->write_atomic(folder_ + kAlarmFile, document.dump(2, ' ', false, Json::error_handler_t::replace) + '\n');
    written_ = true;
  });
}

}  // namespace troupe
