// `troupe version`.

#include <iostream>

#include "tools/cli/command.h"

namespace troupe {
namespace {

struct Options {};

Options read_flags(Flags& flags) {
  flags.read();
  return {};
}

void print_version(const Options&) {
  std::cout << "troupe " TROUPE_VERSION " (" TROUPE_BUILD_TYPE ", " TROUPE_COMPILER ")\n";
}

}  // namespace

Command version_command() {
  return {
      .name = "version",
      .summary = "print the version",
      .examples = "  troupe version\n",
      .exit_codes = {{0, "the version was printed"}, {1, "it could not be written"}, {2, "a mistake in the command"}},
      .parse = read_then_run<read_flags, print_version>};
}

}  // namespace troupe
