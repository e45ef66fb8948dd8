#pragma once
// Sections of a config file: each setting (runtime/config/setting.h) together with the member that holds its value.
// Reader, writer, overrides, schema and help loop over such a list. The sections themselves belong to the folders that
// use them. Pure functions; any thread.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/config/needs.h"
#include "runtime/config/setting.h"

namespace troupe {

// A JSON object kept as compact text: its keys are not settings of this list.
struct ObjectText {
  std::string* text;
};

using FieldValue =
    std::variant<bool*, int64_t*, uint64_t*, double*, std::optional<double>*, std::string*, std::vector<int64_t>*,
                 std::chrono::milliseconds*, std::chrono::microseconds*, ObjectText>;

struct Field {
  std::string path;  // "algorithm.gamma"
  Setting setting;
  FieldValue value;         // points into the described config
  std::vector<Need> needs;  // what it needs to be read; none: every run reads it

  // "algorithm"; a setting at the top level has no section.
  std::string_view section() const;
  std::string_view key() const { return setting.key; }
};

// Every setting of a config file, in file order.
using Fields = std::vector<Field>;

// The limits of a setting.
constexpr Setting anything() { return {}; }
constexpr Setting between(double low, double high) { return {.low = low, .high = high}; }
constexpr Setting above(double low, double high) { return {.low = low, .high = high, .open_low = true}; }
constexpr Setting below(double low, double high) { return {.low = low, .high = high, .open_high = true}; }
constexpr Setting one_of(std::span<const std::string_view> choices) { return {.choices = choices}; }
constexpr Setting matching(std::string_view pattern, std::string_view words) {
  return {.pattern = pattern, .words = words};
}

// Adds the settings of one section to a list.
class Section {
 public:
  // `name` is empty at the top level. `owner` is the folder whose code reads the settings. `change` applies to settings
  // that do not give their own. `needs` are those of all of them, before their own.
  Section(Fields& fields, std::string_view name, std::string_view owner, Change change = Change::never,
          std::vector<Need> needs = {})
      : fields_(fields), name_(name), owner_(owner), change_(change), needs_(std::move(needs)) {}

  // Optional parts of a setting; see Setting.
  struct More {
    std::string_view unset = {};
    std::span<const std::string_view> elsewhere = {};
    std::optional<Change> change = {};  // default: that of the section
    std::vector<Need> needs = {};       // without them, every run reads the setting
  };

  // The kind of the setting follows from the member; `accepts` has its limits.
  template <class T>
  void add(T& member, std::string_view key, const Setting& accepts, std::string_view help) const {
    put(FieldValue(&member), key, accepts, help, {});
  }
  template <class T>
  void add(T& member, std::string_view key, const Setting& accepts, std::string_view help, const More& more) const {
    put(FieldValue(&member), key, accepts, help, more);
  }
  // For a member with the text of a JSON object.
  void add_object(std::string& member, std::string_view key, std::string_view help) const {
    put(ObjectText{&member}, key, anything(), help, {});
  }
  void add_object(std::string& member, std::string_view key, std::string_view help, const More& more) const {
    put(ObjectText{&member}, key, anything(), help, more);
  }

 private:
  void put(FieldValue value, std::string_view key, Setting setting, std::string_view help, const More& more) const;

  Fields& fields_;
  std::string_view name_, owner_;
  Change change_;
  std::vector<Need> needs_;
};

// The part of a path before its last dot; empty at the top level.
std::string_view section_of(std::string_view path);

// The field of that path, or nullptr.
const Field* find_field(const Fields& fields, std::string_view path);
// The largest value that the number at that path accepts.
double highest_of(const Fields& fields, std::string_view path);
// Whether a section has that name.
bool is_section(const Fields& fields, std::string_view name);
// "id, params, rows": the keys of a section; of the top level when `section` is empty.
std::string keys_of(const Fields& fields, std::string_view section);
// The error for a path that is not a field: "algorithm.gama: unknown key, did you mean algorithm.gamma?"
std::string unknown_key(const Fields& fields, const std::string& path);
// When the setting at a path, or the setting whose object contains the path, may change; never if there is none.
Change change_of(const Fields& fields, std::string_view path);

// The settings of a JSON object. Throws ConfigError that begins with `source`: for unknown keys, wrong types and values
// out of range.
void read_fields(const Fields& fields, const nlohmann::ordered_json& root, const std::string& source);
// Sets one field from "path=value"; the value is JSON, or a bare word for a text. Throws ConfigError.
void override_field(const Fields& fields, const std::string& assignment);

// Every field as JSON text, indented, in order.
std::string fields_json(const Fields& fields);
// JSON Schema (draft 2020-12) of a config file, whose defaults are the values of the fields.
nlohmann::ordered_json fields_schema(const Fields& fields);
// The fields for help and documentation; the defaults are their values.
std::vector<SettingInfo> infos_of(const Fields& fields);

}  // namespace troupe
