#pragma once
// The version of this program; any thread.

#include <string>

namespace troupe {

// "0.1.0 (Release, GNU 12.2.0)".
std::string troupe_version();

}  // namespace troupe
