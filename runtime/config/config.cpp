#include "runtime/config/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/config_names.h"
#include "runtime/config/fields.h"

namespace troupe {
namespace {

constexpr size_t kMaxFileBytes = 1 << 20;
constexpr size_t kMaxTextBytes = 4096;     // of one string field
constexpr size_t kMaxSetBytes = 16 << 10;  // of an object that --set changes

constexpr size_t kShownPath = 200;  // bytes of a file's name in an error

[[noreturn]] void refuse(const std::string& where, const std::string& what) { throw ConfigError(where + ": " + what); }

std::string shown(const Json& value) { return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

// `1.5 is a number`, `"high" is a string`, `null`, for the first half of a wrong-type message.
std::string kind_text(const Json& value) {
  if (value.is_null()) return "null is not a value";
  if (value.is_object()) return "an object is given";
  if (value.is_array()) return shown(value) + " is an array";
  if (value.is_string()) return shown(value) + " is a string";
  if (value.is_boolean()) return shown(value) + " is a boolean";
  return shown(value) + " is a number";
}

[[noreturn]] void refuse_type(const Field& field, const Json& value, const std::string& where) {
  refuse(where, kind_text(value) + ", expected " + expected(field));
}

[[noreturn]] void refuse_range(const Field& field, const Json& value, const std::string& where) {
  refuse(where, shown(value) + " is out of range, expected " + expected(field));
}

bool within(const Limits& limits, long double value) {
  const bool low_ok = limits.open_low ? value > limits.low : value >= limits.low;
  const bool high_ok = limits.open_high ? value < limits.high : value <= limits.high;
  return low_ok && high_ok;
}

// A whole number in the field's range; 1e6 and 2.0 are whole. long double holds every int64 and uint64 exactly.
template <class T>
T read_integer(const Field& field, const Json& value, const std::string& where) {
  if (!value.is_number()) refuse_type(field, value, where);
  const long double number = value.is_number_unsigned()  ? static_cast<long double>(value.get<uint64_t>())
                             : value.is_number_integer() ? static_cast<long double>(value.get<int64_t>())
                                                         : static_cast<long double>(value.get<double>());
  if (number != std::trunc(number)) refuse(where, shown(value) + " is not whole, expected " + expected(field));
  const bool fits = number >= static_cast<long double>(std::numeric_limits<T>::min()) &&
                    number <= static_cast<long double>(std::numeric_limits<T>::max());
  if (!fits || !within(field.limits, number)) refuse_range(field, value, where);
  return static_cast<T>(number);
}

double read_number(const Field& field, const Json& value, const std::string& where) {
  if (!value.is_number()) refuse_type(field, value, where);
  const double number = value.get<double>();
  if (!std::isfinite(number) || !within(field.limits, number)) refuse_range(field, value, where);
  return number;
}

std::string read_text(const Field& field, const Json& value, const std::string& where) {
  if (!value.is_string()) refuse_type(field, value, where);
  const std::string text = value.get<std::string>();
  const Limits& limits = field.limits;
  if (text.size() > kMaxTextBytes) refuse(where, shown(value) + " is too long, expected " + expected(field));
  if (!limits.choices.empty() && std::ranges::find(limits.choices, text) == limits.choices.end())
    refuse(where, shown(value) + " is unknown, expected " + expected(field));
  if (!limits.pattern.empty() && !std::regex_match(text, std::regex(limits.pattern.begin(), limits.pattern.end())))
    refuse(where, shown(value) + " is not allowed, expected " + expected(field));
  return text;
}

// Stores a JSON value in the member a field points to.
class Assign {
 public:
  Assign(const Field& field, const Json& value, const std::string& where)
      : field_(field), value_(value), where_(where) {}

  void operator()(bool* to) const {
    if (!value_.is_boolean()) refuse_type(field_, value_, where_);
    *to = value_.get<bool>();
  }
  void operator()(int64_t* to) const { *to = read_integer<int64_t>(field_, value_, where_); }
  void operator()(uint64_t* to) const { *to = read_integer<uint64_t>(field_, value_, where_); }
  void operator()(double* to) const { *to = read_number(field_, value_, where_); }
  void operator()(std::string* to) const { *to = read_text(field_, value_, where_); }
  void operator()(std::chrono::milliseconds* to) const {
    *to = std::chrono::milliseconds(read_integer<int64_t>(field_, value_, where_));
  }
  void operator()(std::chrono::microseconds* to) const {
    *to = std::chrono::microseconds(read_integer<int64_t>(field_, value_, where_));
  }
  void operator()(std::vector<int64_t>* to) const {
    if (!value_.is_array()) refuse_type(field_, value_, where_);
    if (value_.size() > kMaxItems)
      refuse(where_, std::to_string(value_.size()) + " items, expected " + expected(field_));
    const Field item = {field_.path, static_cast<int64_t*>(nullptr), field_.limits, field_.help};
    std::vector<int64_t> items;
    for (size_t i = 0; i < value_.size(); ++i)
      items.push_back(read_integer<int64_t>(item, value_[i], where_ + '[' + std::to_string(i) + ']'));
    *to = std::move(items);
  }
  void operator()(ObjectText to) const {
    if (!value_.is_object()) refuse_type(field_, value_, where_);
    *to.text = value_.dump();
  }

 private:
  const Field& field_;
  const Json& value_;
  const std::string& where_;
};

void assign(const Field& field, const Json& value, const std::string& source) {
  const std::string where = source + ": " + std::string(field.path);
  std::visit(Assign(field, value, where), field.value);
}

void read_section(const std::vector<Field>& fields, const std::string& section, const Json& values,
                  const std::string& source) {
  if (!values.is_object())
    refuse(source + ": " + section, kind_text(values) + ", expected an object with: " + keys_of(fields, section));
  for (const auto& [key, value] : values.items()) {
    const Field* field = find_field(fields, section + '.' + key);
    if (field == nullptr) refuse(source, unknown_key(fields, section + '.' + key));
    assign(*field, value, source);
  }
}

void read_top_level(const std::vector<Field>& fields, const Json& root, const std::string& source) {
  for (const auto& [key, value] : root.items()) {
    const Field* field = find_field(fields, key);
    if (field != nullptr && field->section().empty()) {
      assign(*field, value, source);
    } else if (field != nullptr) {
      refuse(source + ": " + key, "sections are nested, write \"" + std::string(field->section()) + "\": {\"" +
                                      std::string(field->key()) + "\": ...}");
    } else if (is_section(fields, key)) {
      read_section(fields, key, value, source);
    } else {
      refuse(source, unknown_key(fields, key));
    }
  }
}

// --set env.params.KEY=VALUE: one key inside an object whose keys are not fields. Dots lead into objects inside it.
void set_inside(const Field& field, std::string key, const std::string& text) {
  std::string& object = *std::get<ObjectText>(field.value).text;
  if (std::ranges::count(key, '.') >= kMaxJsonDepth)
    refuse("--set: " + printable(std::string(field.path) + '.' + key),
           "is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  if (object.size() > kMaxSetBytes)  // each --set reads and writes all of it
    refuse("--set: " + std::string(field.path), "has grown beyond 16 KiB, write it into the run file");
  Json root = parse_strict(object, std::string(field.path));
  Json* at = &root;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    Json& inner = (*at)[key.substr(0, dot)];
    if (!inner.is_null() && !inner.is_object())
      refuse("--set: " + std::string(field.path), shown(inner) + " is not an object, it has no key " + printable(key));
    at = &inner;
    key.erase(0, dot + 1);
  }
  try {
    (*at)[key] = parse_strict(text, "--set");
  } catch (const ConfigError&) {
    (*at)[key] = text;
  }
  object = root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The field of objects that `path` leads into, or nullptr.
const Field* object_around(const std::vector<Field>& fields, const std::string& path) {
  const auto it = std::ranges::find_if(fields, [&](const Field& field) {
    return std::holds_alternative<ObjectText>(field.value) && path.size() > field.path.size() + 1 &&
           path.starts_with(std::string(field.path) + '.');
  });
  return it == fields.end() ? nullptr : &*it;
}

// The JSON value of an override: a string field takes a bare word, the others need JSON.
Json override_value(const Field& field, const std::string& text, const std::string& where) {
  const bool bare_word = std::holds_alternative<std::string*>(field.value) && !text.starts_with('"');
  if (bare_word) return Json(text);
  try {
    return parse_strict(text, "value");
  } catch (const ConfigError&) {
    refuse(where,
           (text.empty() ? "no value" : printable(text) + " is not a JSON value") + ", expected " + expected(field));
  }
}

}  // namespace

RunConfig parse_config(const std::string& text, const std::string& source) {
  if (text.size() > kMaxFileBytes) refuse(source, "is larger than 1 MiB, expected a run file");
  const Json root = parse_strict(text, source);
  if (!root.is_object()) refuse(source, kind_text(root) + ", expected an object");
  RunConfig config;
  read_top_level(describe(config), root, source);
  return config;
}

RunConfig load_config(const std::string& path) {
  const std::string shown_path = printable(path, kShownPath);
  try {
    return parse_config(posix_disk().read(path, kMaxFileBytes), shown_path);
  } catch (const IoError& refused) {
    refuse(shown_path, std::string(refused.what()).substr(path.size() + 2));  // after "PATH: "
  }
}

std::string upgrade_config(const std::string& text) { return to_json(parse_config(text, "its config")); }

void apply_override(RunConfig& config, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse("--set " + printable(assignment), "expected path=value, like algorithm.gamma=0.98");
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  const std::vector<Field> fields = describe(config);
  if (const Field* object = object_around(fields, path))
    return set_inside(*object, path.substr(object->path.size() + 1), text);
  const Field* field = find_field(fields, path);
  if (field == nullptr && is_section(fields, path))
    refuse("--set: " + path, "is a section, set one of its keys: " + keys_of(fields, path));
  if (field == nullptr) refuse("--set", unknown_key(fields, path));
  assign(*field, override_value(*field, text, "--set: " + path), "--set");
}

}  // namespace troupe
