#pragma once
// Errors of the rules between settings. Pure functions; any thread.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/config/setting.h"

namespace troupe {

inline std::string setting_text(int64_t value) { return std::to_string(value); }
inline std::string setting_text(double value) { return number_text(value); }
inline std::string setting_text(bool value) { return value ? "true" : "false"; }
inline std::string setting_text(const std::string& value) { return '"' + value + '"'; }
inline std::string setting_text(const std::vector<int64_t>& values) {
  std::string text;
  for (const int64_t value : values) text += (text.empty() ? "" : ", ") + std::to_string(value);
  return '[' + text + ']';
}
inline std::string setting_text(std::chrono::milliseconds value) { return std::to_string(value.count()); }
inline std::string setting_text(std::chrono::microseconds value) { return std::to_string(value.count()); }

// Throws "trainer.micro_batch: 600 is larger than ...": path, value and `what`.
template <class T>
[[noreturn]] void refuse_setting(std::string_view path, const T& value, const std::string& what) {
  throw ConfigError(std::string(path) + ": " + setting_text(value) + ' ' + what);
}

// Throws if a setting that has no effect (`used` is false) differs from its default. For what no setting says, such as
// the actions of an environment; the description of a setting says what it needs of others (runtime/config/needs.h):
// "algorithm.huber_delta: 0.5 has no effect with BECAUSE; INSTEAD, or remove algorithm.huber_delta (default 1)".
// `instead` says what would give the setting an effect; empty if nothing would.
template <class T>
void require_effect(std::string_view path, const T& value, const T& fallback, bool used, const std::string& because,
                    const std::string& instead) {
  if (!used && value != fallback)
    refuse_setting(path, value,
                   "has no effect with " + because + "; " + (instead.empty() ? "" : instead + ", or ") + "remove " +
                       std::string(path) + " (default " + setting_text(fallback) + ')');
}

}  // namespace troupe
