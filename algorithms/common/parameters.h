#pragma once
// Values for the settings of one entry of a table of this folder. The entry declares them as data
// (runtime/config/setting.h), so that a run file, a schema, a Python call and the documentation read the same list.
// Plain values; any thread.

#include <span>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

using ParameterValue = SettingValue;

// A value for each setting of a declared list, which must outlive it; the defaults until set.
class ParameterValues {
 public:
  explicit ParameterValues(std::span<const Setting> declared = {});

  // Throws ConfigError "<path>.<key>: ..." for an unknown key (with the nearest known one) and for what checked()
  // refuses. Returns the value as it is kept.
  const ParameterValue& set(std::string_view path, std::string_view key, const ParameterValue& value);

  // The value of a declared key of that kind; any other key throws InvariantError. A number that is unset is kUnset.
  double number(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::string_view text(std::string_view key) const;

  // The number, or `otherwise` while it is unset.
  double number_or(std::string_view key, double otherwise) const;
  // Whether the list declares `key` itself.
  bool has(std::string_view key) const;
  std::span<const Setting> declared() const { return declared_; }

 private:
  const ParameterValue& value_of(std::string_view key, Setting::Kind kind) const;

  std::span<const Setting> declared_;
  std::vector<ParameterValue> values_;
};

}  // namespace troupe
