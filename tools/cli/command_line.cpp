#include "tools/cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <ostream>

#include <CLI/CLI.hpp>

#include "runtime/base/address.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/command_help.h"

namespace troupe {
namespace {

using Words = std::vector<std::string>;

// Types of values, as the help names them.
constexpr const char* kFolderType = "DIR";
constexpr const char* kFileType = "FILE";

// The subcommand's help was asked for.
struct HelpAsked {};

[[noreturn]] void refuse(std::string_view flag, const std::string& what) {
  throw ConfigError(std::string(flag) + ": " + what);
}

int64_t parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string wanted = ", expected an integer in [" + std::to_string(low) + ", " + std::to_string(high) + ']';
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error == std::errc::invalid_argument || !whole)
    refuse(flag, '"' + printable(text) + "\" is not an integer" + wanted);
  if (error != std::errc() || value < low || value > high) refuse(flag, printable(text) + " is out of range" + wanted);
  return value;
}

uint64_t parse_seed(std::string_view flag, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    refuse(flag, '"' + printable(text) + "\" is not a seed, expected an integer in [0, 18446744073709551615]");
  return value;
}

double parse_seconds(std::string_view flag, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 3600)
    refuse(flag, '"' + printable(text) + "\" is not right, expected a number of seconds in (0, 3600]");
  return value;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

Address parse_host_and_port(std::string_view flag, const std::string& text, int64_t lowest_port) {
  const std::string example = "expected HOST:PORT, like 127.0.0.1:5555";
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos)
    refuse(flag, '"' + printable(text) + (is_number(text) ? "\" has no host, " : "\" has no port, ") + example);
  std::string host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty()) refuse(flag, '"' + printable(text) + "\" has no host, " + example);
  if (!bracketed && host.find(':') != std::string::npos)
    refuse(flag, '"' + printable(text) + "\" has several colons, an IPv6 address needs brackets, like [::1]:5555");
  const size_t odd = host.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%");
  if (odd != std::string::npos || host.size() > 253)
    refuse(flag, '"' + printable(host) + "\" is not a host name, " + example);
  const int64_t port = parse_integer(std::string(flag) + " port", text.substr(colon + 1), lowest_port, 65535);
  return {host, static_cast<uint16_t>(port)};
}

// "--seed", ...: the options there are, for a suggestion.
std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// An error line of CLI11, which begins with the option's name, in our words.
std::string in_our_words(const std::string& line) {
  const std::string option = line.substr(0, line.find(':'));
  if (line.find("missing") != std::string::npos) return option + ": needs a value";
  if (line.find("received") != std::string::npos) return option + ": is given more than once";
  return printable(line, 200);
}

// Refuses a value that is an option in all likelihood: CLI11 takes whatever follows an option that needs a value. Numbers may be
// negative; what is wrong with those is said where they are read.
void check_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) continue;  // begins with a dash only behind "--", where it is meant
    for (const std::string& value : option->results()) {
      const bool like_option = value.size() > 1 && value[0] == '-' &&
                               std::string_view("0123456789.").find(value[1]) == std::string_view::npos;
      if (!like_option) continue;
      const std::string name = option->get_name(), type = option->get_type_name(), shown = printable(value);
      const bool is_path = type == kFolderType || type == kFileType;
      refuse(app.get_name(), name + ": needs a value, and \"" + shown + "\" looks like an option" +
                                 (is_path ? "; if it is meant, write " + name + " ./" + shown : ""));
    }
  }
}

// Fills what the app's options point to. Throws HelpAsked or ConfigError.
void parse(CLI::App& app, Words words) {
  const std::string see_help = "`troupe " + app.get_name() + " --help`";
  app.allow_extras();
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    throw HelpAsked{};
  } catch (const CLI::RequiredError& missing) {
    refuse(app.get_name(), std::string(missing.what()) + ", " + see_help + " shows examples");
  } catch (const CLI::ParseError& error) {
    refuse(app.get_name(), in_our_words(error.what()));
  }
  check_values(app);
  for (const std::string& extra : app.remaining()) {
    if (extra == "--") continue;  // what follows it is not an option; CLI11 has taken it so
    if (!extra.starts_with('-')) refuse(app.get_name(), '"' + printable(extra) + "\" is one argument too many");
    const std::string near = closest(extra.substr(0, extra.find('=')), names_of(app));
    refuse(app.get_name(), printable(extra) + ": unknown option, " +
                               (near.empty() ? see_help + " lists them" : "did you mean " + near + '?'));
  }
}

CLI::Option* add_text(CLI::App& app, const char* name, std::string& into, const char* type, const char* help) {
  return app.add_option(name, into, help)->type_name(type);
}

