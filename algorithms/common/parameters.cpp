#include "algorithms/common/parameters.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "runtime/base/errors.h"

namespace troupe {

using Kind = Setting::Kind;

ParameterValues::ParameterValues(std::span<const Setting> declared) : declared_(declared) {
  for (const Setting& setting : declared)
    values_.push_back(setting.unset.empty() ? default_value(setting) : ParameterValue());
}

const ParameterValue& ParameterValues::set(std::string_view path, std::string_view key, const ParameterValue& value) {
  const auto found = std::ranges::find_if(declared_, [&](const Setting& setting) { return is_called(setting, key); });
  if (found == declared_.end()) throw ConfigError(unknown_key(std::string(path), key, path, declared_));
  ParameterValue& kept = values_[static_cast<size_t>(found - declared_.begin())];
  return kept = checked(*found, value, std::string(path) + '.' + std::string(key));
}

const ParameterValue& ParameterValues::value_of(std::string_view key, Kind kind) const {
  for (size_t i = 0; i < declared_.size(); ++i)
    if (declared_[i].key == key && declared_[i].kind == kind) return values_[i];
  throw InvariantError("no such parameter: " + std::string(key));
}

double ParameterValues::number(std::string_view key) const {
  const auto* value = std::get_if<double>(&value_of(key, Kind::number));
  return value == nullptr ? kUnset : *value;
}

int64_t ParameterValues::integer(std::string_view key) const { return std::get<int64_t>(value_of(key, Kind::integer)); }

bool ParameterValues::flag(std::string_view key) const { return std::get<bool>(value_of(key, Kind::boolean)); }

std::string_view ParameterValues::text(std::string_view key) const {
  return std::get<std::string>(value_of(key, Kind::text));
}

double ParameterValues::number_or(std::string_view key, double otherwise) const {
  const double value = number(key);
  return std::isnan(value) ? otherwise : value;
}

bool ParameterValues::has(std::string_view key) const {
  return std::ranges::any_of(declared_, [&](const Setting& setting) { return setting.key == key; });
}

}  // namespace troupe
