#include "models/networks/strict_object.h"

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& what) { throw ConfigError(path + ": " + what); }

std::string shown(const Json& value) { return printable(value.dump(-1, ' ', false, Json::error_handler_t::replace)); }

// A whole number in [low, high]; 1e2 and 3.0 are whole.
int64_t read_integer(const Json& value, const std::string& path, int64_t low, int64_t high) {
  const std::string expected = ", expected an integer in [" + std::to_string(low) + ", " + std::to_string(high) + ']';
  if (!value.is_number()) refuse(path, shown(value) + " is not a number" + expected);
  const auto number = value.get<double>();
  if (number != std::trunc(number)) refuse(path, shown(value) + " is not whole" + expected);
  if (!(number >= static_cast<double>(low) && number <= static_cast<double>(high)))
    refuse(path, shown(value) + " is out of range" + expected);
  return static_cast<int64_t>(number);
}

const Json& require_array(const Json& value, const std::string& path) {
  if (!value.is_array()) refuse(path, shown(value) + " is not an array");
  if (value.size() > kMostItems)
    refuse(path, std::to_string(value.size()) + " items, expected at most " + std::to_string(kMostItems));
  return value;
}

std::string item(const std::string& path, size_t i) { return path + '[' + std::to_string(i) + ']'; }

}  // namespace

StrictObject::StrictObject(const Json& value, std::string path) : value_(&value), path_(std::move(path)) {
  if (!value.is_object()) refuse(path_, shown(value) + " is not an object");
}

std::string StrictObject::path_of(std::string_view key) const { return path_ + '.' + printable(key); }

const Json* StrictObject::find(std::string_view key) {
  if (std::ranges::find(asked_, key) == asked_.end()) asked_.emplace_back(key);
  const auto found = value_->find(std::string(key));
  return found == value_->end() ? nullptr : &*found;
}

bool StrictObject::has(std::string_view key) { return find(key) != nullptr; }

std::vector<std::string> StrictObject::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : value_->items()) result.push_back(key);
  return result;
}

int64_t StrictObject::integer(std::string_view key, std::optional<int64_t> fallback, int64_t low, int64_t high) {
  const Json* value = find(key);
  if (value != nullptr) return read_integer(*value, path_of(key), low, high);
  if (fallback) return *fallback;
  refuse(path_of(key),
         "is missing, expected an integer in [" + std::to_string(low) + ", " + std::to_string(high) + ']');
}

std::vector<int64_t> StrictObject::integers(std::string_view key, std::vector<int64_t> fallback, int64_t low,
                                            int64_t high) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  const std::string path = path_of(key);
  std::vector<int64_t> result;
  for (const Json& each : require_array(*value, path))
    result.push_back(read_integer(each, item(path, result.size()), low, high));
  return result;
}

std::string StrictObject::choice(std::string_view key, std::optional<std::string_view> fallback,
                                 std::span<const std::string_view> choices) {
  const Json* value = find(key);
  const std::string expected = "expected one of: " + listed(choices);
  if (value == nullptr && !fallback) refuse(path_of(key), "is missing, " + expected);
  if (value == nullptr) return std::string(*fallback);
  if (!value->is_string()) refuse(path_of(key), shown(*value) + " is not a string, " + expected);
  auto text = value->get<std::string>();
  if (std::ranges::find(choices, text) != choices.end()) return text;
  const std::string near = closest(text, {choices.begin(), choices.end()});
  refuse(path_of(key), shown(*value) + " is unknown, " + (near.empty() ? expected : "did you mean \"" + near + "\"?"));
}

StrictObject StrictObject::object(std::string_view key) {
  static const Json kEmpty = Json::object();
  const Json* value = find(key);
  return {value == nullptr ? kEmpty : *value, path_of(key)};
}

std::vector<StrictObject> StrictObject::objects(std::string_view key) {
  std::vector<StrictObject> result;
  const Json* value = find(key);
  if (value == nullptr) return result;
  const std::string path = path_of(key);
  for (const Json& each : require_array(*value, path)) result.emplace_back(each, item(path, result.size()));
  return result;
}

void StrictObject::finish() const {
  for (const std::string& key : keys()) {
    if (std::ranges::find(asked_, key) != asked_.end()) continue;
    const std::string near = closest(key, asked_);
    const std::vector<std::string_view> known(asked_.begin(), asked_.end());
    refuse(path_of(key),
           "unknown key, " + (near.empty() ? "known are: " + listed(known) : "did you mean " + near + '?'));
  }
}

std::string listed(std::span<const std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) text.append(text.empty() ? "" : ", ").append(word);
  return text;
}

}  // namespace troupe
