#pragma once
// Tasks for tests.

#include <memory>
#include <string>
#include <vector>

#include "tasks/make_task.h"

namespace troupe::test {

inline std::unique_ptr<Task> task_of(const std::string& name, const std::string& params = "{}") {
  TaskConfig config;
  config.name = name;
  config.params = params;
  return make_task(config);
}

// Every task with its defaults and at the limits of its parameters.
inline std::vector<TaskConfig> every_task() {
  return {
      {"reverse", "{}"},
      {"reverse", R"({"digits": 2})"},
      {"reverse", R"({"digits": 256})"},
      {"sort", "{}"},
      {"sort", R"({"digits": 2})"},
      {"sort", R"({"digits": 256})"},
      {"addition", "{}"},
      {"addition", R"({"digits": 1})"},
      {"addition", R"({"digits": 18})"},
      {"countdown", "{}"},
      {"countdown", R"({"numbers": 2, "max_number": 4, "max_target": 4})"},
      {"countdown", R"({"numbers": 8, "max_number": 1000, "max_target": 1000})"},
      {"countdown", R"({"numbers": 8, "max_number": 4, "max_target": 100000})"},
      {"countdown", R"({"numbers": 6, "wording": "english"})"},
      {"chain_sum", "{}"},
      {"chain_sum", R"({"terms": 2, "digits": 1})"},
      {"chain_sum", R"({"terms": 32, "digits": 15})"},
      {"chain_sum", R"({"terms": 5, "digits": 3, "wording": "english"})"},
      {"dataset", R"({"path": "tests/tasks/capitals.jsonl"})"},
  };
}

}  // namespace troupe::test
