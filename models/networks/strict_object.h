#pragma once
// StrictObject: a JSON object of a run file, read key by key. Every key it may have is asked for once; finish() then
// refuses the keys that nobody asked for. Errors begin with the path of the value: "model.net.core.size: 0 is out of
// range, expected ...". Used by one thread at a time.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace troupe {

class StrictObject {
 public:
  // Throws ConfigError when `value` is not an object. `value` must outlive this.
  StrictObject(const nlohmann::ordered_json& value, std::string path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;

  bool has(std::string_view key);
  std::vector<std::string> keys() const;
  // The value, or `fallback` when the key is missing. A value of another type and one that is not allowed throw
  // ConfigError, by the rules of settings (runtime/config/setting.h). A missing key without a fallback reads as `low`,
  // and finish() throws.
  int64_t integer(std::string_view key, std::optional<int64_t> fallback, int64_t low, int64_t high);
  std::vector<int64_t> integers(std::string_view key, std::vector<int64_t> fallback, int64_t low, int64_t high);
  std::string choice(std::string_view key, std::string_view fallback, std::span<const std::string_view> choices);
  // An object inside this one; empty when the key is missing.
  StrictObject object(std::string_view key);
  // The objects of an array; none when the key is missing.
  std::vector<StrictObject> objects(std::string_view key);

  // Throws ConfigError naming a key that was given and not asked for, with the nearest one that was, or else a key that
  // is missing: a missing key may be misspelt.
  void finish() const;

 private:
  const nlohmann::ordered_json* find(std::string_view key);

  const nlohmann::ordered_json* value_;
  std::string path_;
  std::vector<std::string> asked_;
  std::string missing_;  // the error for the first missing key, or empty
};

}  // namespace troupe
