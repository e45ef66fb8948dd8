#pragma once
// The flags of one command. The command declares each of them with the variable that it fills, then calls read(). CLI11
// parses; its error messages are replaced by ours. One thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe {

struct Address;
struct CommandTexts;
struct ExitCode;

using Words = std::vector<std::string>;

// Types of values that are paths, as shown in the help.
inline constexpr const char* kFolderType = "DIR";
inline constexpr const char* kFileType = "FILE";

class Flags {
 public:
  // The help of the command was asked for.
  struct HelpAsked {};

  // `words` are the words after the command's name.
  Flags(std::string_view command, std::string_view summary, Words words);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // Declares a positional argument, like CONFIG. `reader` makes its value: reader(name, text), from
  // tools/cli/flag_values.h, tools/cli/address.h or the command; it throws ConfigError.
  template <class T, class Reader>
  void argument(const char* name, T& into, Reader reader, const std::string& help) {
    add(name, "", /*required=*/true, help, into, reader);
  }
  template <class T, class Reader>
  void optional_argument(const char* name, T& into, Reader reader, const std::string& help) {
    add(name, "", /*required=*/false, help, into, reader);
  }
  // Declares positional arguments that may be given any number of times, like "RUN..."; they come last.
  void arguments(const char* name, Words& into, const std::string& help);
  void required_arguments(const char* name, Words& into, const std::string& help);
  // Declares an option with a value, whose type the help shows. If the option is not given, `into` keeps its value.
  template <class T, class Reader>
  void option(const char* name, const char* type, T& into, Reader reader, const std::string& help) {
    add(name, type, /*required=*/false, help, into, reader);
  }
  template <class T, class Reader>
  void required_option(const char* name, const char* type, T& into, Reader reader, const std::string& help) {
    add(name, type, /*required=*/true, help, into, reader);
  }
  // Declares an option that may be given more than once.
  void repeatable(const char* name, const char* type, Words& into, const std::string& help);
  // Declares an option without a value.
  void toggle(const char* name, bool& into, const std::string& help);
  // For an option that does not exist: what to use instead, which is added to the error about it.
  void hint(const char* name, const std::string& instead);
  // Exactly one of these flags, declared before, must be given.
  void exactly_one_of(const std::vector<const char*>& names);

  // Fills the variables, in the order in which they were declared. Throws HelpAsked or ConfigError.
  void read();

  // After read():
  bool given(const char* name) const;
  // Throws ConfigError: "command: what".
  [[noreturn]] void refuse(const std::string& what) const;
  // Flag -> its value as text, the default if it was not given; nothing for an optional without a value.
  const std::map<std::string, Words>& values() const { return values_; }

  // The text of `troupe COMMAND --help`.
  std::string help(std::string_view examples, std::span<const ExitCode> exit_codes) const;
  // What was declared.
  CommandTexts texts() const;

 private:
  struct Flag {
    CLI::Option* option = nullptr;
    std::string text;
    std::function<void(const std::string& text)> fill;  // fills the variable; empty if CLI11 does
    std::function<Words()> value;                       // the value of the variable, as texts
  };

  template <class T, class Reader>
  void add(const char* name, const char* type, bool required, const std::string& help, T& into, Reader reader) {
    add_text(
        name, type, required, help, [&into, reader, name](const std::string& text) { into = reader(name, text); },
        [&into] { return texts_of(into); });
  }
  void add_text(const char* name, const char* type, bool required, const std::string& help,
                std::function<void(const std::string&)> fill, std::function<Words()> value);

  template <class T>
  static Words texts_of(const T& value) {
    if constexpr (requires { value.has_value(); }) {
      return value.has_value() ? texts_of(*value) : Words{};
    } else if constexpr (requires { value.text(); }) {
      return {value.text()};
    } else {
      std::ostringstream out;
      out << std::boolalpha << value;
      return {out.str()};
    }
  }

  void add_arguments(const char* name, Words& into, const std::string& help, bool required);
  void check_exactly_one() const;

  std::unique_ptr<CLI::App> app_;
  Words words_;
  std::deque<Flag> flags_;  // CLI11 points to their texts
  std::vector<const CLI::Option*> exactly_one_of_;
  std::map<std::string, std::string> hints_;
  std::map<std::string, Words> values_;
};

// Flags that several commands have: --set, --connect with --wait (seconds; see JoinPatience in actors/joining.h), and
// --device in place of a setting of the run.
void add_overrides(Flags& flags, Words& into);
void add_join_flags(Flags& flags, Address& connect, std::optional<int64_t>& wait);
void add_device_flag(Flags& flags, std::string& into, const std::string& setting);

}  // namespace troupe
