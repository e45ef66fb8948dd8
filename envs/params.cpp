#include "envs/params.h"

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

using Kind = Setting::Kind;

Json as_json(const SettingValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<int64_t>(&value)) return *whole;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  return std::get<std::string>(value);
}

// "8", "0.0", "true", "uniform": the form in saved states of environments.
std::string plain_text(const SettingValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text == nullptr ? as_json(value).dump() : *text;
}

}  // namespace

EnvParams::EnvParams(const std::string& json, const std::string& evaluation) {
  take(json, "env.params");
  take(evaluation, "evaluation.env_params");
}

void EnvParams::take(const std::string& json, const std::string& path) {
  const Json object = parse_strict(json, path);
  if (!object.is_object())
    throw ConfigError(path + ": " + shown_json(object) + " is not an object, expected {\"key\": value}");
  for (const auto& [key, value] : object.items()) given_.insert_or_assign(key, Given{value.dump(), path});
}

SettingValue EnvParams::ask(const Setting& setting, const SettingValue& fallback) {
  const std::string key(setting.key);
  const auto given = given_.find(key);
  SettingValue value = fallback;
  if (given != given_.end())
    value = read_value(setting, Json::parse(given->second.json), given->second.path + '.' + printable(key));
  text_ += (text_.empty() ? "" : " ") + key + "=" + plain_text(value);
  asked_.push_back(info_of(setting, key, as_json(fallback).dump()));
  asked_.back().owner = "envs";
  return value;
}

int64_t EnvParams::integer(const std::string& key, int64_t fallback, int64_t low, int64_t high, std::string_view help) {
  const Setting setting = {.key = key,
                           .kind = Kind::integer,
                           .low = static_cast<double>(low),
                           .high = static_cast<double>(high),
                           .help = help};
  return std::get<int64_t>(ask(setting, fallback));
}

double EnvParams::number(const std::string& key, double fallback, double low, double high, std::string_view help) {
  const Setting setting = {.key = key, .kind = Kind::number, .low = low, .high = high, .help = help};
  return std::get<double>(ask(setting, fallback));
}

bool EnvParams::boolean(const std::string& key, bool fallback, std::string_view help) {
  return std::get<bool>(ask({.key = key, .kind = Kind::boolean, .help = help}, fallback));
}

std::string EnvParams::choice(const std::string& key, const std::string& fallback,
                              std::initializer_list<std::string_view> choices, std::string_view help) {
  const Setting setting = {.key = key, .kind = Kind::text, .choices = {choices.begin(), choices.end()}, .help = help};
  return std::get<std::string>(ask(setting, fallback));
}

void EnvParams::finish() const {
  std::vector<std::string> known;
  for (const SettingInfo& info : asked_) known.push_back(info.path);
  for (const auto& [key, given] : given_)
    if (std::ranges::find(known, key) == known.end())
      throw ConfigError(unknown_key(given.path, key, "this environment", known));
}

}  // namespace troupe
