#pragma once
// TaskParams: the values of the parameters that a task declares as a table of Setting (runtime/config/setting.h), read
// from the JSON object `task.params` of a config. Plain values; any thread.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

class TaskParams {
 public:
  // Defaults for what the object does not give. Throws ConfigError "task.params.KEY: ..." for an unknown key or a value
  // that the setting does not accept. `declared` must outlive this object. `verified`: a verifier scores the answers.
  TaskParams(std::span<const Setting> declared, const std::string& json, bool verified = false);

  // The value of a declared key of that kind.
  int64_t integer(std::string_view key) const;
  std::string_view text(std::string_view key) const;
  bool verified() const { return verified_; }

 private:
  const SettingValue& value_of(std::string_view key) const;

  std::span<const Setting> declared_;
  std::vector<SettingValue> values_;
  bool verified_;
};

}  // namespace troupe
