#pragma once
// StrictObject: a JSON object of a config file, read key by key. Every key that it may have is asked for; finish() then
// refuses the keys that nobody asked for. Errors begin with the path of the value: "model.net.core.size: 0 is out of
// range, expected ...". Used by one thread at a time.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "models/networks/object_setting.h"

namespace troupe {

class StrictObject {
 public:
  // Throws ConfigError when `value` is not an object. `value` must outlive this.
  StrictObject(const nlohmann::ordered_json& value, std::string path);

  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const;

  bool has(std::string_view key);
  bool has(const ObjectSetting& key) { return has(key.setting.key); }
  std::vector<std::string> keys() const;
  // The value, or the key's default when it is missing. A value of another type and one that is not allowed throw
  // ConfigError, by the rules of settings (runtime/config/setting.h). A missing key that may not be missing reads as
  // its lower limit, and finish() throws.
  int64_t integer(const ObjectSetting& key);
  std::vector<int64_t> integers(const ObjectSetting& key);
  std::string choice(const ObjectSetting& key);
  // An object inside this one; empty when the key is missing. `like` is an example for the error about another type.
  StrictObject object(std::string_view key, const std::string& like = "");
  StrictObject object(const ObjectSetting& key, const std::string& like = "") { return object(key.setting.key, like); }
  // The objects of an array; none when the key is missing.
  std::vector<StrictObject> objects(const ObjectSetting& key);

  // The keys that were given and not asked for.
  std::vector<std::string> unknown_keys() const;
  // The keys that were asked for, in the order of the first time.
  const std::vector<std::string>& asked() const { return asked_; }
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
