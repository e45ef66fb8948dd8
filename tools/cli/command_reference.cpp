#include "tools/cli/command_reference.h"

#include <sstream>
#include <string_view>

#include "tools/cli/markdown.h"

namespace troupe {
namespace {

constexpr std::string_view kIntroduction = R"(# Commands

Every command of `troupe`, with its arguments, options, examples and exit codes. Read this page to look one up. It is the output of
`troupe help --markdown`, and a test compares the two: after a change, generate it again.

- `troupe COMMAND --help` prints the section of one command. `troupe --help` lists all commands.
- The value of an option may follow a space or `=`: `--seed 3` or `--seed=3`.
- An error is one line on stderr that names what is wrong and what would be right.
- [processes.md](processes.md) explains how commands work together, and what `train`, `worker`, `inference` and `node` do at
  [signals](processes.md#signals). [config.md](config.md) lists the settings that `--set` changes.
)";

void add_overview(const std::vector<Command>& commands, std::string& page) {
  page += "\n| command | what it does |\n| --- | --- |\n";
  for (const Command& command : commands) {
    const std::string name(command.name);
    page += "| [" + name + "](#troupe-" + name + ") | " + cell(command.summary) + " |\n";
  }
}

// A help text without its end "(default: 1)", which has a column of its own.
struct OptionMeaning {
  std::string text, fallback;
};

OptionMeaning option_meaning(const OptionText& option) {
  constexpr std::string_view kBegin = " (default: ";
  const size_t begin = option.help.rfind(kBegin);
  if (option.required || begin == std::string::npos || !option.help.ends_with(')'))
    return {option.help, option.required ? "required" : ""};
  const size_t value = begin + kBegin.size();
  return {option.help.substr(0, begin), option.help.substr(value, option.help.size() - 1 - value)};
}

void add_options(const CommandTexts& texts, std::string& page) {
  if (texts.arguments.empty() && texts.options.empty()) return;
  page += "\n| argument or option | default | meaning |\n| --- | --- | --- |\n";
  for (const auto* list : {&texts.arguments, &texts.options})
    for (const OptionText& option : *list) {
      const OptionMeaning meaning = option_meaning(option);
      page += "| " + code(option.name) + " | " + cell(meaning.fallback) + " | " + cell(meaning.text) + " |\n";
    }
  if (texts.exactly_one_of.empty()) return;
  std::string names;
  for (const std::string& name : texts.exactly_one_of) names += (names.empty() ? "" : ", ") + code(name);
  page += "\nExactly one of these is required: " + names + ".\n";
}

void add_examples(std::string_view examples, std::string& page) {
  page += "\nExamples:\n\n```\n";
  std::istringstream lines{std::string(examples)};
  for (std::string line; std::getline(lines, line);) page += line.substr(2) + '\n';
  page += "```\n";
}

void add_exit_codes(const std::vector<ExitCode>& exit_codes, std::string& page) {
  page += "\n| exit code | when |\n| --- | --- |\n";
  for (const ExitCode& exit : exit_codes) page += "| " + std::to_string(exit.code) + " | " + cell(exit.when) + " |\n";
}

}  // namespace

CommandTexts texts_of(const Command& command) {
  Flags flags(command.name, command.summary, {"--help"});
  try {
    command.parse(flags);
  } catch (const Flags::HelpAsked&) {  // thrown after the command has declared all its flags
  }
  return flags.texts();
}

std::string command_reference(const std::vector<Command>& commands) {
  std::string page(kIntroduction);
  add_overview(commands, page);
  for (const Command& command : commands) {
    const CommandTexts texts = texts_of(command);
    page += "\n## troupe " + std::string(command.name) + "\n\n`" + texts.usage + "`: " + std::string(command.summary) +
            ".\n";
    add_options(texts, page);
    add_examples(command.examples, page);
    add_exit_codes(command.exit_codes, page);
  }
  return page;
}

}  // namespace troupe
