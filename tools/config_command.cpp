#include <iostream>

#include "algorithms/algorithm_choice.h"
#include "runtime/config.h"
#include "tools/commands.h"
#include "tools/config_lookup.h"

namespace troupe {
namespace {

void print_fields() {
  for (const FieldInfo& field : describe_fields()) {
    std::cout << field.path << " = " << field.fallback << "  " << field.type;
    if (!field.range.empty()) std::cout << ' ' << field.range;
    std::cout << "\n    " << field.help << '\n';
  }
  for (const ChoiceField& field : algorithm_fields()) {
    std::cout << field.path << '.' << field.key << " = " << field.fallback << "  " << field.expected;
    if (!field.choice.empty()) std::cout << ", with " << field.choice;
    std::cout << "\n    " << field.help << '\n';
  }
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
