#include "tools/cli/flags.h"

#include <algorithm>
#include <utility>

#include <CLI/CLI.hpp>

#include "actors/config/foreign_names.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/address.h"
#include "tools/cli/command_help.h"
#include "tools/cli/flag_values.h"

namespace troupe {
namespace {

// The names of all options, like "--seed", for a suggestion.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// The text that replaces an error line of CLI11, which begins with the option's name.
std::string in_our_words(const std::string& line) {
  const std::string option = line.substr(0, line.find(':'));
  if (line.find("missing") != std::string::npos) return option + ": needs a value";
  if (line.find("received") != std::string::npos) return option + ": is given more than once";
  return printable(line, 200);
}

// Refuses a value that is probably an option, since CLI11 accepts anything after an option that needs a value. Numbers
// may be negative; they are checked where they are read.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;  // begins with a dash only after "--", where this is intended
    for (const std::string& value : option->results()) {
      const bool like_option = value.size() > 1 && value[0] == '-' &&
                               std::string_view("0123456789.").find(value[1]) == std::string_view::npos;
      if (!like_option) continue;
      const std::string name = option->get_name(), type = option->get_type_name(), shown = printable(value);
      const bool is_path = type == kFolderType || type == kFileType;
      refuse_flag(app.get_name(), name + ": needs a value, and \"" + shown + "\" looks like an option" +
                                      (is_path ? "; if it is meant, write " + name + " ./" + shown : ""));
    }
  }
}

std::string see_help(const CLI::App& app) { return "`troupe " + app.get_name() + " --help`"; }

// Advice for an option, or a word without --set, that is the name of a setting; empty for anything else. If the option
// has no "=", its value may be the next word, which is not known here: the advice then says VALUE.
std::string setting_advice(const CLI::App& app, std::string_view word) {
  if (app.get_option_no_throw("--set") == nullptr) return "";
  const size_t begin = word.find_first_not_of('-'), equals = word.find('=');
  if (begin == word.npos || begin >= equals) return "";
  return override_advice(word.substr(begin, equals - begin), equals == word.npos ? "VALUE" : word.substr(equals + 1));
}

// Refuses an option that was not declared; `hints` names what to use instead.
void check_unknown_options(const CLI::App& app, const std::map<std::string, std::string>& hints) {
  for (const std::string& extra : app.remaining()) {
    if (extra == "--" || !extra.starts_with('-')) continue;
    const std::string name = extra.substr(0, extra.find('='));
    const auto hint = hints.find(name);
    const std::string near = closest(name, names_of(app)), setting = setting_advice(app, extra);
    refuse_flag(app.get_name(), printable(extra) + ": unknown option, " +
                                    (hint != hints.end() ? hint->second
                                     : !setting.empty()  ? setting
                                     : near.empty()      ? see_help(app) + " lists them"
                                                         : "did you mean " + near + '?'));
  }
}

// Throws HelpAsked or ConfigError.
void split_words(CLI::App& app, Words words, const std::map<std::string, std::string>& hints) {
  app.allow_extras();
  std::reverse(words.begin(), words.end());  // CLI11 reads them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    throw Flags::HelpAsked{};
  } catch (const CLI::RequiredError& missing) {
    check_unknown_options(app, hints);  // the required option may be misspelt
    refuse_flag(app.get_name(), std::string(missing.what()) + ", " + see_help(app) + " shows examples");
  } catch (const CLI::ParseError& error) {
    refuse_flag(app.get_name(), in_our_words(error.what()));
  }
}

// Refuses words that belong to no flag.
void check_extras(const CLI::App& app, const std::map<std::string, std::string>& hints) {
  check_unknown_options(app, hints);
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;  // CLI11 has treated what follows it as arguments
    const std::string setting = extra.find('=') == extra.npos ? "" : setting_advice(app, extra);
    refuse_flag(app.get_name(),
                '"' + printable(extra) + "\" is one argument too many" + (setting.empty() ? "" : "; " + setting));
  }
}

// "A", "A and B", "A, B and C".
std::string list_of(const Words& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

}  // namespace

