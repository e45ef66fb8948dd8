#pragma once
// The alarms of a run: what each one means, when it is raised, and what to do. docs/metrics.md lists them. The
// conditions are in actors/alarm_watch.cpp. Plain data; any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

enum class AlarmLevel : uint8_t {
  warning = 1,  // look at it
  error = 2,    // the run is probably lost, unless something is changed
};

// The checkpoint from which a rule advises to begin again.
enum class AdvisedCheckpoint : uint8_t { none, earlier, best };

struct AlarmRule {
  std::string_view name;
  AlarmLevel level;
  // Updates or looks in a row for which the condition must hold before the alarm is raised. It is lowered when the
  // condition did not hold for as many, and at least kLeastClear; for twice as many each time that it was raised
  // before, so that one whose figure moves about its limit does not fill the log.
  uint32_t hold;
  std::string_view condition;
  std::string_view advice;              // without what it says of checkpoints
  std::string_view in_token_runs = {};  // advice in its place there, which names only settings that these have
  AdvisedCheckpoint checkpoint = AdvisedCheckpoint::none;
};

constexpr uint32_t kLeastClear = 5;

// Those checked after each update, then those checked with each report.
std::span<const AlarmRule> alarm_rules();
// Throws InvariantError for a name that is not in the table.
const AlarmRule& alarm_rule(std::string_view name);

// The whole advice. `begin` is what a run that has no such checkpoint, or knows which one, has to begin in its place:
// "begin a new run"; empty for what is right for any run.
std::string advice_of(const AlarmRule& rule, bool token_run, std::string_view begin = {});

// An alarm that is raised now.
struct Alarm {
  AlarmLevel level = AlarmLevel::warning;
  uint64_t since_update = 0;
  std::string text;  // what was measured, and the advice, in one line
};

// One that has just been raised.
struct RaisedAlarm {
  std::string name;
  Alarm alarm;
};

std::string_view text_of(AlarmLevel level);

}  // namespace troupe
