#pragma once
// Names that are no settings, but that users of other libraries write, and what does the same here. A name that stands
// for settings and is the key of none is in their Setting::elsewhere instead. Pure functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "runtime/config/fields.h"

namespace troupe {

struct Hint {
  // A path, like "env.name"; without a dot a key in any section; or a setting and a text that it does not accept, like
  // "model.kind=lstm".
  std::string_view name;
  std::string_view path = {};    // the setting that it means, or a key inside a setting that is an object
  std::string_view advice = {};  // if it means no setting: what to do instead
};
using Hints = std::span<const Hint>;

// What an exact name means: settings, advice, or neither.
struct Meaning {
  std::vector<std::string> paths;
  std::string advice;
};
Meaning meaning_of(const Fields& fields, Hints hints, std::string_view name);

// unknown_key(), read_fields() and override_field() of runtime/config/fields.h, whose errors use the hints.
std::string unknown_key(const Fields& fields, const std::string& path, Hints hints);
void read_fields(const Fields& fields, const nlohmann::ordered_json& root, const std::string& source, Hints hints);
void override_field(const Fields& fields, const std::string& assignment, Hints hints);

}  // namespace troupe
