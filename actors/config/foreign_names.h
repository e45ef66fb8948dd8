#pragma once
// Names that users of other libraries look for, where no single setting has them in Setting::elsewhere. Any thread.

#include <string>
#include <string_view>

#include "runtime/config/hints.h"

namespace troupe {

// Hints for errors about unknown keys.
Hints foreign_names();

// What to write on the command line for a setting given as an option or without --set: "settings are given with --set
// stop.env_steps=1e6" for "total-timesteps" and "1e6". `name` is the path of a setting, the last part of exactly one
// path, or a foreign name; dashes count as underscores. Empty for anything else.
std::string override_advice(std::string_view name, std::string_view value);

}  // namespace troupe
