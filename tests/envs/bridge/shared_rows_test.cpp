// Environments in Python whose rows are stepped together: vector environments, EnvPool, PettingZoo.
#include "envs/bridge/python_env.h"

#include "tests/envs/bridge/python_fixtures.h"
#include "tests/envs/bridge/shared_row_configs.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Of the rows with odd numbers, the episodes of `length` + 1 steps end by truncation.
void check_episodes(const EnvConfig& config, bool void_steps) {
  Stepping run(config);
  CHECK(run.env->spec().reports_success);
  for (int episode = 1; episode <= 3; ++episode) {
    for (int t = 1; t <= 3; ++t) {
      CHECK(run.observed(0, 1) == t - 1);
      CHECK(run.observed(0, 2) == episode);
      run.act(1);
      CHECK(run.failed(0) == Failed::no);
      CHECK(run.executed(0) == 1);
    }
    CHECK(run.terminated(0));
    CHECK(run.last_observed(0, 1) == 3);
    CHECK(run.last_observed(0, 0) == run.reward(0));
    CHECK(run.success(0) == (run.reward(0) > 0));
    CHECK(run.step.errors.empty());
    if (!void_steps) continue;
    CHECK(run.observed(0, 1) == 3);
    run.act(1);
    CHECK(run.failed(0) == Failed::idle);
    CHECK(run.executed(0) == 0);
    CHECK(run.reward(0) == 0);
    CHECK(!run.terminated(0));
  }
}

}  // namespace

TEST_CASE("vector environments: the three modes of autoreset give the same episodes") {
  if (!can_use("numpy")) return;
  check_episodes(vector_config("NextStep", 3), true);
  check_episodes(vector_config("SameStep", 3), false);
  check_episodes(vector_config("SameStep", 3, R"(, "dense": true)"), false);
  check_episodes(vector_config("Disabled", 3), false);
}

TEST_CASE("vector environments: results depend neither on the number of rows nor on that of processes") {
  if (!can_use("numpy")) return;
  for (const char* mode : {"NextStep", "SameStep", "Disabled"}) {
    CAPTURE(mode);
    Stepping all(vector_config(mode, 6)), split(vector_config(mode, 6, "", 3)), last(vector_config(mode, 2), 1, 4);
    for (int t = 0; t < 12; ++t) {
      for (Stepping* each : {&all, &split, &last}) each->act(1);
      REQUIRE(all_bytes(all.step) == all_bytes(split.step));
      for (int64_t i = 0; i < 2; ++i) REQUIRE(row_bytes(all.step, 4 + i) == row_bytes(last.step, i));
    }
  }
}

TEST_CASE("vector environments: those of Gymnasium give the same bytes as its single environments") {
  if (!can_use("gymnasium")) return;
  Stepping single(python_config("gym:CartPole-v1", 3));
  for (const char* mode : {"SameStep", "Disabled", "NextStep"}) {
    CAPTURE(mode);
    Stepping vector(shared_config("py", "cart_poles", 3, R"({"mode": ")" + std::string(mode) + "\"}"));
    single.env->reset(1, 0, single.step);
    int finished = 0;
    for (int t = 0; t < 60; ++t) {
      vector.act(1);
      if (vector.failed(0) == Failed::idle) continue;  // only in NextStep
      single.act(1);
      CHECK(single.reward() == vector.reward());
      CHECK(single.terminated() == vector.terminated());
      for (size_t k = 0; k < 4; ++k)
        REQUIRE((vector.terminated() ? single.last_observed(0, k) == vector.last_observed(0, k)
                                     : single.observed(0, k) == vector.observed(0, k)));
      if (std::string(mode) != "NextStep") REQUIRE(row_bytes(single.step, 0) == row_bytes(vector.step, 0));
      finished += vector.terminated();
    }
    CHECK(finished >= 3);
  }
  EnvConfig one_seed = shared_config("py", "cart_poles_of_gymnasium", 4);
  Stepping first(one_seed), second(one_seed);
  CHECK(all_bytes(first.step) == all_bytes(second.step));
  CHECK(first.observed(0, 0) != first.observed(1, 0));
}

