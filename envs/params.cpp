#include "envs/params.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

std::string show(double value) { return Json(value).dump(); }

}  // namespace

EnvParams::EnvParams(const std::string& json, const std::string& evaluation) {
  take(json, "env.params");
  take(evaluation, "evaluation.env_params");
}

void EnvParams::take(const std::string& json, const std::string& path) {
  const Json object = parse_strict(json, path);
  if (!object.is_object())
    throw ConfigError(path + ": " + printable(object.dump()) + " is not an object, expected {\"key\": value}");
  for (const auto& [key, value] : object.items()) {
    Given given{false, printable(value.dump()), path + '.' + printable(key)};
    const bool beyond_int64 =
        value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()};
    if (value.is_boolean())
      given.value = value.get<bool>();
    else if (value.is_number_integer() && !beyond_int64)
      given.value = value.get<int64_t>();
    else if (value.is_number())
      given.value = value.get<double>();
    else if (value.is_string())
      given.value = value.get<std::string>();
    else
      refuse(given, "a number, true, false or a string");
    given_.insert_or_assign(key, std::move(given));
  }
}

const EnvParams::Given* EnvParams::ask(const std::string& key) {
  asked_.push_back(key);
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void EnvParams::refuse(const Given& given, const std::string& wanted) {
  throw ConfigError(given.path + ": " + given.json + " is not right, expected " + wanted);
}

void EnvParams::note(const std::string& key, const std::string& value) {
  text_ += (text_.empty() ? "" : " ") + key + "=" + value;
}

int64_t EnvParams::integer(const std::string& key, int64_t fallback, int64_t low, int64_t high) {
  int64_t result = fallback;
  if (const Given* given = ask(key)) {
    const int64_t* value = std::get_if<int64_t>(&given->value);
    if (value == nullptr || *value < low || *value > high)
      refuse(*given, "an integer in [" + std::to_string(low) + ", " + std::to_string(high) + "]");
    result = *value;
  }
  note(key, std::to_string(result));
  return result;
}

double EnvParams::number(const std::string& key, double fallback, double low, double high) {
  double result = fallback;
  if (const Given* given = ask(key)) {
    const int64_t* whole = std::get_if<int64_t>(&given->value);
    const double* real = std::get_if<double>(&given->value);
    result = whole != nullptr  ? static_cast<double>(*whole)
             : real != nullptr ? *real
                               : std::numeric_limits<double>::quiet_NaN();
    if (!(result >= low && result <= high)) refuse(*given, "a number in [" + show(low) + ", " + show(high) + "]");
  }
  note(key, show(result));
  return result;
}

bool EnvParams::boolean(const std::string& key, bool fallback) {
  bool result = fallback;
  if (const Given* given = ask(key)) {
    const bool* value = std::get_if<bool>(&given->value);
    if (value == nullptr) refuse(*given, "true or false");
    result = *value;
  }
  note(key, result ? "true" : "false");
  return result;
}

std::string EnvParams::choice(const std::string& key, const std::string& fallback,
                              std::initializer_list<std::string_view> choices) {
  std::string result = fallback;
  if (const Given* given = ask(key)) {
    const std::string* value = std::get_if<std::string>(&given->value);
    if (value == nullptr || std::find(choices.begin(), choices.end(), *value) == choices.end()) {
      std::string wanted = "one of:";
      for (std::string_view choice : choices) wanted += (choice == *choices.begin() ? " " : ", ") + std::string(choice);
      refuse(*given, wanted);
    }
    result = *value;
  }
  note(key, result);
  return result;
}

void EnvParams::finish() const {
  for (const auto& [key, given] : given_) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    const std::string near = closest(key, asked_);
    std::string known = asked_.empty() ? "this environment has no parameters" : "known are:";
    for (const std::string& name : asked_) known += (name == asked_.front() ? " " : ", ") + name;
    const std::string section = given.path.substr(0, given.path.size() - printable(key).size());
    throw ConfigError(given.path + ": unknown key, " + (near.empty() ? known : "did you mean " + section + near + "?"));
  }
}

}  // namespace troupe
