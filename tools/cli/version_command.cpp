#include <iostream>

#include "tools/cli/commands.h"

namespace troupe {

int run_version(const VersionOptions&) {
  std::cout << "troupe " TROUPE_VERSION " (" TROUPE_BUILD_TYPE ", " TROUPE_COMPILER ")\n";
  return 0;
}

}  // namespace troupe
