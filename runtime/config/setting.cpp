#include "runtime/config/setting.h"

#include <charconv>
#include <cmath>
#include <regex>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {
namespace {

using Kind = Setting::Kind;

constexpr size_t kMaxTextBytes = 4096;

[[noreturn]] void refuse(const Setting& setting, const std::string& where, const std::string& what) {
  throw ConfigError(where + ": " + what + ", expected " + expected(setting));
}

// `1.5 is a number`, `null is not a value`: the first half of a message about a wrong type.
std::string type_given(const SettingValue& value, const std::string& shown) {
  if (std::holds_alternative<std::monostate>(value)) return "null is not a value";
  if (std::holds_alternative<bool>(value)) return shown + " is a boolean";
  if (std::holds_alternative<std::string>(value)) return shown + " is a string";
  return shown + " is a number";
}

std::string shown_value(const SettingValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (const auto* whole = std::get_if<uint64_t>(&value)) return std::to_string(*whole);
  if (const auto* number = std::get_if<double>(&value)) return number_text(*number);
  if (const auto* text = std::get_if<std::string>(&value)) return '"' + printable(*text) + '"';
  return "null";
}

// The number, if it is one. long double represents every int64 and uint64 exactly.
bool read_number(const SettingValue& value, long double& number) {
  if (const auto* whole = std::get_if<int64_t>(&value))
    number = *whole;
  else if (const auto* whole = std::get_if<uint64_t>(&value))
    number = *whole;
  else if (const auto* real = std::get_if<double>(&value))
    number = *real;
  else
    return false;
  return true;
}

bool within(const Setting& setting, long double value) {
  const bool low_ok = setting.open_low ? value > setting.low : value >= setting.low;
  const bool high_ok = setting.open_high ? value < setting.high : value <= setting.high;
  return low_ok && high_ok;  // false for NaN
}

template <class T>
T whole_number(const Setting& setting, const SettingValue& value, const std::string& where, const std::string& shown) {
  long double number = 0;
  if (!read_number(value, number)) refuse(setting, where, type_given(value, shown));
  if (std::isfinite(number) && number != std::trunc(number)) refuse(setting, where, shown + " is not whole");
  const bool fits = number >= static_cast<long double>(std::numeric_limits<T>::min()) &&
                    number <= static_cast<long double>(std::numeric_limits<T>::max());
  if (!fits || !within(setting, number)) refuse(setting, where, shown + " is out of range");
  return static_cast<T>(number);
}

double real_number(const Setting& setting, const SettingValue& value, const std::string& where,
                   const std::string& shown) {
  long double number = 0;
  if (!read_number(value, number)) refuse(setting, where, type_given(value, shown));
  const auto real = static_cast<double>(number);
  if (!within(setting, real)) refuse(setting, where, shown + " is out of range");
  return real;
}

// " (it has the control character \x0a)", or empty.
std::string with_strange_character(const std::string& text) {
  const std::string strange = strange_character(text);
  return strange.empty() ? "" : " (it has " + strange + ')';
}

std::string checked_text(const Setting& setting, const SettingValue& value, const std::string& where,
                         const std::string& shown) {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) refuse(setting, where, type_given(value, shown));
  if (text->size() > kMaxTextBytes) refuse(setting, where, shown + " is too long");
  if (!setting.choices.empty() && std::ranges::find(setting.choices, *text) == setting.choices.end())
    refuse(setting, where, shown + " is unknown");
  if (!setting.pattern.empty() && !std::regex_match(*text, std::regex(setting.pattern.begin(), setting.pattern.end())))
    refuse(setting, where, shown + " is not allowed" + with_strange_character(*text));
  return *text;
}

std::string interval_text(const Setting& setting) {
  return (setting.open_low ? "(" : "[") + number_text(setting.low) + ", " + number_text(setting.high) +
         (setting.open_high ? ")" : "]");
}

