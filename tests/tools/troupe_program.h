#pragma once
// The program troupe of this build, run with the words of a command line; for tests of its messages and exit codes.

#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"

namespace troupe::test {

using Words = std::vector<std::string>;

CommandResult run_troupe(Words words);

struct BadLine {
  Words words;
  std::string error;  // after "troupe: "
};

// Checks that each line ends with exit code 2, its error and nothing else.
void check_all(const std::vector<BadLine>& lines);

std::vector<std::string> lines_of(const std::string& text);

// A folder that exists during one test.
struct Folder {
  test::TempFolder temporary;
  std::filesystem::path path = temporary.path();
  // Writes the file and returns its path.
  std::string file(const std::string& name, const std::string& text) const;
};

}  // namespace troupe::test
