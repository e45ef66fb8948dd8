#pragma once
// Parameters (algorithms/common/parameters.h) as the JSON objects of a run file: reading, and their schema. Internal to algorithms/.

#include <map>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "algorithms/common/parameters.h"
#include "runtime/base/strict_json.h"

namespace troupe {

// Fills in the parameters of one thing from several places of a run file, and refuses two places that disagree.
class ParameterObject {
 public:
  // `owner` names the thing in errors; `also` are further keys that it has, for suggestions.
  ParameterObject(ParameterValues& values, std::string_view owner, std::span<const std::string_view> also = {})
      : values_(values), owner_(owner), also_(also) {}

  // Every key of an object, given as JSON or as its text. null leaves a parameter unset that has no default. Throws ConfigError:
  // "<path>.<key>: unknown key, did you mean ...?"
  void read(const Json& object, const std::string& path);
  void read(const std::string& text, const std::string& path);
  void set(const std::string& path, const std::string& key, ParameterValue value);

  struct Given {
    std::string where;  // the path in the run file
    ParameterValue value;
  };
  // What was read or set for the parameter of this key, under whichever of its names; nullptr when nothing was.
  const Given* given(std::string_view key) const;

 private:
  const Parameter& find(const std::string& path, const std::string& key) const;

  ParameterValues& values_;
  std::string owner_;
  std::span<const std::string_view> also_;
  std::map<std::string_view, Given> given_;
};

// The default as JSON text; null when there is none.
std::string default_text(const Parameter& parameter);
// JSON schema of an object with these parameters under all their names and nothing else.
Json object_schema(std::span<const Parameter> parameters);

}  // namespace troupe
