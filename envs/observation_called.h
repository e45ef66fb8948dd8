#pragma once
// What messages call an observation. Any thread.

#include <string>

namespace troupe {

// "observation camera"; "the observation" for the only one of an environment without names, which is "observation".
inline std::string observation_called(const std::string& name) {
  return name == "observation" ? "the observation" : "observation " + name;
}

}  // namespace troupe
