#include <iostream>

#include "algorithms/common/algorithm_choice.h"
#include "runtime/config/config.h"
#include "tools/cli/command_help.h"
#include "tools/cli/commands.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/launch.h"
#include "tools/cli/machine_check.h"

namespace troupe {
namespace {

void print_field(const std::string& head, const std::string& accepts, const std::string& help) {
  std::cout << wrapped(head + "  " + accepts, help, 4, kListColumns);
}

void print_fields() {
  for (const FieldInfo& field : describe_fields()) {
    std::string names;
    for (const std::string& name : names_for(field.path)) names += (names.empty() ? "; one of: " : ", ") + name;
    const std::string range = field.range.empty() || !names.empty() ? "" : ' ' + field.range;
    print_field(field.path + " = " + field.fallback, field.type + range, field.help + names);
  }
  for (const ChoiceField& field : algorithm_fields())
    print_field(field.path + '.' + field.key + " = " + field.fallback,
                field.expected + (field.choice.empty() ? "" : ", with " + field.choice), field.help);
}

// The run file may be meant for another machine, so what does not fit this one is a warning.
void print_effective(const ConfigOptions& options) {
  const RunConfig config = load_run_config(options.config, options.overrides);
  std::cout << to_json(config);
  const EnvSpec env = environment_of(config);
  const Machine machine = Machine::here();
  const std::string shortage = memory_shortage(config, env, machine);
  if (!shortage.empty()) warn(shortage);
  for (const std::string& warning : machine_warnings(config, env, machine)) warn(warning);
}

}  // namespace

int run_config(const ConfigOptions& options) {
  switch (options.show) {
    case ConfigOptions::Show::defaults: std::cout << to_json(RunConfig{}); break;
    case ConfigOptions::Show::schema: std::cout << algorithm_schema(json_schema()); break;
    case ConfigOptions::Show::fields: print_fields(); break;
    case ConfigOptions::Show::effective: print_effective(options); break;
  }
  return 0;
}

}  // namespace troupe
