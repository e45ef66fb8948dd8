#include "tools/cli/command_help.h"

#include <sstream>
#include <vector>

#include <CLI/App.hpp>

namespace troupe {
namespace {

constexpr size_t kIndent = 24;  // of what an option means

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

std::string usage(const CLI::App& app) {
  std::string line = "Usage: troupe " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required()) {
      line += ' ' + name_of(*option);
    } else if (option->get_positional()) {
      line += " [" + name_of(*option) + ']';
    }
  }
  return line + " [OPTIONS]\n";
}

}  // namespace

std::string name_of(const CLI::Option& option) {
  if (option.get_positional()) return option.get_name(/*positional=*/true);
  std::string name;
  for (const std::string& letter : option.get_snames()) name += '-' + letter + ", ";
  name += "--" + option.get_lnames().front();
  return is_flag(option) ? name : name + ' ' + option.get_type_name();
}

std::string wrapped(const std::string& head, const std::string& text, size_t indent, size_t columns) {
  std::string result, line = head;
  if (!head.empty() && head.size() + 2 > indent) {
    result = head + '\n';
    line.clear();
  }
  line.resize(indent, ' ');
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const bool first = line.size() == indent;
    if (!first && line.size() + 1 + word.size() > columns) {
      result += line + '\n';
      line.assign(indent, ' ');
      line += word;
    } else {
      line += (first ? "" : " ") + word;
    }
  }
  return result + line + '\n';
}

std::string help_text(const CLI::App& app, const std::string& examples) {
  std::string arguments, options, help;
  for (const CLI::Option* option : app.get_options()) {
    std::string& section = option == app.get_help_ptr() ? help : option->get_positional() ? arguments : options;
    section += wrapped("  " + name_of(*option), option->get_description(), kIndent, kHelpColumns);
  }
  return app.get_description() + "\n\n" + usage(app) + (arguments.empty() ? "" : "\nArguments:\n" + arguments) +
         "\nOptions:\n" + options + help + "\nExamples:\n" + examples;
}

}  // namespace troupe
