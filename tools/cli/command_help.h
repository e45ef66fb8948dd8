#pragma once
// The text that `troupe COMMAND --help` prints, its parts for docs/commands.md, and the wrapping of lines for a
// terminal. Pure functions; any thread.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe {

inline constexpr size_t kHelpColumns = 80;
inline constexpr size_t kListColumns = 100;  // of longer lists, like `troupe config --fields`

// `head` and, from column `indent` on, the words of `text`, in lines of at most `columns` where the words allow it.
std::string wrapped(const std::string& head, const std::string& text, size_t indent, size_t columns);

// "--set PATH=VALUE", "--json", "CONFIG", "-h, --help".
std::string name_of(const CLI::Option& option);

struct ExitCode {
  int code = 0;
  std::string_view when;
};

struct OptionText {
  std::string name;  // as name_of() gives it
  std::string help;
  bool required = false;
};

// What a command declares, as texts. Without --help, which every command has.
struct CommandTexts {
  std::string usage;  // "troupe eval RUN [OPTIONS]"
  std::vector<OptionText> arguments, options;
  std::vector<std::string> exactly_one_of;  // names; may be empty
};

// All but `exactly_one_of`.
CommandTexts texts_of(const CLI::App& app);

// Usage, arguments, options, examples and exit codes of one command, from the options that `app` declares. No line is
// wider than kHelpColumns, except an example.
std::string help_text(const CLI::App& app, std::string_view examples, std::span<const ExitCode> exit_codes);

}  // namespace troupe
