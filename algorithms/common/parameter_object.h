#pragma once
// Parameters (algorithms/common/parameters.h) as the JSON objects of a run file. Internal to algorithms/.

#include <map>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "algorithms/common/parameters.h"

namespace troupe {

// Fills in the parameters of one thing from several places of a run file, and refuses two places that disagree.
class ParameterObject {
 public:
  // `owner` names the thing in errors.
  ParameterObject(ParameterValues& values, std::string_view owner) : values_(values), owner_(owner) {}

  // Every key of an object, given as JSON or as its text. Throws ConfigError: "<path>.<key>: unknown key, did you mean
  // ...?"
  void read(const nlohmann::ordered_json& object, const std::string& path);
  void read(const std::string& text, const std::string& path);
  void set(const std::string& path, const std::string& key, const ParameterValue& value);

  struct Given {
    std::string where;  // the path in the run file
    ParameterValue value;
  };
  // What was read or set for the parameter of this key, under whichever of its names; nullptr when nothing was.
  const Given* given(std::string_view key) const;

 private:
  const Setting& find(const std::string& path, const std::string& key) const;

  ParameterValues& values_;
  std::string owner_;
  std::map<std::string_view, Given> given_;
};

}  // namespace troupe
