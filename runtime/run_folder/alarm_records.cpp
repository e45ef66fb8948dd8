#include "runtime/run_folder/alarm_records.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "runtime/run_folder/json_scan.h"
#include "runtime/run_folder/line_file.h"

namespace troupe {

namespace {

// The figure `alarms` in docs/metrics.md.
AlarmLevel level_of(double figure) {
  return figure == static_cast<double>(AlarmLevel::error) ? AlarmLevel::error : AlarmLevel::warning;
}

// Calls `on_object` with the objects "alarms" of the records that have any, each that is the same as the one before it
// left out. Whole records are not parsed: in a JSON string the quotes of the key would be escaped.
void for_each_alarms_object(const Disk& disk, const std::string& folder,
                            const std::function<void(std::string_view object)>& on_object) {
  constexpr uint64_t kMost = 16 << 20, kRead = 1 << 20;
  constexpr std::string_view kKey = "\"alarms\":";
  const std::unique_ptr<ReadFile> file = open_if_present(disk, metrics_file(folder));
  if (!file) return;
  std::string text, before;
  for (uint64_t at = file->size() - std::min(file->size(), kMost); at < file->size();) {
    const std::string block = file->read(at, kRead);
    if (block.empty()) return;  // the file has become shorter
    at += block.size();
    text += block;
    size_t done = text.size() - std::min(text.size(), kKey.size() - 1);
    for (size_t key = text.find(kKey); key != text.npos; key = text.find(kKey, key + 1)) {
      const size_t begin = text.find_first_not_of(' ', key + kKey.size()), end = text.find('}', key);
      if (begin == text.npos || (text[begin] == '{' && end == text.npos)) {
        done = key;  // the rest is in the next block
        break;
      }
      if (text[begin] != '{') continue;
      std::string object = text.substr(begin, end + 1 - begin);
      if (object != before) on_object(before = std::move(object));
      done = std::max(done, end);
    }
    text.erase(0, done);
  }
}

}  // namespace

void add_worst(const std::string& name, AlarmLevel level, AlarmLevels& alarms) {
  AlarmLevel& worst = alarms.try_emplace(name, level).first->second;
  worst = std::max(worst, level);
}

AlarmLevels alarms_in_records(const Disk& disk, const std::string& folder) {
  AlarmLevels alarms;
  try {
    for_each_alarms_object(disk, folder, [&](std::string_view object) {
      scan_json(object, [&](std::string_view name, std::string_view level) {
        add_worst(std::string(name), level_of(scalar_number(level).value_or(0)), alarms);
      });
    });
  } catch (const IoError&) {  // those that were read count
  }
  return alarms;
}

AlarmLevels alarms_in(const Record& record) {
  constexpr std::string_view kAlarms = "alarms.";
  AlarmLevels alarms;
  for (auto alarm = record.lower_bound(kAlarms); alarm != record.end() && alarm->first.starts_with(kAlarms); ++alarm)
    alarms.emplace(alarm->first.substr(kAlarms.size()), level_of(alarm->second));
  return alarms;
}

}  // namespace troupe
