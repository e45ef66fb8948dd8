// Reading settings of a run file from JSON, and --set.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/fields.h"
#include "runtime/config/setting_json.h"

namespace troupe {
namespace {

constexpr size_t kMaxSetBytes = 16 << 10;  // of an object that --set changes

[[noreturn]] void refuse(const std::string& where, const std::string& what) { throw ConfigError(where + ": " + what); }

// Stores a JSON value in the member a field points to.
class Assign {
 public:
  Assign(const Field& field, const Json& value, const std::string& where)
      : field_(field), value_(value), where_(where) {}

  void operator()(std::chrono::milliseconds* to) const { *to = std::chrono::milliseconds(value_as<int64_t>()); }
  void operator()(std::chrono::microseconds* to) const { *to = std::chrono::microseconds(value_as<int64_t>()); }
  void operator()(std::optional<double>* to) const {
    const SettingValue value = read_value(field_.setting, value_, where_);
    const auto* number = std::get_if<double>(&value);
    *to = number == nullptr ? std::nullopt : std::optional(*number);
  }
  void operator()(std::vector<int64_t>* to) const { *to = read_integers(field_.setting, value_, where_); }
  void operator()(ObjectText to) const { *to.text = read_object(field_.setting, value_, where_); }
  template <class T>
  void operator()(T* to) const {
    *to = value_as<T>();
  }

 private:
  template <class T>
  T value_as() const {
    return std::get<T>(read_value(field_.setting, value_, where_));
  }

  const Field& field_;
  const Json& value_;
  const std::string& where_;
};

void assign(const Field& field, const Json& value, const std::string& source) {
  const std::string where = source + ": " + field.path;
  std::visit(Assign(field, value, where), field.value);
}

void read_section(const Fields& fields, const std::string& section, const Json& values, const std::string& source) {
  if (!values.is_object())
    refuse(source + ": " + section, kind_given(values) + ", expected an object with: " + keys_of(fields, section));
  for (const auto& [key, value] : values.items()) {
    const Field* field = find_field(fields, section + '.' + key);
    if (field == nullptr) refuse(source, unknown_key(fields, section + '.' + key));
    assign(*field, value, source);
  }
}

// --set env.params.KEY=VALUE: one key inside an object whose keys are not fields. Dots lead into objects inside it.
void set_inside(const Field& field, std::string key, const std::string& text) {
  std::string& object = *std::get<ObjectText>(field.value).text;
  if (std::ranges::count(key, '.') >= kMaxJsonDepth)
    refuse("--set: " + printable(field.path + '.' + key),
           "is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  if (object.size() > kMaxSetBytes)  // each --set reads and writes all of it
    refuse("--set: " + field.path, "has grown beyond 16 KiB, write it into the run file");
  Json root = parse_strict(object, field.path);
  Json* at = &root;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    Json& inner = (*at)[key.substr(0, dot)];
    if (!inner.is_null() && !inner.is_object())
      refuse("--set: " + field.path, shown_json(inner) + " is not an object, it has no key " + printable(key));
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
const Field* object_around(const Fields& fields, const std::string& path) {
  const auto it = std::ranges::find_if(fields, [&](const Field& field) {
    return std::holds_alternative<ObjectText>(field.value) && path.size() > field.path.size() + 1 &&
           path.starts_with(field.path + '.');
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
    refuse(where, (text.empty() ? "no value" : printable(text) + " is not a JSON value") + ", expected " +
                      expected(field.setting));
  }
}

}  // namespace

void read_fields(const Fields& fields, const Json& root, const std::string& source) {
  if (!root.is_object()) refuse(source, kind_given(root) + ", expected an object");
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

void override_field(const Fields& fields, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse("--set " + printable(assignment), "expected path=value, like algorithm.gamma=0.98");
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  if (const Field* object = object_around(fields, path))
    return set_inside(*object, path.substr(object->path.size() + 1), text);
  const Field* field = find_field(fields, path);
  if (field == nullptr && is_section(fields, path))
    refuse("--set: " + path, "is a section, set one of its keys: " + keys_of(fields, path));
  if (field == nullptr) refuse("--set", unknown_key(fields, path));
  assign(*field, override_value(*field, text, "--set: " + path), "--set");
}

}  // namespace troupe
