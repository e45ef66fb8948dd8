#pragma once
// The config of a small token run: three digits to reverse, two answers to each prompt.

#include <cstdint>

#include "actors/config/run_config.h"

namespace troupe::test {

inline RunConfig token_config(int64_t groups = 1) {
  RunConfig config;
  config.model.kind = "decoder";
  config.task.params = R"({"digits": 3})";
  config.generation.answers = 2;
  config.workers.groups = groups;
  return config;
}

}  // namespace troupe::test
