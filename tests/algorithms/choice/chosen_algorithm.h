#pragma once
// The choice that overrides of the algorithm section make.

#include "actors/config/config.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/errors.h"

namespace troupe::test {

inline RunConfig overridden(const std::vector<std::string>& overrides) {
  RunConfig config;
  for (const std::string& assignment : overrides) apply_override(config, "algorithm." + assignment);
  return config;
}

inline std::string error_with(const std::vector<std::string>& overrides) {
  const RunConfig config = overridden(overrides);
  try {
    check_algorithm(config.algorithm, config.trainer.micro_batch);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace troupe::test
