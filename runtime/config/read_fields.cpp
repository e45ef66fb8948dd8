// Reading settings of a config file from JSON, and --set.

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/fields.h"
#include "runtime/config/hints.h"
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
  void operator()(bool* to) const {
    constexpr std::string_view kOldWords[] = {"on", "off", "yes", "no"};  // of YAML 1.1, in any letter case
    const std::string word = value_.is_string() ? value_.get<std::string>().substr(0, 4) : "";
    if (std::ranges::any_of(kOldWords, [&](std::string_view old) { return edit_distance(word, old) == 0; }))
      refuse(where_, kind_given(value_) + ", expected true or false; YAML 1.2 has only true and false");
    *to = value_as<bool>();
  }
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

// Refuses a text that is not accepted but understood.
void check_foreign_value(const Field& field, const Json& value, const std::string& where, Hints hints) {
  if (!value.is_string()) return;
  const std::string given = field.path + '=' + value.get<std::string>();
  const auto hint = std::ranges::find(hints, given, &Hint::name);
  if (hint != hints.end()) refuse(where, shown_json(value) + " is unknown, " + std::string(hint->advice));
}

void assign(const Field& field, const Json& value, const std::string& source, Hints hints) {
  const std::string where = source + ": " + field.path;
  check_foreign_value(field, value, where, hints);
  std::visit(Assign(field, value, where), field.value);
}

void read_section(const Fields& fields, const std::string& section, const Json& values, const std::string& source,
                  Hints hints) {
  if (values.is_null()) refuse(source + ": " + section, "is empty; remove it or give it keys");
  if (!values.is_object())
    refuse(source + ": " + section, kind_given(values) + ", expected an object with: " + keys_of(fields, section));
  for (const auto& [key, value] : values.items()) {
    const Field* field = find_field(fields, section + '.' + key);
    if (field == nullptr) refuse(source, unknown_key(fields, section + '.' + key, hints));
    assign(*field, value, source, hints);
  }
}

[[noreturn]] void refuse_list_item(const std::string& path, const std::string& list) {
  const std::string shown = printable(list, 200);
  refuse("--set: " + printable(path, 200), "a list is replaced as a whole: --set '" + shown + "=[...]'");
}

// --set env.params.KEY=VALUE: one key inside an object whose keys are not fields. Dots lead into objects inside it.
void set_inside(const Field& field, std::string key, const std::string& text) {
  std::string& object = *std::get<ObjectText>(field.value).text;
  if (std::ranges::count(key, '.') >= kMaxJsonDepth)
    refuse("--set: " + printable(field.path + '.' + key),
           "is nested deeper than " + std::to_string(kMaxJsonDepth) + " levels");
  if (object.size() > kMaxSetBytes)  // each --set reads and writes all of it
    refuse("--set: " + field.path, "has grown beyond 16 KiB, write it into the config file");
  const std::string path = field.path + '.' + key, shown = field.path + '.' + printable(key);
  Json root = parse_strict(object, field.path);
  Json* at = &root;
  for (size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.')) {
    Json& inner = (*at)[key.substr(0, dot)];
    if (inner.is_array()) refuse_list_item(path, path.substr(0, path.size() - (key.size() - dot)));
    if (!inner.is_null() && !inner.is_object())
      refuse("--set: " + field.path, shown_json(inner) + " is not an object, it has no key " + printable(key));
    at = &inner;
    key.erase(0, dot + 1);
  }
  try {
    (*at)[key] = parse_strict(text, "--set: " + shown);
  } catch (const InexactNumber&) {
    throw;
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

// Refuses a path that leads into a list: "model.hidden.0", "model.hidden[0]" or "env.params.sizes[0]".
void check_no_list_item(const Fields& fields, const std::string& path) {
  const std::string list = path.substr(0, path.find('['));
  if (list != path && (find_field(fields, list) != nullptr || object_around(fields, list) != nullptr))
    refuse_list_item(path, list);
  for (const Field& field : fields)
    if (field.setting.kind == Setting::Kind::integers && path.starts_with(field.path + '.'))
      refuse_list_item(path, field.path);
}

// The JSON value of an override: a string field takes a bare word, the others need JSON.
Json override_value(const Field& field, const std::string& text, const std::string& where) {
  const bool bare_word = std::holds_alternative<std::string*>(field.value) && !text.starts_with('"');
  try {
    if (bare_word) {
      Json word(text);
      static_cast<void>(word.dump());  // throws for bytes that are not UTF-8
      return word;
    }
    return parse_strict(text, where);
  } catch (const InexactNumber&) {
    throw;
  } catch (const Json::exception&) {
    refuse(where, printable(text) + " is not UTF-8, expected " + expected(field.setting));
  } catch (const ConfigError&) {
    refuse(where, (text.empty() ? "no value" : printable(text) + " is not a JSON value") + ", expected " +
                      expected(field.setting));
  }
}

}  // namespace

void read_fields(const Fields& fields, const Json& root, const std::string& source, Hints hints) {
  if (!root.is_object()) refuse(source, kind_given(root) + ", expected an object");
  for (const auto& [key, value] : root.items()) {
    const Field* field = find_field(fields, key);
    if (field != nullptr && field->section().empty()) {
      assign(*field, value, source, hints);
    } else if (field != nullptr) {
      refuse(source + ": " + key, "sections are nested, write \"" + std::string(field->section()) + "\": {\"" +
                                      std::string(field->key()) + "\": ...}");
    } else if (is_section(fields, key)) {
      read_section(fields, key, value, source, hints);
    } else {
      refuse(source, unknown_key(fields, key, hints));
    }
  }
}

void read_fields(const Fields& fields, const Json& root, const std::string& source) {
  read_fields(fields, root, source, {});
}

void override_field(const Fields& fields, const std::string& assignment, Hints hints) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0)
    refuse("--set " + printable(assignment), "expected path=value, like algorithm.gamma=0.98");
  const std::string path = assignment.substr(0, equals);
  const std::string text = assignment.substr(equals + 1);
  check_no_list_item(fields, path);
  if (const Field* object = object_around(fields, path))
    return set_inside(*object, path.substr(object->path.size() + 1), text);
  const Field* field = find_field(fields, path);
  if (field == nullptr && is_section(fields, path))
    refuse("--set: " + path, "is a section, set one of its keys: " + keys_of(fields, path));
  if (field == nullptr) refuse("--set", unknown_key(fields, path, hints));
  assign(*field, override_value(*field, text, "--set: " + path), "--set", hints);
}

void override_field(const Fields& fields, const std::string& assignment) { override_field(fields, assignment, {}); }

}  // namespace troupe
