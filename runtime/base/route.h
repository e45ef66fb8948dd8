#pragma once
// The addresses through which this machine and another one reach each other.

#include <string>

namespace troupe {

struct Route {
  std::string local;   // this machine's address towards the other, numeric
  std::string remote;  // the other's, numeric
};

// Resolves the name and asks the operating system for the route; sends nothing to the other machine. Throws
// ConfigError.
Route route_to(const std::string& host);

}  // namespace troupe
