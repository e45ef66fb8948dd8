#pragma once
// docs/config.md. Pure; any thread.

#include <string>

namespace troupe {

// A page in Markdown about every setting of config files and every parameter of algorithms and environments.
std::string config_reference();

}  // namespace troupe
