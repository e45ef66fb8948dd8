#include <iostream>

#include "algorithms/algorithm_choice.h"
#include "runtime/config.h"
#include "tools/command_help.h"
#include "tools/commands.h"
#include "tools/config_lookup.h"

namespace troupe {
namespace {

void print_field(const std::string& head, const std::string& accepts, const std::string& help) {
  std::cout << wrapped(head + "  " + accepts, help, 4, kListColumns);
}

void print_fields() {
  for (const FieldInfo& field : describe_fields())
    print_field(field.path + " = " + field.fallback, field.type + (field.range.empty() ? "" : ' ' + field.range),
                field.help);
  for (const ChoiceField& field : algorithm_fields())
    print_field(field.path + '.' + field.key + " = " + field.fallback,
                field.expected + (field.choice.empty() ? "" : ", with " + field.choice), field.help);
}

}  // namespace

int run_config(const ConfigOptions& options) {
  switch (options.show) {
    case ConfigOptions::Show::defaults: std::cout << to_json(RunConfig{}); break;
    case ConfigOptions::Show::schema: std::cout << algorithm_schema(json_schema()); break;
    case ConfigOptions::Show::fields: print_fields(); break;
    case ConfigOptions::Show::effective:
      std::cout << to_json(load_run_config(options.config, options.overrides));
      break;
  }
  return 0;
}

}  // namespace troupe
