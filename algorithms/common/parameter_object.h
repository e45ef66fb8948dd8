#pragma once
// Reads parameters (algorithms/common/parameters.h) from the JSON objects of a config file. Internal to algorithms/.

#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "algorithms/common/parameters.h"

namespace troupe {

// Sets the parameters of one entry from several places of a config file. Throws when two places contradict each other.
class ParameterObject {
 public:
  // `owner` is the name of the entry in error messages.
  ParameterObject(ParameterValues& values, std::string_view owner) : values_(values), owner_(owner) {}

  // Reads every key of an object, given as JSON or as its text. Throws ConfigError: "<path>.<key>:
  // unknown key, did you mean ...?"
  void read(const nlohmann::ordered_json& object, const std::string& path);
  void read(const std::string& text, const std::string& path);
  void set(const std::string& path, const std::string& key, const ParameterValue& value);

  struct Given {
    std::string where;  // the path in the config file
    ParameterValue value;
  };
  // The value that was read or set for this parameter under any of its names; nullptr if there is none.
  const Given* given(std::string_view key) const;

 private:
  const Setting& find(const std::string& path, const std::string& key) const;

  ParameterValues& values_;
  std::string owner_;
  std::map<std::string_view, Given> given_;
};

}  // namespace troupe