void add_overrides(CLI::App& app, std::vector<std::string>& into) {
  app.add_option("--set", into, "set one field of the config, like algorithm.gamma=0.98; repeatable")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
}

Options parse_train(CLI::App& app, const Words& words) {
  TrainOptions options;
  std::string seed, listen, stats;
  add_text(app, "CONFIG", options.config, "",
           "run file, or name of a built-in one, like cartpole; or the folder of a run or the config.json in it: "
           "resumes that run, unless --run names another")
      ->required();
  add_text(app, "--run", options.run_dir, kFolderType,
           "folder of the run; if it holds a run with these settings, that run is resumed (default: runs/NAME)");
  add_text(app, "--seed", seed, "N", "seed of the run (default: the config's)");
  add_overrides(app, options.overrides);
  add_text(
      app, "--listen", listen, "HOST:PORT",
      "where workers and inference processes join; a port alone is on 127.0.0.1 (default: 127.0.0.1, a free port)");
  add_text(app, "--stats", stats, "HOST:PORT",
           "where statistics are served as JSON; a port alone is on 127.0.0.1 (default: 127.0.0.1, a free port)");
  parse(app, words);
  if (app.count("--run") && options.run_dir.empty()) refuse("--run", "is empty, expected a folder");
  if (app.count("--seed")) options.seed = parse_seed("--seed", seed);
  if (app.count("--listen")) options.listen = parse_listen_address("--listen", listen);
  if (app.count("--stats")) options.stats = parse_listen_address("--stats", stats);
  if (options.listen.port != 0 && options.listen == options.stats)
    refuse("--stats", options.stats.text() + " is also --listen; they need two ports");
  return options;
}

void add_wait(CLI::App& app, std::string& into) {
  add_text(
      app, "--wait", into, "SECONDS",
      "how long to look for the run: when it is not there at the start, and anew each time it is lost (default: 30 at "
      "the start, 600 after a loss)");
}

std::optional<int64_t> parse_wait(const CLI::App& app, const std::string& text) {
  if (app.count("--wait") == 0) return {};
  return parse_integer("--wait", text, 0, 31'536'000);
}

Options parse_worker(CLI::App& app, const Words& words) {
  WorkerOptions options;
  std::string connect, wait, count = "1";
  add_text(app, "--connect", connect, "HOST:PORT", "address of the run, printed by `troupe train`")->required();
  add_wait(app, wait);
  add_text(app, "--count", count, "N", "rollout workers in this process (default: 1)");
  parse(app, words);
  options.connect = parse_address("--connect", connect);
  options.wait = parse_wait(app, wait);
  options.count = parse_integer("--count", count, 1, 1024);
  return options;
}

Options parse_inference(CLI::App& app, const Words& words) {
  std::string connect, wait;
  add_text(app, "--connect", connect, "HOST:PORT", "address of the run, printed by `troupe train`")->required();
  add_wait(app, wait);
  parse(app, words);
  return InferenceOptions{parse_address("--connect", connect), parse_wait(app, wait)};
}

Options parse_node(CLI::App& app, const Words& words) {
  std::string listen;
  add_text(app, "--listen", listen, "HOST:PORT", "where `troupe spawn` reaches this node; a port alone is on 127.0.0.1")
      ->required();
  parse(app, words);
  return NodeOptions{parse_listen_address("--listen", listen)};
}

Options parse_spawn(CLI::App& app, const Words& words) {
  SpawnOptions options;
  std::string node, workers, run;
  add_text(app, "--node", node, "HOST:PORT", "address of a `troupe node`")->required();
  add_text(app, "--workers", workers, "N", "workers to start there")->required();
  add_text(app, "--run", run, "HOST:PORT", "address of the run they join, as the node reaches it")->required();
  parse(app, words);
  options.node = parse_address("--node", node);
  options.workers = parse_integer("--workers", workers, 1, 1024);
  options.run = parse_address("--run", run);
  return options;
}

Options parse_eval(CLI::App& app, const Words& words) {
  EvalOptions options;
  std::string episodes, seed;
  add_text(app, "RUN", options.run_dir, "", "folder of the run")->required();
  add_text(app, "--episodes", episodes, "N", "episodes to play (default: the run's evaluation.episodes)");
  add_text(app, "--seed", seed, "N", "seed of the episodes (default: the run's)");
  app.add_flag("--json", options.json, "print one JSON object");
  parse(app, words);
  if (app.count("--episodes")) options.episodes = parse_integer("--episodes", episodes, 1, 1'000'000);
  if (app.count("--seed")) options.seed = parse_seed("--seed", seed);
  return options;
}

