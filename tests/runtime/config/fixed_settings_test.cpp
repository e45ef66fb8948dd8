#include "runtime/config/fixed_settings.h"

#include "runtime/config/config.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("config_conflict: the first conflict of two configs") {
  struct Case {
    std::string stored, now, conflict;
  };
  const Case cases[] = {
      {R"({"a": 1})", R"({"a": 1})", ""},
      {R"({"a": 1, "b": 1})", R"({"b": 2, "a": 2})", "b was 1 and is now 2"},
      {R"({"a": {"b": {"c": "x"}}})", R"({"a": {"b": {"c": "y"}}})", "a.b.c was \"x\" and is now \"y\""},
      {R"({"a": [1, 2]})", R"({"a": [1, 3]})", "a was [1,2] and is now [1,3]"},
      {R"({"a": 1})", R"({"a": 1, "b": 2})", "b was not set and is now 2"},
      {R"({"a": 1, "b": {"c": 2}})", R"({"a": 1})", "b was {\"c\":2} and is now not set"},
      {R"({"a": {"b": 1}})", R"({"a": 1})", "a was {\"b\":1} and is now 1"},
      {R"({"stop": {"env_steps": 1}, "stats": {"window": 1}})", R"({"stop": {"env_steps": 2}, "stats": {"window": 5}})",
       ""},
      {R"({"workers": {"count": 1}, "name": "a"})", R"({"workers": {"count": 9}, "name": "b"})", ""},
      {R"({"stopper": 1})", R"({"stopper": 2})", "stopper was 1 and is now 2"},
      {R"({"trainer": {"threads_x": 1}})", R"({"trainer": {"threads_x": 2}})", "trainer.threads_x was 1 and is now 2"},
  };
  for (const Case& each : cases) CHECK(config_conflict(each.stored, each.now).value_or("") == each.conflict);
}

TEST_CASE("changed_setting: both values of a field, nothing when they are equal") {
  const std::string before = R"({"stop": {"updates": 10, "seconds": 1}})",
                    now = R"({"stop": {"updates": 20, "seconds": 1}})";
  CHECK(changed_setting(before, now, "stop.updates").value_or("") == "stop.updates was 10 and is now 20");
  CHECK_FALSE(changed_setting(before, now, "stop.seconds").has_value());
  CHECK(changed_setting("{}", now, "stop.updates").value_or("") == "stop.updates was not set and is now 20");
}

TEST_CASE("config_conflict: what decides about a deterministic run may not change, what does not may") {
  const std::string before = R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})";
  CHECK(config_conflict(before, R"({"deterministic": true, "workers": {"count": 2}, "stop": {"updates": 5}})") ==
        "workers.count was 1 and is now 2");
  CHECK(!config_conflict(before, R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 9}})"));
}

TEST_CASE("fixed_settings: what may change is left out, sections that hold nothing else too") {
  CHECK(fixed_settings(R"({"name": "a", "seed": 1, "trainer": {"epochs": 4, "threads": 1}, "stop": {"updates": 5},
                          "env": {"params": {}}, "workers": {"count": 1}})") ==
        R"({"seed":1,"trainer":{"epochs":4},"env":{"params":{}}})");
  CHECK(fixed_settings(R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})") ==
        R"({"deterministic":true,"workers":{"count":1}})");
}

TEST_CASE("fixed_settings: those of a run agree with its config, also after an upgrade") {
  for (const bool deterministic : {false, true}) {
    RunConfig config;
    config.seed = 7;
    config.deterministic = deterministic;
    config.algorithm.gamma = 0.5;
    config.stop.updates = 9;
    const std::string settings = fixed_settings(to_json(config));
    CHECK(fixed_settings(upgrade_config(settings)) == settings);
    RunConfig longer = config;
    longer.stop.updates = 10;
    CHECK(fixed_settings(to_json(longer)) == settings);
    RunConfig other = config;
    other.seed = 8;
    CHECK(config_conflict(settings, fixed_settings(to_json(other))) == "seed was 7 and is now 8");
  }
}
