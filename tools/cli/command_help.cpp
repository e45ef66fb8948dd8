#include "tools/cli/command_help.h"

#include <sstream>

#include <CLI/App.hpp>

namespace troupe {
namespace {

constexpr size_t kIndent = 24;     // of the meanings of options
constexpr size_t kCodeIndent = 7;  // of the meanings of exit codes

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

std::string usage(const CLI::App& app) {
  std::string line = "troupe " + app.get_name();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_required()) {
      line += ' ' + name_of(*option);
    } else if (option->get_positional()) {
      line += " [" + name_of(*option) + ']';
    }
  }
  return line + " [OPTIONS]";
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

CommandTexts texts_of(const CLI::App& app) {
  CommandTexts texts{.usage = usage(app), .arguments = {}, .options = {}, .exactly_one_of = {}};
  for (const CLI::Option* option : app.get_options())
    if (option != app.get_help_ptr())
      (option->get_positional() ? texts.arguments : texts.options)
          .push_back({name_of(*option), option->get_description(), option->get_required()});
  return texts;
}

std::string help_text(const CLI::App& app, std::string_view examples, std::span<const ExitCode> exit_codes) {
  const auto entry = [](const OptionText& text) { return wrapped("  " + text.name, text.help, kIndent, kHelpColumns); };
  const CommandTexts texts = texts_of(app);
  std::string arguments, options, codes;
  for (const OptionText& argument : texts.arguments) arguments += entry(argument);
  for (const OptionText& option : texts.options) options += entry(option);
  options += entry({name_of(*app.get_help_ptr()), app.get_help_ptr()->get_description()});
  for (const ExitCode& exit : exit_codes)
    codes += wrapped("  " + std::to_string(exit.code), std::string(exit.when), kCodeIndent, kHelpColumns);
  return app.get_description() + "\n\nUsage: " + texts.usage + '\n' +
         (arguments.empty() ? "" : "\nArguments:\n" + arguments) + "\nOptions:\n" + options + "\nExamples:\n" +
         std::string(examples) + "\nExit codes:\n" + codes;
}

}  // namespace troupe
