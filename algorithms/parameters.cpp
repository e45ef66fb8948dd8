#include "algorithms/parameters.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "algorithms/names.h"
#include "runtime/errors.h"

namespace troupe {

namespace {

std::string number_text(double x) {
  std::ostringstream out;
  out << x;
  return out.str();
}

std::string value_text(const ParameterValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  return '"' + std::get<std::string>(value) + '"';
}

[[noreturn]] void refuse(const std::string& where, const Parameter& parameter, const ParameterValue& value) {
  throw ConfigError(where + ": " + value_text(value) + ", expected " + expected(parameter));
}

bool in_range(const Parameter& parameter, double x) {
  return (parameter.open_low ? x > parameter.low : x >= parameter.low) && x <= parameter.high;
}

// The number that stands for a value of the parameter's kind; NaN when it has another type or is no choice of it.
double encoded(const Parameter& parameter, const ParameterValue& value) {
  constexpr double kWrong = std::numeric_limits<double>::quiet_NaN();
  const auto* whole = std::get_if<int64_t>(&value);
  switch (parameter.kind) {
    case Parameter::Kind::number:
      if (const auto* number = std::get_if<double>(&value)) return *number;
      return whole ? static_cast<double>(*whole) : kWrong;
    case Parameter::Kind::integer: return whole ? static_cast<double>(*whole) : kWrong;
    case Parameter::Kind::flag: {
      const auto* flag = std::get_if<bool>(&value);
      return flag ? static_cast<double>(*flag) : kWrong;
    }
    case Parameter::Kind::choice: {
      const auto* text = std::get_if<std::string>(&value);
      const auto hit = std::find(parameter.choices.begin(), parameter.choices.end(), text ? *text : "");
      return text && hit != parameter.choices.end() ? static_cast<double>(hit - parameter.choices.begin()) : kWrong;
    }
  }
  return kWrong;
}

}  // namespace

std::string expected(const Parameter& parameter) {
  if (parameter.kind == Parameter::Kind::flag) return "true or false";
  if (parameter.kind == Parameter::Kind::choice) {
    std::string all = "one of:";
    for (const std::string_view choice : parameter.choices)
      all += (all.back() == ':' ? " " : ", ") + std::string(choice);
    return all;
  }
  const std::string what = parameter.kind == Parameter::Kind::integer ? "a whole number" : "a number";
  const bool low = std::isfinite(parameter.low), high = std::isfinite(parameter.high);
  if (low && high)
    return what + " in " + (parameter.open_low ? '(' : '[') + number_text(parameter.low) + ", " +
           number_text(parameter.high) + ']';
  if (low) return what + (parameter.open_low ? " above " : " of at least ") + number_text(parameter.low);
  if (high) return what + " of at most " + number_text(parameter.high);
  return what;
}

ParameterValue default_value(const Parameter& parameter) {
  switch (parameter.kind) {
    case Parameter::Kind::number: break;
    case Parameter::Kind::integer: return static_cast<int64_t>(parameter.default_value);
    case Parameter::Kind::flag: return parameter.default_value != 0;
    case Parameter::Kind::choice:
      return std::string(parameter.choices[static_cast<std::size_t>(parameter.default_value)]);
  }
  return parameter.default_value;
}

ParameterValues::ParameterValues(std::span<const Parameter> declared) : declared_(declared) {
  for (const Parameter& parameter : declared) values_.push_back(parameter.default_value);
}

void ParameterValues::set(std::string_view path, std::string_view key, const ParameterValue& value) {
  const std::string where = std::string(path) + '.' + std::string(key);
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < declared_.size(); ++i) {
    const Parameter& parameter = declared_[i];
    keys.push_back(parameter.key);
    if (key != parameter.key && (parameter.alias.empty() || key != parameter.alias)) continue;
    const double number = encoded(parameter, value);
    if (!in_range(parameter, number)) refuse(where, parameter, value);  // NaN is in no range
    values_[i] = number;
    return;
  }
  if (keys.empty()) throw ConfigError(where + ": unknown key, there are none here");
  find_name(path, key, keys);
}

double ParameterValues::number(std::string_view key) const { return values_[index_of(key, Parameter::Kind::number)]; }

int64_t ParameterValues::integer(std::string_view key) const {
  return static_cast<int64_t>(values_[index_of(key, Parameter::Kind::integer)]);
}

bool ParameterValues::flag(std::string_view key) const { return values_[index_of(key, Parameter::Kind::flag)] != 0; }

std::string_view ParameterValues::choice(std::string_view key) const {
  const std::size_t i = index_of(key, Parameter::Kind::choice);
  return declared_[i].choices[static_cast<std::size_t>(values_[i])];
}

std::size_t ParameterValues::index_of(std::string_view key, Parameter::Kind kind) const {
  for (std::size_t i = 0; i < declared_.size(); ++i)
    if (declared_[i].key == key && declared_[i].kind == kind) return i;
  TROUPE_CHECK(false, "no such parameter", key);
  return 0;
}

}  // namespace troupe
