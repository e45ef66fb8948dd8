#include "tasks/make_task.h"

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string refusal(const std::string& name, const std::string& params) {
  try {
    task_of(name, params);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("make_task: an unknown name is refused with the nearest one") {
  CHECK(refusal("revers", "{}") == "task.name: \"revers\" is unknown, did you mean \"reverse\"?");
  CHECK(refusal("gsm8k", "{}") ==
        "task.name: \"gsm8k\" is unknown, expected one of: reverse, sort, addition, countdown, chain_sum, dataset");
}

TEST_CASE("make_task: wrong parameters are refused with their path, the value and what is expected") {
  CHECK(refusal("reverse", R"({"digit": 3})") == "task.params.digit: unknown key, did you mean task.params.digits?");
  CHECK(refusal("reverse", R"({"digits": 1})") ==
        "task.params.digits: 1 is out of range, expected an integer in [2, 256]");
  CHECK(refusal("reverse", R"({"digits": 257})") ==
        "task.params.digits: 257 is out of range, expected an integer in [2, 256]");
  CHECK(refusal("addition", R"({"digits": 2.5})") ==
        "task.params.digits: 2.5 is not whole, expected an integer in [1, 18]");
  CHECK(refusal("chain_sum", R"({"wording": "german"})") ==
        "task.params.wording: \"german\" is unknown, expected one of: symbols, english");
  CHECK(refusal("chain_sum", R"({"terms": "3"})").starts_with("task.params.terms: \"3\" is a string"));
  CHECK(refusal("sort", "[1]").starts_with("task.params: "));
  CHECK(refusal("sort", R"({"digits": 3, "digits": 4})").starts_with("task.params"));
  CHECK(refusal("sort", R"({"digits": null})").starts_with("task.params.digits: null"));
}

TEST_CASE("make_task: the limits of every parameter are accepted by themselves") {
  for (const TaskConfig& config : every_task()) CHECK(make_task(config) != nullptr);
}

TEST_CASE("list_tasks: every parameter has a help text, a default and an owner") {
  for (const TaskInfo& task : list_tasks()) {
    CHECK_FALSE(task.description.empty());
    CHECK_FALSE(task.parameters.empty());
    for (const SettingInfo& parameter : task.parameters) {
      CHECK_FALSE(parameter.help.empty());
      CHECK_FALSE(parameter.fallback.empty());
      CHECK(parameter.owner == "tasks");
    }
  }
}

TEST_CASE("task_config: every member is described, and defaults are accepted") {
  TaskConfig config;
  Fields fields;
  describe(config, fields);
  CHECK(fields.size() == 13);
  read_fields(fields, nlohmann::ordered_json::parse(fields_json(fields)), "config");
  CHECK(config == TaskConfig{});
}
