// `troupe config`: checks a config file, or lists the settings.

#include <iostream>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "actors/experience/answers/reward_model_check.h"
#include "algorithms/choice/algorithm_choice.h"
#include "tools/cli/command.h"
#include "tools/cli/command_help.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/config_reference.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"
#include "tools/cli/machine_check.h"

namespace troupe {
namespace {

struct ConfigOptions {
  std::string config;
  std::vector<std::string> overrides;
  bool defaults = false, schema = false, fields = false, markdown = false;  // what to print instead of a config
  bool memory = false;                                                      // instead of its settings
};

ConfigOptions read_config(Flags& flags) {
  ConfigOptions options;
  flags.optional_argument("CONFIG", options.config, any_text,
                          "config file, name of a built-in one, or folder of a run: check it and print every setting");
  add_overrides(flags, options.overrides);
  flags.toggle("--memory", options.memory,
               "with CONFIG: print what the memory of the run is for instead, as estimated");
  flags.toggle("--defaults", options.defaults, "print every setting with its default");
  flags.toggle("--schema", options.schema, "print the JSON schema of config files, for editors");
  flags.toggle("--fields", options.fields, "print every setting with its type, range and meaning");
  flags.toggle("--markdown", options.markdown, "print a page about every setting and parameter, in Markdown");
  flags.exactly_one_of({"CONFIG", "--defaults", "--schema", "--fields", "--markdown"});
  flags.read();
  if (flags.given("--set") && !flags.given("CONFIG")) refuse_flag("--set", "needs a CONFIG to change");
  if (options.memory && !flags.given("CONFIG")) refuse_flag("--memory", "needs a CONFIG to estimate");
  return options;
}

void print_field(const std::string& head, const std::string& accepts, const std::string& help) {
  std::cout << wrapped(head + "  " + accepts, help, 4, kListColumns);
}

void print_fields() {
  for (const SettingInfo& field : describe_fields()) {
    std::string names;
    for (const std::string& name : names_for(field.path)) names += (names.empty() ? "; one of: " : ", ") + name;
    const std::string range = field.range.empty() || !names.empty() ? "" : ' ' + field.range;
    print_field(field.path + " = " + field.fallback, field.type + range,
                field.help + names + (field.needs.empty() ? "" : "; " + field.needs));
  }
  for (const ChoiceParameters& choice : algorithm_parameters())
    for (const SettingInfo& each : choice.parameters)
      print_field(choice.path + '.' + each.path + " = " + each.fallback,
                  each.type + (each.range.empty() ? "" : ' ' + each.range) +
                      (choice.choice.empty() ? "" : ", with " + choice.choice),
                  each.help + (each.source.empty() ? "" : " (" + each.source + ')'));
}

// The config may be meant for another machine, so settings that do not fit this machine only cause warnings.
void print_effective(const ConfigOptions& options) {
  const RunConfig config = load_run_config(options.config, options.overrides);
  const EnvSpec env = environment_of(config);
  std::cout << (options.memory ? memory_table(config, env) : to_json_of_kind(config));
  const Machine machine = Machine::here();
  for (const std::string& misfit :
       {devices_missing_in_build(config), missing_reward_model(config), memory_shortage(config, env, machine)})
    if (!misfit.empty()) warn(misfit);
  for (const std::string& warning : probable_mistakes(config, env, machine)) warn(warning);
}

void show_config(const ConfigOptions& options) {
  if (options.defaults)
    std::cout << to_json(RunConfig{});
  else if (options.schema)
    std::cout << algorithm_schema(json_schema());
  else if (options.fields)
    print_fields();
  else if (options.markdown)
    std::cout << config_reference();
  else
    print_effective(options);
}

}  // namespace

Command config_command() {
  return {.name = "config",
          .summary = "check a config file, or list every setting",
          .examples =
              "  troupe config my_run.json\n"
              "  troupe config cartpole --set trainer.super_batch=4096\n"
              "  troupe config my_run.json --memory\n"
              "  troupe config --defaults\n"
              "  troupe config --fields\n"
              "  troupe config --schema > troupe.schema.json\n"
              "  troupe config --markdown > settings.md\n",
          .exit_codes = {{0, "the config is valid, or the settings were listed"},
                         {1, "the output could not be written"},
                         {2, "a mistake in the command or the config"}},
          .parse = read_then_run<read_config, show_config>};
}

}  // namespace troupe
