#pragma once
// ObjectSetting: a key of an object inside a config file, such as those of model.net, described as data. One table of
// them serves the reader (StrictObject) and the JSON schema. Plain values; any thread.

#include <cstdint>
#include <span>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "runtime/config/setting.h"

namespace troupe {

struct ObjectSetting {
  enum class Missing : uint8_t {
    fallback,  // the key has the value `fallback`
    refused,
    asked_for,  // the reader asks has(): what a missing key means is no value of it
  };

  Setting setting;
  Missing missing = Missing::asked_for;
  std::string_view fallback = {};  // as JSON
  // The keys of an object, or of each object of an array; nullptr for plain values.
  std::span<const ObjectSetting> (*members)() = nullptr;
  bool is_array = false;  // of objects
};

constexpr ObjectSetting defaulted_key(std::string_view fallback, Setting setting) {
  return {.setting = setting, .missing = ObjectSetting::Missing::fallback, .fallback = fallback};
}
constexpr ObjectSetting required_key(Setting setting) {
  return {.setting = setting, .missing = ObjectSetting::Missing::refused};
}
constexpr ObjectSetting optional_key(Setting setting) { return {.setting = setting}; }

constexpr Setting integer_key(std::string_view key, int64_t low, int64_t high, std::string_view help) {
  return {.key = key,
          .kind = Setting::Kind::integer,
          .low = static_cast<double>(low),
          .high = static_cast<double>(high),
          .help = help};
}
constexpr Setting integers_key(std::string_view key, int64_t low, int64_t high, std::string_view help) {
  Setting result = integer_key(key, low, high, help);
  result.kind = Setting::Kind::integers;
  return result;
}
constexpr Setting choice_key(std::string_view key, std::span<const std::string_view> choices, std::string_view help) {
  return {.key = key, .kind = Setting::Kind::text, .choices = choices, .help = help};
}
constexpr Setting object_key(std::string_view key, std::string_view help) {
  return {.key = key, .kind = Setting::Kind::object, .help = help};
}

// JSON schema of the values of one key.
nlohmann::ordered_json schema_of(const ObjectSetting& key);
// JSON schema of an object with these keys and no others.
nlohmann::ordered_json schema_of(std::string_view description, std::span<const ObjectSetting> keys);

}  // namespace troupe
