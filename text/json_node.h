#pragma once
// JsonNode: a value inside a JSON file together with its place, for checks whose errors name both. Internal to text/.
// Refers to the tree that it was made from. Any thread.

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

// All errors are ConfigError "FILE: json.path[3]: ...".
class JsonNode {
 public:
  // `path` is the place inside the file; empty for its whole value.
  JsonNode(const nlohmann::ordered_json& json, std::string file, std::string path)
      : json_(&json), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::ordered_json& json() const { return *json_; }
  // "FILE: json.path"
  std::string path() const { return path_.empty() ? file_ : file_ + ": " + path_; }

  // Throws "FILE: json.path: " with this text.
  [[noreturn]] void refuse(const std::string& what) const;
  // Throws "... VALUE is not supported, expected EXPECTED".
  [[noreturn]] void refuse_value(const std::string& expected) const;
  // The same for the value at `key`, which may be absent.
  [[noreturn]] void refuse_key(const std::string& key, const std::string& expected) const;

  // Whether the object has the key, with a value other than null. Throws if this is not an object.
  bool has(const std::string& key) const;
  // The value at a key of the object, or at an index of the array. Throws if it is absent.
  JsonNode at(const std::string& key) const;
  JsonNode at(size_t index) const;

  // The value itself. Throw if it has another type.
  const nlohmann::ordered_json& object() const;
  const nlohmann::ordered_json& array() const;
  std::string text() const;
  // A whole number in [0, 2^31 - 1).
  int32_t id() const;
  // The value at `type`.
  std::string type() const { return at("type").text(); }
  // The boolean at a key; `absent` if there is none, or null.
  bool flag(const std::string& key, bool absent) const;

  // Throws if the object has a key that is not in the list.
  void require_keys(std::initializer_list<std::string_view> keys) const;
  // Throws unless the boolean at a key is `value` or absent.
  void require_flag(const std::string& key, bool value) const;
  // Throws unless this is an object of this type.
  void require_type(const std::string& type) const;

 private:
  const nlohmann::ordered_json* json_;
  std::string file_, path_;
};

}  // namespace troupe