std::string joined(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

// " in [0, 1]", " above 0", " of at least 0", or empty.
std::string limits_text(const Setting& setting) {
  if (setting.kind == Kind::unsigned_integer) return " in " + range_text(setting);
  const bool low = std::isfinite(setting.low), high = std::isfinite(setting.high);
  if (low && high) return " in " + interval_text(setting);
  if (low) return (setting.open_low ? " above " : " of at least ") + number_text(setting.low);
  if (high) return (setting.open_high ? " below " : " of at most ") + number_text(setting.high);
  return "";
}

std::string text_expected(const Setting& setting) {
  if (!setting.choices.empty() || !setting.pattern.empty()) return range_text(setting);
  return setting.words.empty() ? "text" : std::string(setting.words);
}

std::vector<std::string> owned(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

}  // namespace

SettingValue checked(const Setting& setting, const SettingValue& value, const std::string& where,
                     const std::string& shown) {
  if (std::holds_alternative<std::monostate>(value) && !setting.unset.empty()) return value;
  switch (setting.kind) {
    case Kind::boolean:
      if (!std::holds_alternative<bool>(value)) refuse(setting, where, type_given(value, shown));
      return value;
    case Kind::unsigned_integer: return whole_number<uint64_t>(setting, value, where, shown);
    case Kind::integer:
    case Kind::milliseconds:
    case Kind::microseconds: return whole_number<int64_t>(setting, value, where, shown);
    case Kind::number: return real_number(setting, value, where, shown);
    case Kind::text: return checked_text(setting, value, where, shown);
    case Kind::integers:
    case Kind::object: break;
  }
  refuse(setting, where, type_given(value, shown));
}

SettingValue checked(const Setting& setting, const SettingValue& value, const std::string& where) {
  return checked(setting, value, where, shown_value(value));
}

std::string expected(const Setting& setting) {
  const std::string or_null = setting.unset.empty() ? "" : ", or null";
  switch (setting.kind) {
    case Kind::boolean: return "true or false" + or_null;
    case Kind::integer:
    case Kind::unsigned_integer: return "an integer" + limits_text(setting) + or_null;
    case Kind::number: return "a number" + limits_text(setting) + or_null;
    case Kind::text: return text_expected(setting) + or_null;
    case Kind::integers:
      return "an array of at most " + std::to_string(kMaxItems) + " integers" + limits_text(setting) + or_null;
    case Kind::milliseconds: return "whole milliseconds" + limits_text(setting) + or_null;
    case Kind::microseconds: return "whole microseconds" + limits_text(setting) + or_null;
    case Kind::object: break;
  }
  return "an object" + or_null;
}

std::string range_text(const Setting& setting) {
  if (!setting.choices.empty()) return "one of: " + joined(setting.choices);
  if (!setting.pattern.empty()) return std::string(setting.words);
  if (setting.kind == Kind::unsigned_integer) return "[0, 18446744073709551615]";
  const bool low = std::isfinite(setting.low), high = std::isfinite(setting.high);
  if (low && high) return interval_text(setting);
  if (low) return (setting.open_low ? "> " : ">= ") + number_text(setting.low);
  if (high) return (setting.open_high ? "< " : "<= ") + number_text(setting.high);
  return "";
}

std::string type_text(const Setting& setting) {
  switch (setting.kind) {
    case Kind::boolean: return "boolean";
    case Kind::integer:
    case Kind::unsigned_integer: return "integer";
    case Kind::number: return "number";
    case Kind::text: return "string";
    case Kind::integers: return "array of integer";
    case Kind::milliseconds:
    case Kind::microseconds: return "duration";
    case Kind::object: break;
  }
  return "object";
}

std::string help_text(const Setting& setting) {
  return std::string(setting.help) + (setting.unset.empty() ? "" : "; unset: " + std::string(setting.unset));
}

bool is_called(const Setting& setting, std::string_view key) {
  return setting.key == key || std::ranges::find(setting.aliases, key) != setting.aliases.end();
}

SettingValue default_value(const Setting& setting) {
  switch (setting.kind) {
    case Kind::boolean: return setting.default_value != 0;
    case Kind::text:
      return setting.choices.empty() ? std::string()
                                     : std::string(setting.choices[static_cast<size_t>(setting.default_value)]);
    case Kind::number: return setting.default_value;
    default: return static_cast<int64_t>(setting.default_value);
  }
}

std::string default_text(const Setting& setting) {
  if (std::isnan(setting.default_value)) return "null";
  const SettingValue value = default_value(setting);
  if (const auto* number = std::get_if<double>(&value)) return json_number_text(*number);
  return shown_value(value);
}

std::string number_text(double value) {
  std::array<char, 40> buffer;
  char *begin = buffer.data(), *end = begin + buffer.size();
  const bool whole = std::abs(value) < 1e16 && value == std::trunc(value);
  return {begin, whole ? std::to_chars(begin, end, value, std::chars_format::fixed).ptr
                       : std::to_chars(begin, end, value).ptr};
}

std::string json_number_text(double value) {
  const std::string text = number_text(value);
  return text.find_first_not_of("-0123456789") == std::string::npos ? text + ".0" : text;
}

std::string unknown_key(const std::string& path, std::string_view key, std::string_view owner,
                        const std::vector<std::string>& known, const std::vector<std::string>& also) {
  std::vector<std::string> names = known;
  names.insert(names.end(), also.begin(), also.end());
  std::string all;
  for (const std::string& name : known) all += (all.empty() ? "" : ", ") + name;
  const std::string near = closest(key, names);
  return path + '.' + printable(key) + ": unknown key, " +
         (all.empty()    ? std::string(owner) + " has no parameters"
          : near.empty() ? std::string(owner) + " has: " + all
                         : "did you mean " + path + '.' + near + '?');
}

std::string unknown_key(const std::string& path, std::string_view key, std::string_view owner,
                        std::span<const Setting> settings) {
  std::vector<std::string> keys, aliases;
  for (const Setting& setting : settings) {
    keys.emplace_back(setting.key);
    aliases.insert(aliases.end(), setting.aliases.begin(), setting.aliases.end());
  }
  return unknown_key(path, key, owner, keys, aliases);
}

SettingInfo info_of(const Setting& setting, std::string path, std::string fallback) {
  return {.path = std::move(path),
          .type = type_text(setting),
          .fallback = std::move(fallback),
          .range = range_text(setting),
          .help = help_text(setting),
          .source = std::string(setting.source),
          .aliases = owned(setting.aliases),
          .elsewhere = owned(setting.elsewhere),
          .change = setting.change,
          .owner = std::string(setting.owner)};
}

}  // namespace troupe
