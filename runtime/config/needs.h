#pragma once
// What a setting needs to be read, as data about the values of other settings. runtime/config/effects.h refuses
// settings that nobody reads and writes the needs into help and documentation. Plain values; any thread.

#include <limits>
#include <span>
#include <string_view>

#include "runtime/config/setting.h"

namespace troupe {

// What the value of another setting must be. One of `values`, `low`, `given` and `holds` says it.
struct Condition {
  std::string_view path = {};                             // of the other setting
  std::span<const std::string_view> values = {};          // one of these texts; of a boolean "true" or "false"
  double low = std::numeric_limits<double>::quiet_NaN();  // a number of at least this
  bool open_low = false;                                  // above it
  bool given = false;                                     // a text, list or object that is not empty
  bool (*holds)(std::string_view value) = nullptr;        // a text for which this is true
  std::string_view words = {};                            // in place of path and values in documentation: "token runs"
};

constexpr Condition is(std::string_view path, std::span<const std::string_view> values) {
  return {.path = path, .values = values};
}
constexpr Condition is_true(std::string_view path) { return {.path = path, .values = kWords<"true">}; }
constexpr Condition is_false(std::string_view path) { return {.path = path, .values = kWords<"false">}; }
constexpr Condition is_above(std::string_view path, double low) { return {.path = path, .low = low, .open_low = true}; }
constexpr Condition is_at_least(std::string_view path, double low) { return {.path = path, .low = low}; }
constexpr Condition is_given(std::string_view path) { return {.path = path, .given = true}; }
// `words` follow "set PATH to": "an estimator for whole sequences, like \"grpo\"".
constexpr Condition is_such(std::string_view path, bool (*holds)(std::string_view value), std::string_view words) {
  return {.path = path, .holds = holds, .words = words};
}
// What no setting says, such as the actions of the environment. Whoever knows it refuses the setting.
constexpr Condition known_later(std::string_view words) { return {.words = words}; }

// A setting is read if all its needs are met.
struct Need {
  Condition condition;
  Condition other = {};           // either of the two is enough; without path: there is none
  Condition when = {};            // the need counts only where this holds; without path: always
  std::string_view because = {};  // follows the value of the condition's setting: ", which uses no values"
  std::string_view instead = {};  // what would give the setting an effect; default: to set what the conditions name
  // false: another value is accepted although it has no effect, so that one setting can switch others off without their
  // being taken back.
  bool refused = true;
};

// The two kinds of runs.
inline constexpr Condition kTokenRuns = {.path = "model.kind", .values = kWords<"decoder">, .words = "in token runs"};
inline constexpr Condition kControlRuns = {
    .path = "model.kind", .values = kWords<"mlp", "net", "token_transformer">, .words = "in runs on environments"};
inline constexpr Need kOnlyTokenRuns = {.condition = kTokenRuns};
inline constexpr Need kOnlyControlRuns = {.condition = kControlRuns, .instead = "set model.kind to \"mlp\" or \"net\""};

}  // namespace troupe
