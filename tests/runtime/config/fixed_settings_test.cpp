#include "runtime/config/fixed_settings.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

const SettingsOfRun kSettings = {[](std::string_view path) {
                                   if (path.starts_with("workers.")) return Change::at_resume_unless_deterministic;
                                   const bool may = path == "name" || path == "trainer.threads" ||
                                                    path.starts_with("stop.") || path.starts_with("stats.");
                                   return may ? Change::at_resume : Change::never;
                                 },
                                 nullptr};

}  // namespace

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
  for (const Case& each : cases) CHECK(config_conflict(each.stored, each.now, kSettings).value_or("") == each.conflict);
}

TEST_CASE("changed_setting: both values of a field, nothing when they are equal") {
  const std::string before = R"({"stop": {"updates": 10, "seconds": 1}})",
                    now = R"({"stop": {"updates": 20, "seconds": 1}})";
  CHECK(changed_setting(before, now, "stop.updates").value_or("") == "stop.updates was 10 and is now 20");
  CHECK_FALSE(changed_setting(before, now, "stop.seconds").has_value());
  CHECK(changed_setting("{}", now, "stop.updates").value_or("") == "stop.updates was not set and is now 20");
}

TEST_CASE("config_conflict: what decides about a deterministic run may not change, what does not may") {
  const std::string before = R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})",
                    other_workers = R"({"deterministic": true, "workers": {"count": 2}, "stop": {"updates": 5}})",
                    other_end = R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 9}})";
  CHECK(config_conflict(before, other_workers, kSettings) == "workers.count was 1 and is now 2");
  CHECK_FALSE(config_conflict(before, other_end, kSettings).has_value());
}

TEST_CASE("fixed_settings: what may change is left out, sections that hold nothing else too") {
  CHECK(fixed_settings(R"({"name": "a", "seed": 1, "trainer": {"epochs": 4, "threads": 1}, "stop": {"updates": 5},
                          "env": {"params": {}}, "workers": {"count": 1}})",
                       kSettings) == R"({"seed":1,"trainer":{"epochs":4},"env":{"params":{}}})");
  CHECK(fixed_settings(R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})", kSettings) ==
        R"({"deterministic":true,"workers":{"count":1}})");
}

TEST_CASE("config_conflict: nothing may change where nothing is known of the settings") {
  CHECK(config_conflict(R"({"name": "a"})", R"({"name": "b"})", {}) == "name was \"a\" and is now \"b\"");
}
