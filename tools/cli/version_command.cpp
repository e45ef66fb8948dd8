// `troupe version`.

#include <iostream>

#include "tools/cli/command.h"
#include "tools/cli/version.h"

namespace troupe {
namespace {

struct VersionOptions {};

VersionOptions read_version(Flags& flags) {
  flags.read();
  return {};
}

void print_version(const VersionOptions&) { std::cout << "troupe " << troupe_version() << '\n'; }

}  // namespace

std::string troupe_version() { return TROUPE_VERSION " (" TROUPE_BUILD_TYPE ", " TROUPE_COMPILER ")"; }

Command version_command() {
  return {
      .name = "version",
      .summary = "print the version",
      .examples = "  troupe version\n",
      .exit_codes = {{0, "the version was printed"}, {1, "it could not be written"}, {2, "a mistake in the command"}},
      .parse = read_then_run<read_version, print_version>};
}

}  // namespace troupe
