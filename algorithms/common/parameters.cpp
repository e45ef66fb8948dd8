#include "algorithms/common/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "algorithms/common/names.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

using Kind = Parameter::Kind;

std::string text_of(double value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string text_of(const ParameterValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return text_of(*number);
  return "\"" + std::get<std::string>(value) + "\"";
}

bool called(const Parameter& parameter, std::string_view key) {
  if (parameter.key == key) return true;
  std::string_view rest = parameter.alias;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (rest.substr(0, comma) == key) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

bool in_range(const Parameter& parameter, double value) {
  return value <= parameter.high && (parameter.open_low ? value > parameter.low : value >= parameter.low);
}

// The value as it is stored; NaN when the parameter does not accept it.
double stored(const Parameter& parameter, const ParameterValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return parameter.kind == Kind::flag ? (*flag ? 1 : 0) : kUnset;
  if (const auto* word = std::get_if<std::string>(&value)) {
    const auto hit = std::ranges::find(parameter.choices, *word);
    if (parameter.kind != Kind::choice || hit == parameter.choices.end()) return kUnset;
    return static_cast<double>(hit - parameter.choices.begin());
  }
  if (parameter.kind != Kind::number && parameter.kind != Kind::integer) return kUnset;
  const auto* whole = std::get_if<int64_t>(&value);
  const double number = whole ? static_cast<double>(*whole) : std::get<double>(value);
  if (parameter.kind == Kind::integer && number != std::floor(number)) return kUnset;
  return in_range(parameter, number) ? number : kUnset;
}

}  // namespace

std::string expected(const Parameter& parameter) {
  if (parameter.kind == Kind::flag) return "true or false";
  if (parameter.kind == Kind::choice) {
    std::string all;
    for (const std::string_view word : parameter.choices) all += (all.empty() ? "one of: " : ", ") + std::string(word);
    return all;
  }
  const std::string noun = parameter.kind == Kind::integer ? "a whole number" : "a number";
  const bool low = std::isfinite(parameter.low), high = std::isfinite(parameter.high);
  if (low && high)
    return noun + " in " + (parameter.open_low ? "(" : "[") + text_of(parameter.low) + ", " + text_of(parameter.high) +
           "]";
  if (low) return noun + (parameter.open_low ? " above " : " of at least ") + text_of(parameter.low);
  return high ? noun + " of at most " + text_of(parameter.high) : noun;
}

ParameterValue default_value(const Parameter& parameter) {
  switch (parameter.kind) {
    case Kind::flag: return parameter.default_value != 0;
    case Kind::choice: return std::string(parameter.choices[static_cast<std::size_t>(parameter.default_value)]);
    case Kind::integer: return static_cast<int64_t>(parameter.default_value);
    case Kind::number: break;
  }
  return parameter.default_value;
}

ParameterValues::ParameterValues(std::span<const Parameter> declared) : declared_(declared) {
  for (const Parameter& parameter : declared) values_.push_back(parameter.default_value);
}

void ParameterValues::set(std::string_view path, std::string_view key, const ParameterValue& value) {
  for (std::size_t i = 0; i < declared_.size(); ++i) {
    if (!called(declared_[i], key)) continue;
    const double number = stored(declared_[i], value);
    if (std::isnan(number))
      throw ConfigError(std::string(path) + "." + std::string(key) + ": " + text_of(value) + ", expected " +
                        expected(declared_[i]));
    values_[i] = number;
    return;
  }
  if (declared_.empty())
    throw ConfigError(std::string(path) + ": unknown parameter \"" + std::string(key) + "\", there are none");
  std::vector<std::string_view> known;
  for (const Parameter& parameter : declared_) known.push_back(parameter.key);
  find_name(path, key, known, "parameter");
}

std::size_t ParameterValues::index_of(std::string_view key, Kind kind) const {
  for (std::size_t i = 0; i < declared_.size(); ++i)
    if (declared_[i].key == key && declared_[i].kind == kind) return i;
  throw InvariantError("no such parameter: " + std::string(key));
}

double ParameterValues::number(std::string_view key) const { return values_[index_of(key, Kind::number)]; }

int64_t ParameterValues::integer(std::string_view key) const {
  return static_cast<int64_t>(values_[index_of(key, Kind::integer)]);
}

bool ParameterValues::flag(std::string_view key) const { return values_[index_of(key, Kind::flag)] != 0; }

std::string_view ParameterValues::choice(std::string_view key) const {
  const std::size_t i = index_of(key, Kind::choice);
  return declared_[i].choices[static_cast<std::size_t>(values_[i])];
}

double ParameterValues::number_or(std::string_view key, double otherwise) const {
  const double value = number(key);
  return std::isnan(value) ? otherwise : value;
}

bool ParameterValues::has(std::string_view key) const {
  return std::ranges::any_of(declared_, [&](const Parameter& parameter) { return parameter.key == key; });
}

}  // namespace troupe
