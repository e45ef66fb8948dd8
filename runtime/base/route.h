#pragma once
// How this machine and another one reach each other.

#include <string>

namespace troupe {

struct Route {
  std::string local;   // this machine's address towards the other, numeric
  std::string remote;  // the other's, numeric
};

// Looks the name up and asks the operating system; sends nothing. Throws ConfigError.
Route route_to(const std::string& host);

}  // namespace troupe
