#include "tests/tools/troupe_program.h"

#include <fstream>
#include <sstream>

#include "tests/support/test.h"

namespace troupe::test {

CommandResult run_troupe(Words words) {
  words.insert(words.begin(), built_program("troupe"));
  return run_command(words);
}

void check_all(const std::vector<BadLine>& lines) {
  for (const BadLine& line : lines) {
    CAPTURE(line.words);
    const CommandResult result = run_troupe(line.words);
    CHECK(result.exit_code == 2);
    CHECK(result.err == "troupe: " + line.error + '\n');
    CHECK(result.out == "");
  }
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string Folder::file(const std::string& name, const std::string& text) const {
  std::ofstream(path / name) << text;
  return (path / name).string();
}

}  // namespace troupe::test