Flags::Flags(std::string_view command, std::string_view summary, Words words)
    : app_(std::make_unique<CLI::App>(std::string(summary), std::string(command))), words_(std::move(words)) {
  app_->set_help_flag("-h,--help", "print this help");
}

Flags::~Flags() = default;

void Flags::add_text(const char* name, const char* type, bool required, const std::string& help,
                     std::function<void(const std::string&)> fill, std::function<Words()> value) {
  Flag& flag = flags_.emplace_back(Flag{nullptr, "", std::move(fill), std::move(value)});
  flag.option = app_->add_option(name, flag.text, help)->type_name(type)->required(required);
}

void Flags::arguments(const char* name, Words& into, const std::string& help) {
  add_arguments(name, into, help, /*required=*/false);
}

void Flags::required_arguments(const char* name, Words& into, const std::string& help) {
  add_arguments(name, into, help, /*required=*/true);
}

void Flags::add_arguments(const char* name, Words& into, const std::string& help, bool required) {
  flags_.push_back({app_->add_option(name, into, help)->required(required), "", {}, [&into] { return into; }});
}

void Flags::repeatable(const char* name, const char* type, Words& into, const std::string& help) {
  CLI::Option* option = app_->add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  flags_.push_back({option, "", {}, [&into] { return into; }});
}

void Flags::toggle(const char* name, bool& into, const std::string& help) {
  flags_.push_back({app_->add_flag(name, into, help), "", {}, [&into] { return texts_of(into); }});
}

void Flags::hint(const char* name, const std::string& instead) { hints_[name] = instead; }

void Flags::exactly_one_of(const std::vector<const char*>& names) {
  for (const char* name : names) exactly_one_of_.push_back(app_->get_option(name));
}

void Flags::read() {
  split_words(*app_, words_, hints_);
  check_values(*app_);
  check_extras(*app_, hints_);
  check_exactly_one();
  for (const Flag& flag : flags_)
    if (flag.fill && flag.option->count() > 0) flag.fill(flag.text);
  for (const Flag& flag : flags_) values_[flag.option->get_name()] = flag.value();
}

void Flags::check_exactly_one() const {
  if (exactly_one_of_.empty()) return;
  Words names;
  size_t given = 0;
  for (const CLI::Option* option : exactly_one_of_) {
    names.push_back(name_of(*option));
    given += option->count() > 0;
  }
  if (given != 1) refuse("expected exactly one of " + list_of(names));
}

bool Flags::given(const char* name) const { return app_->count(name) > 0; }

void Flags::refuse(const std::string& what) const { refuse_flag(app_->get_name(), what); }

std::string Flags::help(std::string_view examples, std::span<const ExitCode> exit_codes) const {
  return help_text(*app_, examples, exit_codes);
}

CommandTexts Flags::texts() const {
  CommandTexts texts = troupe::texts_of(*app_);  // not the member
  for (const CLI::Option* option : exactly_one_of_) texts.exactly_one_of.push_back(name_of(*option));
  return texts;
}

void add_overrides(Flags& flags, Words& into) {
  flags.repeatable("--set", "PATH=VALUE", into,
                   "change one setting of the config, like algorithm.gamma=0.98; repeatable");
}

void add_join_flags(Flags& flags, Address& connect, std::optional<int64_t>& wait) {
  constexpr int64_t kYear = 31'536'000;
  flags.required_option("--connect", "HOST:PORT", connect, parse_address,
                        "address of the run, printed by `troupe train`");
  flags.option("--wait", "SECONDS", wait, integer_in(0, kYear),
               "how long to look for the run at the start, and again each time it is lost "
               "(default: 30 until it is found, 600 after that)");
}

void add_device_flag(Flags& flags, std::string& into, const std::string& setting) {
  flags.option("--device", "DEVICE", into, parse_device,
               "where this process computes: cpu, cuda or cuda:N (default: the run's " + setting +
                   "; for auto the trainer's device, else the first GPU, else cpu; cpu if that device is missing)");
}

}  // namespace troupe
