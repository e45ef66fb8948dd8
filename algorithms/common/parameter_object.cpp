#include "algorithms/common/parameter_object.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/config/setting_json.h"

namespace troupe {

namespace {

std::string shown(const ParameterValue& value) {
  struct {
    Json operator()(std::monostate) const { return nullptr; }
    Json operator()(bool plain) const { return plain; }
    Json operator()(int64_t plain) const { return plain; }
    Json operator()(uint64_t plain) const { return plain; }
    Json operator()(double plain) const { return plain; }
    Json operator()(const std::string& plain) const { return plain; }
  } as_json;
  return shown_json(std::visit(as_json, value));
}

}  // namespace

const Setting& ParameterObject::find(const std::string& path, const std::string& key) const {
  const auto found =
      std::ranges::find_if(values_.declared(), [&](const Setting& setting) { return is_called(setting, key); });
  if (found == values_.declared().end()) throw ConfigError(unknown_key(path, key, owner_, values_.declared()));
  return *found;
}

void ParameterObject::set(const std::string& path, const std::string& key, const ParameterValue& value) {
  const Setting& setting = find(path, key);
  const ParameterValue& kept = values_.set(path, key, value);
  const auto [it, fresh] = given_.try_emplace(setting.key, Given{path + '.' + key, kept});
  if (!fresh && it->second.value != kept)
    throw ConfigError(path + '.' + key + ": " + shown(kept) + " contradicts " + it->second.where + ' ' +
                      shown(it->second.value) + "; remove one of them");
}

const ParameterObject::Given* ParameterObject::given(std::string_view key) const {
  const auto found = given_.find(key);
  return found == given_.end() ? nullptr : &found->second;
}

void ParameterObject::read(const Json& object, const std::string& path) {
  if (!object.is_object()) throw ConfigError(path + ": " + kind_given(object) + ", expected an object");
  for (const auto& [key, value] : object.items()) set(path, key, read_value(find(path, key), value, path + '.' + key));
}

void ParameterObject::read(const std::string& text, const std::string& path) { read(parse_strict(text, path), path); }

}  // namespace troupe
