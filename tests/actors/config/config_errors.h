#pragma once
// The errors about config files and about settings that do not go together.

#include <string>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/config_error.h"

namespace troupe::test {

inline std::string parse_error(const std::string& text) {
  return config_error_of([&] { parse_config(text, "run.json"); });
}

// What validate() says about the defaults with these overrides and a stop after three updates; "" if nothing.
inline std::string rule_error(const std::vector<std::string>& overrides) {
  RunConfig config;
  config.stop.updates = 3;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace troupe::test
