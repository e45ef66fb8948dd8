#pragma once
// Values for the settings of one table entry of this folder. The entry declares its settings as data
// (runtime/config/setting.h), so that config files, the schema, Python calls and the documentation use the same list.
// Plain values; any thread.

#include <span>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

using ParameterValue = SettingValue;

// One value for each setting of a declared list, its default until it is set. The list must outlive this object.
class ParameterValues {
 public:
  explicit ParameterValues(std::span<const Setting> declared = {});

  // Throws ConfigError "<path>.<key>: ..." for an unknown key (with the nearest known one) and for a value that
  // checked() rejects. Returns the value as stored.
  const ParameterValue& set(std::string_view path, std::string_view key, const ParameterValue& value);

  // The value of a declared key of that kind. Throws InvariantError for any other key. An unset number is kUnset.
  double number(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::string_view text(std::string_view key) const;

  // The number, or `otherwise` if it is unset.
  double number_or(std::string_view key, double otherwise) const;
  // Whether the list declares `key` itself, not as an alias.
  bool has(std::string_view key) const;
  std::span<const Setting> declared() const { return declared_; }

 private:
  const ParameterValue& value_of(std::string_view key, Setting::Kind kind) const;

  std::span<const Setting> declared_;
  std::vector<ParameterValue> values_;
};

}  // namespace troupe
