#pragma once
// The text that `troupe COMMAND --help` prints, and the wrapping of lines for a terminal. Pure functions; any thread.

#include <string>

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

// Usage, arguments, options and examples of one command, from the options that `app` declares. No line is wider than
// kHelpColumns, except an example.
std::string help_text(const CLI::App& app, const std::string& examples);

}  // namespace troupe