TEST_CASE("vector environments: a truncated episode keeps its last observation and is not terminated") {
  if (!can_use("numpy")) return;
  for (const char* mode : {"NextStep", "SameStep", "Disabled"}) {
    Stepping run(vector_config(mode, 2));
    for (int t = 0; t < 4; ++t) run.act(0);
    CHECK(run.truncated(1));
    CHECK(!run.terminated(1));
    CHECK(run.last_observed(1, 1) == 4);
  }
}

TEST_CASE("vector environments: a mask that allows nothing after the end of an episode does no harm") {
  if (!can_use("numpy")) return;
  for (const char* mode : {"NextStep", "Disabled"}) {
    Stepping run(vector_config(mode, 2, R"(, "masked": true)"));
    CHECK(run.env->spec().action.masked);
    for (int t = 0; t < 12; ++t) {
      run.act(1);
      CHECK(run.step.errors.empty());
    }
  }
}

TEST_CASE("vector environments: no masked action arrives, at any step of an episode and in no state of a row") {
  if (!can_use("numpy")) return;
  for (const char* mode : {"NextStep", "SameStep", "Disabled"}) {
    CAPTURE(mode);
    Stepping run(vector_config(mode, 3, R"(, "masked": "one", "what": "nan")"));
    CHECK(run.env->spec().reports_success);  // the step that finds it out takes an allowed action, too
    std::vector<std::string> errors;
    for (int t = 0; t < 24; ++t) {
      if (t == 4 || t == 13) run.env->set_active(2, t == 13);
      run.advance();
      errors.insert(errors.end(), run.step.errors.begin(), run.step.errors.end());
    }
    CHECK(errors == std::vector<std::string>{"row 0: observation state is not finite"});
  }
}

TEST_CASE("vector environments: an exception fails all rows, and the next step makes the environment anew") {
  if (!can_use("numpy")) return;
  Stepping run(vector_config("NextStep", 2, R"(, "what": "raise")"));
  run.act(1);
  run.act(1);
  REQUIRE(run.step.errors.size() == 2);
  CHECK(run.step.errors[1].starts_with("row 1: ValueError: bad batch (/"));
  run.act(1);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(run.failed(i) == Failed::idle);
    CHECK(run.observed(i, 1) == 0);
    CHECK(run.observed(i, 2) == 1);
  }
  run.act(1);
  CHECK(run.failed() == Failed::no);
}

TEST_CASE("vector environments: if the process ends in a step, the rows that were stepped together are named") {
  if (!can_use("numpy")) return;
  Stepping run(vector_config("NextStep", 4, R"(, "what": "exit")", 2));
  run.act(1);
  run.act(1);
  REQUIRE(run.step.errors.size() == 4);
  CHECK(run.step.errors[3] == "row 3: the process of the environment ended with exit code 7 in a step of rows 2 to 3");
}

TEST_CASE("vector environments: a row that fails waits for the end of its episode, or is reset alone if it can be") {
  if (!can_use("numpy")) return;
  Stepping run(vector_config("NextStep", 2, R"(, "what": "nan")"));
  run.act(1);
  run.act(1);
  CHECK(run.step.errors == std::vector<std::string>{"row 0: the observation is not finite"});
  CHECK(run.failed(1) == Failed::no);
  for (int t = 0; t < 2; ++t) {  // its episode ends, and the next one begins
    run.act(1);
    CHECK(run.failed(0) == Failed::idle);
  }
  CHECK(run.observed(0, 2) == 2);
  run.act(1);
  CHECK(run.failed(0) == Failed::no);

  Stepping alone(vector_config("Disabled", 2, R"(, "what": "nan")"));
  for (int t = 0; t < 3; ++t) alone.act(1);
  CHECK(alone.failed(0) == Failed::idle);
  CHECK(alone.observed(0, 1) == 0);
  CHECK(alone.observed(0, 2) == 2);
  CHECK(alone.failed(1) == Failed::no);
  CHECK(alone.observed(1, 1) == 3);
}

TEST_CASE("vector environments: a row that is inactive takes no part, and joins at the next episode") {
  if (!can_use("numpy")) return;
  Stepping run(vector_config("SameStep", 2));
  run.env->set_active(0, false);
  run.act(1);
  CHECK(run.failed(0) == Failed::idle);
  CHECK(run.failed(1) == Failed::no);
  run.env->set_active(0, true);
  run.act(1);
  CHECK(run.failed(0) == Failed::idle);
  run.act(1);
  CHECK(run.observed(0, 2) == 2);
  run.act(1);
  CHECK(run.failed(0) == Failed::no);
}

