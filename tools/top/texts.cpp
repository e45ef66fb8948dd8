#include "tools/top/texts.h"

#include <algorithm>
#include <utility>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

using Alarms = std::map<std::string, Alarm>;

std::vector<std::pair<std::string, Alarm>> by_severity(const Alarms& alarms) {
  std::vector<std::pair<std::string, Alarm>> order(alarms.begin(), alarms.end());
  std::ranges::stable_partition(order, [](const auto& each) { return each.second.level == AlarmLevel::error; });
  return order;
}

std::string counts_of(const Alarms& alarms) {
  const auto is_error = [](const auto& each) { return each.second.level == AlarmLevel::error; };
  const auto errors = static_cast<size_t>(std::ranges::count_if(alarms, is_error));
  const size_t warnings = alarms.size() - errors;
  std::string text = errors == 0 ? "" : format_counted(errors, "error");
  if (warnings > 0) text += (text.empty() ? "" : ", ") + format_counted(warnings, "warning");
  return text;
}

}  // namespace

std::vector<FrameLine> text_lines(const std::string& head, Look head_look, const std::string& text, Look look,
                                  const FrameSize& size) {
  constexpr size_t kLeast = 20;  // columns: lines that are narrower are hard to read
  const size_t indent = display_width(head);
  if (!size.broken || size.width < indent + kLeast) return {{{head, head_look}, {text, look}}};
  std::vector<FrameLine> lines;
  for (const std::string& line : wrapped(text, size.width - indent)) {
    lines.push_back({{lines.empty() ? head : std::string(indent, ' '), head_look}, {line, look}});
  }
  return lines;
}

std::string alarm_names(const Alarms& alarms) {
  std::string names;
  for (const auto& [name, alarm] : by_severity(alarms))
    names += (names.empty() ? "" : ", ") + name + (alarm.level == AlarmLevel::error ? " (error)" : "");
  return names;
}

std::string past_alarms(const TopModel& model) {
  if (model.raised.empty()) return "";
  Alarms over = model.raised;
  const Alarms standing = model.newest ? model.newest->alarms : Alarms();
  for (const auto& [name, alarm] : standing) over.erase(name);
  return counts_of(model.raised) + " during the run" +
         (standing.empty() ? "" : "; raised at the end: " + alarm_names(standing)) +
         (over.empty() ? "" : "; over before: " + alarm_names(over));
}

std::vector<FrameLine> alarm_lines(const TopModel& model, const FrameSize& size) {
  std::vector<FrameLine> lines;
  if (!model.newest || model.newest->alarms.empty()) return lines;
  lines.push_back({{model.is_over() ? "  alarms at the end" : "  alarms that are raised", Look::faint}});
  for (const auto& [name, alarm] : by_severity(model.newest->alarms)) {
    const std::string since = alarm.since_update == 0 ? "" : " since update " + format_short(alarm.since_update);
    const std::string text = name + " (" + std::string(text_of(alarm.level)) + ')' + since + ": " + alarm.text;
    const Look look = alarm.level == AlarmLevel::error ? Look::error : Look::warning;
    for (FrameLine& line : text_lines("  ", look, text, look, size)) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace troupe
