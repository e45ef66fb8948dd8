// docs/commands.md is current, and has every command with its options.
#include "tools/cli/command_reference.h"

#include <set>
#include <sstream>
#include <string>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tests/tools/generated_page.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"

using namespace troupe;

namespace {

// As a shell reads them; single quotes keep spaces.
Words words_of(const std::string& line) {
  Words words;
  bool quoted = false, in_word = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (c != '\'') words.back() += c;
  }
  return words;
}

}  // namespace

TEST_CASE("command reference: docs/commands.md is current") {
  test::check_page("docs/commands.md", command_reference(all_commands()), "help --markdown");
}

TEST_CASE("command reference: it has a section for every command and a row for every option") {
  const std::string page = command_reference(all_commands());
  for (const Command& command : all_commands()) {
    const std::string heading = "\n## troupe " + std::string(command.name) + '\n';
    const size_t begin = page.find(heading);
    REQUIRE_MESSAGE(begin != std::string::npos, command.name);
    const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    const CommandTexts texts = texts_of(command);
    for (const auto* list : {&texts.arguments, &texts.options})
      for (const OptionText& option : *list) {
        const std::string name = option.name.substr(0, option.name.find('|'));  // an escaped one in the table
        CHECK_MESSAGE(section.find("\n| `" + name) != std::string::npos, command.name << ' ' << option.name);
      }
  }
}

TEST_CASE(
    "command reference: every command lists its exit codes in ascending order, with 2 for a mistake in the command") {
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    int before = -1;
    std::set<int> codes;
    for (const ExitCode& exit : command.exit_codes) {
      CHECK(exit.code > before);
      CHECK(!exit.when.empty());
      before = exit.code;
      codes.insert(exit.code);
    }
    CHECK(codes.contains(2));
    for (const int code : codes) CHECK((code <= 2 || code == 130));
  }
}

TEST_CASE("command reference: each command accepts its examples") {
  for (const Command& command : all_commands()) {
    std::istringstream lines{std::string(command.examples)};
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      line.resize(std::min(line.find(" #"), line.size()));  // a comment
      line.resize(std::min(line.find(" >"), line.size()));  // a redirection
      Words arguments = words_of(line);
      REQUIRE(arguments.size() >= 2);
      CHECK(arguments.front() == "troupe");
      CHECK(arguments[1] == command.name);
      arguments.erase(arguments.begin(), arguments.begin() + 2);
      Flags flags(command.name, command.summary, arguments);
      CHECK_NOTHROW(command.parse(flags));  // reads the flags; the action is not called
    }
  }
}
