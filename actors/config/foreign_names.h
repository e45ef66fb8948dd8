#pragma once
// Names that users of other libraries try and that do not belong to one setting. (Those that do are in
// Setting::elsewhere.) Any thread.

#include <string>
#include <string_view>

#include "runtime/config/hints.h"

namespace troupe {

// Hints for errors about unknown keys.
Hints foreign_names();

// Advice for a user who gives a setting as an option or without --set: "settings are given with --set
// stop.env_steps=1e6" for "total-timesteps" and "1e6". `name` is the path of a setting, the last part of exactly one
// path, or a foreign name; dashes count as underscores. Empty for anything else.
std::string override_advice(std::string_view name, std::string_view value);

}  // namespace troupe
