#include "tools/top/events.h"

#include <cstdint>
#include <utility>

#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/console.h"

namespace troupe {

namespace {

class Events {
 public:
  void add(EventLevel level, const std::string& text) { events_.push_back({level, text}); }
  void changed(const char* what, uint64_t before, uint64_t now) {
    if (before != now)
      add(EventLevel::news, std::string(what) + ": " + format_short(before) + " -> " + format_short(now));
  }
  void grown(const char* what, uint64_t before, uint64_t now) {
    if (now > before) add(EventLevel::warning, std::string(what) + ": " + format_short(now));
  }
  std::vector<TopEvent> take() { return std::move(events_); }

 private:
  std::vector<TopEvent> events_;
};

EventLevel level_of(const Alarm& alarm) {
  return alarm.level == AlarmLevel::error ? EventLevel::error : EventLevel::warning;
}

std::string alarm_text(const std::string& name, const Alarm& alarm) {
  return "alarm " + name + " (" + std::string(text_of(alarm.level)) + "): " + alarm.text;
}

void compare_alarms(const StatsSnapshot& before, const StatsSnapshot& now, Events& events) {
  for (const auto& [name, alarm] : now.alarms)
    if (!before.alarms.contains(name)) events.add(level_of(alarm), alarm_text(name, alarm));
  for (const auto& [name, alarm] : before.alarms)
    if (!now.alarms.contains(name)) events.add(EventLevel::news, "alarm " + name + " is over");
}

std::string failed_evaluation_text(const FailedEvaluations& failed) {
  return "the evaluation after " + format_short_counted(failed.updates, "update") + " failed: " + failed.error;
}

// The line of the console about the evaluation.
std::string evaluation_text(const StatsSnapshot& now) {
  for (const ConsoleLine& line : console_lines("", now, SIZE_MAX))
    if (line.text.starts_with("  evaluation at update")) return line.text.substr(2);
  return "";
}

void compare_evaluations(const StatsSnapshot& before, const StatsSnapshot& now, Events& events) {
  if (now.evaluation && (!before.evaluation || before.evaluation->updates != now.evaluation->updates))
    events.add(EventLevel::news, evaluation_text(now));
  const FailedEvaluations& failed = now.failed_evaluations;
  if (!failed.error.empty() && failed.count != before.failed_evaluations.count)
    events.add(EventLevel::error, failed_evaluation_text(failed));
}

}  // namespace

std::vector<TopEvent> events_before(const StatsSnapshot& first) {
  Events events;
  for (const auto& [name, alarm] : first.alarms) events.add(level_of(alarm), alarm_text(name, alarm));
  if (!first.failed_evaluations.error.empty())
    events.add(EventLevel::error, failed_evaluation_text(first.failed_evaluations));
  if (!first.last_error.empty()) events.add(EventLevel::error, first.last_error);
  return events.take();
}

std::vector<TopEvent> events_between(const StatsSnapshot& before, const StatsSnapshot& now) {
  Events events;
  events.changed("workers up", before.workers_up, now.workers_up);
  events.changed("inference actors up", before.inference_up, now.inference_up);
  events.changed("ranks up", before.ranks_up, now.ranks_up);
  events.grown("optimizer steps skipped because they were not finite", before.skipped_steps, now.skipped_steps);
  events.grown("rows in quarantine after failures", before.quarantined, now.quarantined);
  compare_evaluations(before, now, events);
  if (now.last_error != before.last_error && !now.last_error.empty()) events.add(EventLevel::error, now.last_error);
  compare_alarms(before, now, events);
  const std::string was = find_bottleneck(before).what, verdict = find_bottleneck(now).what;
  if (verdict != was && !verdict.empty()) events.add(EventLevel::news, "bottleneck: " + verdict);
  if (now.warmup.has_value() != before.warmup.has_value())
    events.add(EventLevel::news, now.warmup ? "the warm-up has begun" : "the warm-up has ended");
  if (now.training_ended && !before.training_ended) events.add(EventLevel::news, "training has ended");
  return events.take();
}

}  // namespace troupe
