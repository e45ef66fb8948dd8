#include "runtime/config/fixed_settings.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

const SettingsOfRun kSettings = {[](std::string_view path) {
                                   if (path.starts_with("workers.")) return Change::at_resume_unless_deterministic;
                                   if (path == "trainer.lr") return Change::before_first_update;
                                   const bool may = path == "name" || path == "trainer.threads" ||
                                                    path.starts_with("stop.") || path.starts_with("stats.");
                                   return may ? Change::at_resume : Change::never;
                                 },
                                 nullptr};

// The text of the first conflict; empty if there is none.
std::string conflict(const std::string& stored, const std::string& now, const SettingsOfRun& settings = kSettings) {
  const auto found = config_conflicts(stored, now, settings);
  return found.empty() ? "" : found.front().sentence();
}

}  // namespace

TEST_CASE("config_conflicts: the first conflict of two configs") {
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
      {R"({"a": 1, "b": {}})", R"({"a": 1})", ""},  // all members of b may change
      {R"({"a": 1})", R"({"a": 1, "b": {}})", ""},
      {R"({"a": 1, "b": {}})", R"({"a": 1, "b": 2})", "b was {} and is now 2"},
      {R"({"stopper": 1})", R"({"stopper": 2})", "stopper was 1 and is now 2"},
      {R"({"trainer": {"threads_x": 1}})", R"({"trainer": {"threads_x": 2}})", "trainer.threads_x was 1 and is now 2"},
  };
  for (const Case& each : cases) CHECK(conflict(each.stored, each.now) == each.conflict);
  const auto all = config_conflicts(R"({"a": 1, "name": "x", "b": 1})", R"({"a": 2, "name": "y", "b": 2})", kSettings);
  REQUIRE(all.size() == 2);
  CHECK(all.back().sentence() == "b was 1 and is now 2");
}

TEST_CASE("changed_settings: every field whose value differs, with both values, in file order") {
  const auto texts = [](const std::string& before, const std::string& now) {
    std::vector<std::string> result;
    for (const SettingChange& change : changed_settings(before, now)) result.push_back(change.text());
    return result;
  };
  using Texts = std::vector<std::string>;
  CHECK(texts(R"({"a": 1, "b": {"c": [1, 2], "d": true}})", R"({"b": {"d": true, "c": [1, 2]}, "a": 1.0})").empty());
  CHECK(texts(R"({"stop": {"updates": 10, "seconds": 1, "old": null}, "name": "a"})",
              R"({"name": "b", "stop": {"seconds": 1, "updates": 20, "new": {"x": 1}}})") ==
        Texts{"name \"a\" -> \"b\"", "stop.updates 10 -> 20", "stop.new not set -> {\"x\":1}",
              "stop.old null -> not set"});
  CHECK(changed_settings("{}", R"({"a": 1})").front().before == kNotSet);
}

TEST_CASE("config_conflicts: settings that affect a deterministic run may not change, others may") {
  const std::string before = R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})",
                    other_workers = R"({"deterministic": true, "workers": {"count": 2}, "stop": {"updates": 5}})",
                    other_end = R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 9}})";
  CHECK(conflict(before, other_workers) == "workers.count was 1 and is now 2");
  CHECK(conflict(before, other_end) == "");
}

TEST_CASE("config_conflicts: some settings may change only before the first update, and not in a deterministic run") {
  const std::string before = R"({"trainer": {"lr": 1, "epochs": 4}})",
                    other_rate = R"({"trainer": {"lr": 2, "epochs": 4}})",
                    both = R"({"trainer": {"lr": 2, "epochs": 8}})";
  CHECK(conflict(before, other_rate) == "trainer.lr was 1 and is now 2");
  CHECK(config_conflicts(before, other_rate, kSettings, RunStage::before_first_update).empty());
  const auto left = config_conflicts(before, both, kSettings, RunStage::before_first_update);
  REQUIRE(left.size() == 1);
  CHECK(left.front().sentence() == "trainer.epochs was 4 and is now 8");
  CHECK(config_conflicts(R"({"deterministic": true, "trainer": {"lr": 1}})",
                         R"({"deterministic": true, "trainer": {"lr": 2}})", kSettings, RunStage::before_first_update)
            .size() == 1);
  CHECK(fixed_settings(other_rate, kSettings) == R"({"trainer":{"lr":2,"epochs":4}})");
}

TEST_CASE("fixed_settings: settings that may change are left out, and sections that have no others") {
  CHECK(fixed_settings(R"({"name": "a", "seed": 1, "trainer": {"epochs": 4, "threads": 1}, "stop": {"updates": 5},
                          "env": {"params": {}}, "workers": {"count": 1}})",
                       kSettings) == R"({"seed":1,"trainer":{"epochs":4},"env":{"params":{}}})");
  CHECK(fixed_settings(R"({"deterministic": true, "workers": {"count": 1}, "stop": {"updates": 5}})", kSettings) ==
        R"({"deterministic":true,"workers":{"count":1}})");
}

TEST_CASE("config_conflicts: nothing may change if nothing is known about the settings") {
  CHECK(conflict(R"({"name": "a"})", R"({"name": "b"})", {}) == "name was \"a\" and is now \"b\"");
}