TEST_CASE("vector environments: what does not say enough is refused with one line") {
  if (!can_use("numpy")) return;
  CHECK(refusal_of(vector_config("", 2))
            .ends_with(
                "cannot be made: the vector environment Vector has no metadata[\"autoreset_mode\"], expected one of "
                "gymnasium.vector.AutoresetMode: NextStep, SameStep, Disabled"));
  CHECK(refusal_of(vector_config("Later", 2)).find("has the unknown value 'Later' as metadata[\"autoreset_mode\"]") !=
        std::string::npos);
  CHECK(refusal_of(shared_config("py", "fixed_size", 4))
            .find("has 4 rows, expected 1; give the callable a parameter "
                  "num_envs") != std::string::npos);
  CHECK(refusal_of(vector_config("SameStep", 2, R"(, "num_envs": 3)")) ==
        "env.params: num_envs is 3, expected none: env.rows sets it");
  EnvConfig chunks = vector_config("SameStep", 2);
  chunks.chunk = 2;
  CHECK(refusal_of(chunks) ==
        "env.chunk: 2 with " + chunks.id + ", whose rows take their steps together; expected 0 or 1");
}

TEST_CASE("vector environments: rows can begin with any numbers, also with the same") {
  if (!can_use("numpy")) return;
  const std::vector<uint64_t> numbers{6, 4, 6};
  for (const char* mode : {"NextStep", "SameStep", "Disabled"}) {
    CAPTURE(mode);
    Stepping run(vector_config(mode, 3));
    run.act(1);
    REQUIRE(run.env->reset_as(1, numbers, run.step));
    for (size_t i = 0; i < 3; ++i) {
      const Stepping row(vector_config(mode, 1), 1, numbers[i]);
      CHECK(run.observed(i, 0) == row.observed(0, 0));
    }
    CHECK(run.observed(0, 0) != run.observed(1, 0));
  }
}

TEST_CASE("shared rows: if a reset fails, the steps that ended episodes count, and the next step makes all anew") {
  if (!can_use("numpy")) return;
  Stepping vector(vector_config("Disabled", 2, R"(, "what": "raise_in_reset")"));
  for (int t = 0; t < 3; ++t) vector.act(1);  // the episode of row 0 ends
  CHECK(vector.failed(0) == Failed::no);
  CHECK(vector.terminated(0));
  CHECK(vector.last_observed(0, 1) == 3);
  CHECK(vector.failed(1) == Failed::now);  // its episode cannot go on
  REQUIRE(vector.step.errors.size() == 2);
  CHECK(vector.step.errors[0].starts_with("row 0: RuntimeError: no reset (/"));
  vector.act(1);
  for (size_t i = 0; i < 2; ++i) CHECK(vector.failed(i) == Failed::idle);
  vector.act(1);
  for (size_t i = 0; i < 2; ++i) CHECK(vector.failed(i) == Failed::no);

  // The same where the environment resets its rows within the step.
  Stepping same(shared_config("py", "DoomedVector", 2, R"({"mode": "SameStep", "where": "reset"})"), 1);
  for (uint64_t first = 2; !same.step.errors.empty(); first += 2) same.env->reset(1, first, same.step);
  for (int t = 0; t < 200 && same.step.errors.empty(); ++t) same.act(1);
  REQUIRE(same.step.errors.size() == 2);
  for (size_t i = 0; i < 2; ++i) CHECK((same.failed(i) == Failed::no) == same.terminated(i));
  CHECK((same.terminated(0) || same.terminated(1)));

  Stepping zoo(zoo_config(3, R"({"what": "raise_in_reset"})"));
  for (int t = 0; t < 4; ++t) zoo.act(1);  // agent c is the last to leave
  CHECK(zoo.failed(2) == Failed::no);
  CHECK(zoo.truncated(2));
  CHECK(zoo.last_observed(2, 1) == 4);
  CHECK(zoo.step.errors.size() == 3);
  zoo.act(1);
  for (size_t i = 0; i < 3; ++i) CHECK(zoo.failed(i) == Failed::idle);
  zoo.act(1);
  for (size_t i = 0; i < 3; ++i) CHECK(zoo.failed(i) == Failed::no);
}