Options parse_play(CLI::App& app, const Words& words) {
  PlayOptions options;
  std::string episodes = "1";
  add_text(app, "RUN", options.run_dir, "", "folder of the run")->required();
  add_text(app, "--episodes", episodes, "N", "episodes to show (default: 1)");
  parse(app, words);
  options.episodes = parse_integer("--episodes", episodes, 1, 1'000'000);
  return options;
}

Options parse_envs(CLI::App& app, const Words& words) {
  EnvsOptions options;
  app.add_flag("--json", options.json, "print one JSON array");
  parse(app, words);
  return options;
}

Options parse_config_command(CLI::App& app, const Words& words) {
  ConfigOptions options;
  bool defaults = false, schema = false, fields = false;
  add_text(app, "CONFIG", options.config, "",
           "run file, name of a built-in one, or folder of a run: check it and print every field");
  add_overrides(app, options.overrides);
  app.add_flag("--defaults", defaults, "print every field with its default");
  app.add_flag("--schema", schema, "print the JSON schema of run files, for editors");
  app.add_flag("--fields", fields, "print every field with its type, range and meaning");
  parse(app, words);
  if (defaults + schema + fields + (app.count("CONFIG") > 0) != 1)
    refuse(app.get_name(), "expected exactly one of CONFIG, --defaults, --schema and --fields");
  if (app.count("--set") > 0 && app.count("CONFIG") == 0) refuse("--set", "needs a CONFIG to change");
  options.show = defaults ? ConfigOptions::Show::defaults
                 : schema ? ConfigOptions::Show::schema
                 : fields ? ConfigOptions::Show::fields
                          : ConfigOptions::Show::effective;
  return options;
}

Options parse_bench(CLI::App& app, const Words& words) {
  BenchOptions options;
  std::string seconds;
  const std::vector<std::string> names(std::begin(kBenchmarks), std::end(kBenchmarks));
  const std::string all = CLI::detail::join(names, ", ");
  const std::vector<std::string> drawable = {"gae", "vtrace", "surrogate", "logprob", "balance"};
  const std::string drawn = CLI::detail::join(drawable, ", ");
  add_text(app, "NAME", options.what, "", ("what to measure, one of: " + all).c_str())->required();
  app.add_flag("--json", options.json, "print one JSON object, whose keys name their units");
  add_text(app, "--seconds", seconds, "S", "seconds to measure for, roughly (default: 5)");
  add_text(app, "--plot", options.plot, kFileType, ("draw the result into this SVG file (only " + drawn + ")").c_str());
  parse(app, words);
  if (std::find(names.begin(), names.end(), options.what) == names.end()) {
    const std::string near = closest(options.what, names);
    refuse(app.get_name(), '"' + printable(options.what) + "\" is unknown, " +
                               (near.empty() ? "expected one of: " + all : "did you mean " + near + '?'));
  }
  if (app.count("--seconds")) options.seconds = parse_seconds("--seconds", seconds);
  if (app.count("--plot") && options.plot.empty()) refuse(app.get_name(), "--plot: the name of the file is empty");
  if (!options.plot.empty() && std::find(drawable.begin(), drawable.end(), options.what) == drawable.end())
    refuse(app.get_name(), "--plot: " + options.what + " cannot be drawn, only " + drawn);
  return options;
}

Options parse_simulate(CLI::App& app, const Words& words) {
  SimulateOptions options;
  std::string seeds, seed;
  add_text(app, "--seeds", seeds, "A..B", "every seed from A to B, both included");
  add_text(app, "--seed", seed, "N", "one seed");
  app.add_flag("--verbose", options.verbose, "print every event; meant for one seed");
  parse(app, words);
  if ((app.count("--seeds") > 0) + (app.count("--seed") > 0) != 1)
    refuse(app.get_name(), "expected exactly one of --seeds A..B and --seed N");
  if (app.count("--seed")) {
    options.first_seed = options.last_seed = parse_seed("--seed", seed);
    return options;
  }
  const size_t dots = seeds.find("..");
  if (dots == std::string::npos)
    refuse("--seeds", '"' + printable(seeds) + "\" is not a range, expected A..B, like 1..1000");
  options.first_seed = parse_seed("--seeds", seeds.substr(0, dots));
  options.last_seed = parse_seed("--seeds", seeds.substr(dots + 2));
  if (options.first_seed > options.last_seed)
    refuse("--seeds", printable(seeds) + " is empty, expected A..B with A <= B");
  return options;
}

Options parse_version(CLI::App& app, const Words& words) {
  parse(app, words);
  return VersionOptions{};
}

struct Command {
  const char* name;
  const char* summary;
  const char* examples;
  Options (*parse)(CLI::App& app, const Words& words);
};

