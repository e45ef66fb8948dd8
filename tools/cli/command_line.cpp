#include "tools/cli/command_line.h"

#include <ostream>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/command_reference.h"

namespace troupe {
namespace {

void print_commands(const std::vector<Command>& commands, bool for_maintainers, std::ostream& out) {
  constexpr size_t kNameColumns = 12;
  for (const Command& command : commands)
    if (command.for_maintainers == for_maintainers)
      out << "  " << command.name << std::string(kNameColumns - command.name.size(), ' ') << command.summary << '\n';
}

void print_overview(const std::vector<Command>& commands, std::ostream& out) {
  out << "troupe: asynchronous reinforcement learning\n\nUsage: troupe COMMAND [OPTIONS]\n\nCommands:\n";
  print_commands(commands, /*for_maintainers=*/false, out);
  out << "\nFor maintainers of troupe:\n";
  print_commands(commands, /*for_maintainers=*/true, out);
  out << "\nExamples:\n  troupe train cartpole\n  troupe COMMAND --help    # every option, with examples\n";
}

const Command& find_command(const std::vector<Command>& commands, const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string near = closest(name, names);
  throw ConfigError('"' + printable(name) + "\" is not a command, " +
                    (near.empty() ? "`troupe --help` lists them" : "did you mean " + near + '?'));
}

}  // namespace

std::optional<CommandLine> parse_command_line(const std::vector<Command>& commands, const Words& arguments,
                                              std::ostream& out) {
  if (arguments.empty()) throw ConfigError("no command, `troupe --help` lists them");
  Words words = arguments;
  if (words.front() == "--version") words.front() = "version";
  const bool help = words.front() == "help" || words.front() == "--help" || words.front() == "-h";
  if (help && words.size() == 1) {
    print_overview(commands, out);
    return {};
  }
  if (help && words == Words{words.front(), "--markdown"}) {
    out << command_reference(commands);
    return {};
  }
  const Command& command = find_command(commands, words[help ? 1 : 0]);
  words.erase(words.begin(), words.begin() + (help ? 2 : 1));
  if (help) words = {"--help"};
  Flags flags(command.name, command.summary, std::move(words));
  try {
    Action action = command.parse(flags);
    return CommandLine{command, std::move(action), flags.values()};
  } catch (const Flags::HelpAsked&) {
    out << flags.help(command.examples, command.exit_codes);
    return {};
  }
}

}  // namespace troupe