constexpr Command kCommands[] = {
    {"train", "train a policy; run the same command again to resume",
     "  troupe train cartpole\n"
     "  troupe train my_run.json --run runs/first --seed 3 --set trainer.epochs=8\n"
     "  troupe train runs/first                      # resumes that run\n"
     "  troupe train runs/first --set stop.updates=2000\n"
     "  troupe train runs/first --run runs/second --seed 4    # a new run like it\n"
     "  troupe train cartpole --listen 0.0.0.0:5555    # lets other machines join\n",
     parse_train},
    {"worker", "add rollout workers to a run, at any time, from any machine",
     "  troupe worker --connect 127.0.0.1:5555\n"
     "  troupe worker --connect trainer.local:5555 --count 4\n"
     "  troupe worker --connect trainer.local:5555 --wait 86400  # waits for a day\n",
     parse_worker},
    {"inference", "add an inference process to a run, at any time, from any machine",
     "  troupe inference --connect 127.0.0.1:5555\n", parse_inference},
    {"node", "wait for requests to start workers on this machine",
     "  troupe node --listen 5556\n"
     "  troupe node --listen 0.0.0.0:5556\n",
     parse_node},
    {"spawn", "ask a node to start workers for a run",
     "  troupe spawn --node 10.0.0.7:5556 --workers 8 --run 10.0.0.2:5555\n", parse_spawn},
    {"eval", "evaluate the newest checkpoint of a run",
     "  troupe eval runs/cartpole\n"
     "  troupe eval runs/cartpole --episodes 1000 --seed 7 --json\n",
     parse_eval},
    {"play", "show a run's policy acting in its environment, as text", "  troupe play runs/cartpole --episodes 3\n",
     parse_play},
    {"envs", "list the environments and their parameters",
     "  troupe envs\n"
     "  troupe envs --json\n",
     parse_envs},
    {"config", "check a run file, or list every setting",
     "  troupe config my_run.json\n"
     "  troupe config cartpole --set trainer.super_batch=4096\n"
     "  troupe config --defaults\n"
     "  troupe config --fields\n"
     "  troupe config --schema > troupe.schema.json\n",
     parse_config_command},
    {"bench", "measure the speed of one part on this machine",
     "  troupe bench sampling\n"
     "  troupe bench inference --seconds 10 --json\n",
     parse_bench},
    {"simulate", "test the runtime: small runs under random schedules and faults",
     "  troupe simulate --seeds 1..1000\n"
     "  troupe simulate --seed 42 --verbose\n",
     parse_simulate},
    {"version", "print the version", "  troupe version\n", parse_version},
};

void print_overview(std::ostream& out) {
  out << "troupe: asynchronous reinforcement learning\n\nUsage: troupe COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : kCommands)
    out << "  " << command.name << std::string(12 - std::string_view(command.name).size(), ' ') << command.summary
        << '\n';
  out << "\nExamples:\n  troupe train cartpole\n  troupe COMMAND --help    # every option, with examples\n";
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) {
    if (name == command.name) return command;
    names.emplace_back(command.name);
  }
  const std::string near = closest(name, names);
  throw ConfigError('"' + printable(name) + "\" is not a command, " +
                    (near.empty() ? "`troupe --help` lists them" : "did you mean " + near + '?'));
}

}  // namespace

std::string Address::text() const { return address_text(host, port); }

Address parse_address(std::string_view flag, const std::string& text) { return parse_host_and_port(flag, text, 1); }

Address parse_listen_address(std::string_view flag, const std::string& text) {
  if (is_number(text)) return parse_host_and_port(flag, kLoopbackAnyPort.host + ':' + text, 0);
  if (text.find(':') == std::string::npos)
    refuse(flag, '"' + printable(text) + "\" is not right, expected HOST:PORT or a port, like 127.0.0.1:5555 or 5555");
  return parse_host_and_port(flag, text, 0);
}

std::optional<Options> parse_command_line(const std::vector<std::string>& arguments, std::ostream& out) {
  if (arguments.empty()) throw ConfigError("no command, `troupe --help` lists them");
  Words words = arguments;
  if (words.front() == "--version") words.front() = "version";
  const bool help = words.front() == "help" || words.front() == "--help" || words.front() == "-h";
  if (help && words.size() == 1) {
    print_overview(out);
    return {};
  }
  const Command& command = find_command(words[help ? 1 : 0]);
  CLI::App app(command.summary, command.name);
  app.set_help_flag("-h,--help", "print this help");
  words.erase(words.begin(), words.begin() + (help ? 2 : 1));
  if (help) words = {"--help"};
  try {
    return command.parse(app, words);
  } catch (const HelpAsked&) {
    out << help_text(app, command.examples);
    return {};
  }
}

}  // namespace troupe
