// Environments in Python that fail: in a step, in their process, at their start.
#include <signal.h>

#include <chrono>
#include <filesystem>

#include "envs/bridge/python_env.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/envs/bridge/python_fixtures.h"
#include "tests/support/temp_folder.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string trouble(const std::string& what, const std::string& where = "all") {
  return R"({"what": ")" + what + R"(", "where": ")" + where + "\"}";
}

PythonEnv& python(Stepping& run) { return dynamic_cast<PythonEnv&>(*run.env); }

std::string error_of(const Stepping& run, size_t k = 0) { return run.step.errors.size() > k ? run.step.errors[k] : ""; }

// Steps until a row fails; returns how many steps that took, or -1.
int steps_until_failure(Stepping& run) {
  for (int t = 1; t <= 10; ++t) {
    run.act(1);
    if (!run.step.errors.empty()) return t;
  }
  return -1;
}

}  // namespace

TEST_CASE("python_env: an exception fails its row only, which restarts in the same step with a new environment") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Trouble", 8, trouble("raise", "some")));
  Stepping sound(python_config("Trouble", 8));
  REQUIRE(steps_until_failure(run) == 3);
  for (int t = 0; t < 3; ++t) sound.act(1);
  size_t failures = 0;
  for (size_t i = 0; i < 8; ++i) {
    const bool failed = run.failed(i) == Failed::now;
    if (!failed) {
      CHECK(row_bytes(run.step, static_cast<int64_t>(i)) == row_bytes(sound.step, static_cast<int64_t>(i)));
      continue;
    }
    CHECK(run.executed(i) == 0);
    CHECK(run.observed(i, 1) == 0);
    CHECK(run.observed(i, 2) == 1);  // the first reset of the new environment
    const std::string text = error_of(run, failures++);
    CHECK(text.starts_with("row " + std::to_string(i) + ": ValueError: bad step (/"));
    CHECK(text.find("tests/envs/bridge/environments.py:") != std::string::npos);
  }
  CHECK(failures == run.step.errors.size());
  CHECK(failures > 0);
  CHECK(failures < 8);
}

TEST_CASE("python_env: results that cannot be used fail their row") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *what, *error;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"nan", "row 0: the observation is not finite"},
           {"infinite_reward", "row 0: the reward is inf"},
           {"shape", "row 0: ValueError: the observation has shape [1], its space has [3]"},
           {"four", "row 0: ValueError: step() returned 4 values, expected 5: observation, reward, terminated"},
           {"exit", "row 0: SystemExit: leaving"}}) {
    CAPTURE(c.what);
    Stepping run(python_config("Trouble", 1, trouble(c.what)));
    const std::vector<pid_t> before = python(run).process_ids();
    REQUIRE(steps_until_failure(run) == 3);
    CHECK(error_of(run).starts_with(c.error));
    CHECK(run.failed() == Failed::now);
    run.act(1);
    CHECK(run.failed() == Failed::no);
    CHECK(run.observed(0, 1) == 1);
    CHECK(python(run).process_ids() == before);
  }
}

TEST_CASE("python_env: if a reset fails, the step that ended the last episode counts, and the next step tries again") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Trouble", 1, trouble("raise_in_reset")));
  for (int t = 0; t < 9; ++t) run.act(1);
  CHECK(run.failed() == Failed::no);
  run.act(1);  // the episode ends, and the next one cannot begin
  CHECK(run.failed() == Failed::no);
  CHECK(error_of(run).starts_with("row 0: RuntimeError: no reset"));
  CHECK(run.terminated());
  CHECK(run.executed() == 1);
  CHECK(run.last_observed(0, 1) == 10);
  CHECK(run.last_observed(0, 0) == run.reward());
  CHECK(run.observed(0, 1) == 0);
  CHECK(run.observed(0, 2) == 0);  // there is no observation
  run.act(1);
  CHECK(run.failed() == Failed::idle);
  CHECK(run.step.errors.empty());
  CHECK(run.observed(0, 2) == 1);  // of a new environment
  run.act(1);
  CHECK(run.failed() == Failed::no);
}

TEST_CASE("python_env: if the first observation of an episode is not valid, the step that ended the last one counts") {
  if (!can_use("numpy")) return;
  for (const char* what : {"nan_in_reset", "shape_in_reset"}) {
    CAPTURE(what);
    Stepping run(python_config("Trouble", 1, trouble(what)));
    for (int t = 0; t < 10; ++t) run.act(1);
    CHECK(run.failed() == Failed::no);
    CHECK(run.terminated());
    CHECK(run.last_observed(0, 1) == 10);
    CHECK(run.step.errors.size() == 1);
  }
}

TEST_CASE("python_env: a row that restarted after an exception and then rests is not reset again") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Trouble", 2, trouble("raise")));
  REQUIRE(steps_until_failure(run) == 3);
  run.env->set_active(0, false);
  run.act(1);
  CHECK(run.failed(0) == Failed::idle);
  CHECK(run.observed(0, 2) == 0);
  run.env->set_active(0, true);
  run.act(1);
  CHECK(run.failed(0) == Failed::idle);
  CHECK(run.observed(0, 1) == 0);
  CHECK(run.observed(0, 2) == 1);  // the reset of the new environment, which got a seed
  run.act(1);
  CHECK(run.failed(0) == Failed::no);
  CHECK(run.observed(0, 1) == 1);
  CHECK(run.observed(0, 2) == 1);
}

TEST_CASE("python_env: a process that is lost in a step fails its rows, and the next step starts another") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *what, *error;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"kill", "the process of the environment was killed by signal 9 (Killed)"},
           {"garbage", "the process of the environment wrote to troupe's socket (byte 103) and was killed"},
           {"close", "the process of the environment closed its connection and was killed"}}) {
    CAPTURE(c.what);
    Stepping run(python_config("Trouble", 4, trouble(c.what), 2));
    const std::vector<pid_t> before = python(run).process_ids();
    REQUIRE(steps_until_failure(run) == 3);
    REQUIRE(run.step.errors.size() == 4);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(run.failed(i) == Failed::now);
      CHECK(error_of(run, i).find(c.error) != std::string::npos);
      CHECK(run.observed(i, 2) == 0);
    }
    if (std::string(c.what) != "garbage") {  // which is noticed during that row's step or after it
      const char* rows[] = {"row 0: ", "row 2: ", "row 1: lost with row 0: ", "row 3: lost with row 2: "};
      for (size_t i = 0; i < 4; ++i) CHECK(error_of(run, i).starts_with(std::string(rows[i]) + c.error));
    }
    CHECK(python(run).process_ids().empty());
    for (const pid_t id : before) CHECK(kill(id, 0) == -1);
    run.act(1);
    for (size_t i = 0; i < 4; ++i) CHECK(run.failed(i) == Failed::idle);
    CHECK(python(run).process_ids().size() == 2);
    run.act(1);
    for (size_t i = 0; i < 4; ++i) {
      CHECK(run.failed(i) == Failed::no);
      CHECK(run.observed(i, 1) == 1);
    }
  }
}

TEST_CASE("python_env: a process that is killed between two steps fails only its own rows") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Walk", 4, "{}", 2));
  Stepping sound(python_config("Walk", 4));
  kill(python(run).process_ids()[1], SIGKILL);
  run.act(1);
  sound.act(1);
  CHECK(row_bytes(run.step, 0) == row_bytes(sound.step, 0));
  CHECK(row_bytes(run.step, 1) == row_bytes(sound.step, 1));
  CHECK(run.failed(2) == Failed::now);
  CHECK(run.failed(3) == Failed::now);
  run.act(1);
  run.act(1);
  for (size_t i = 0; i < 4; ++i) CHECK(run.failed(i) == Failed::no);
  CHECK(run.observed(0, 1) == 3);
  CHECK(run.observed(2, 1) == 1);
}

TEST_CASE("python_env: a process that is silent past the timeout is killed") {
  if (!can_use("numpy")) return;
  EnvConfig config = python_config("Trouble", 2, trouble("hang"));
  make_env(config);  // asks for the spaces with the default timeout
  config.step_timeout = std::chrono::milliseconds(2000);
  Stepping hasty(config);
  hasty.act(1);
  hasty.act(1);
  const pid_t before = python(hasty).process_ids()[0];
  hasty.act(1);
  CHECK(error_of(hasty) ==
        "row 0: the process of the environment has not answered within env.step_timeout_ms (2000 ms) and was killed");
  CHECK(kill(before, 0) == -1);
  CHECK(hasty.failed(1) == Failed::now);
}

TEST_CASE("python_env: if one row ends or stops its process, that row is named, and the log has the stack") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *what, *error, *stack;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"hang", "has not answered within env.step_timeout_ms (2000 ms) and was killed", "in waits_for_ever"},
           {"crash", "was killed by signal 11 (Segmentation fault)", "in reads_address_0"},
           {"exit", "ended with exit code 7", ""}}) {
    CAPTURE(c.what);
    MemoryDisk disk;
    open_log(disk.open_append("log.txt"), {.to_stderr = false});
    EnvConfig config = python_config("Stuck", 4, R"({"row": 2, "what": ")" + std::string(c.what) + "\"}");
    config.step_timeout = std::chrono::milliseconds(2000);
    Stepping run(config);
    run.act(1);
    close_log();
    REQUIRE(run.step.errors.size() == 4);
    CHECK(error_of(run).starts_with("row 2: the process of the environment " + std::string(c.error)));
    CHECK(
        error_of(run, 1).starts_with("row 0: lost with row 2: the process of the environment " + std::string(c.error)));
    const std::string log = disk.read("log.txt");
    CHECK((log.find("Traceback of its process:") != std::string::npos) == (*c.stack != '\0'));
    CHECK_MESSAGE(log.find(c.stack) != std::string::npos, log);
  }
}

TEST_CASE("python_env: what an environment prints does not disturb its steps") {
  if (!can_use("numpy")) return;
  Stepping run(python_config("Trouble", 4, trouble("print"))), quiet(python_config("Trouble", 4));
  for (int t = 0; t < 100; ++t) {  // more than a pipe holds
    run.act(t % 2);
    quiet.act(t % 2);
    REQUIRE(all_bytes(run.step) == all_bytes(quiet.step));
  }
}

TEST_CASE("python_env: a warning of MuJoCo is logged once, and nothing is written to the working folder") {
  if (!can_use("numpy")) return;
  MemoryDisk disk;
  open_log(disk.open_append("log.txt"), {.to_stderr = false});
  {
    Stepping run(python_config("Simulated", 2));
    for (int t = 0; t < 3; ++t) run.act(1);
  }
  close_log();
  const std::string log = disk.read("log.txt"), warning = "MuJoCo: The simulation is unstable.";
  CHECK(log.find(warning) != std::string::npos);
  CHECK(log.find(warning) == log.rfind(warning));
  CHECK(!std::filesystem::exists("MUJOCO_LOG.TXT"));
}

TEST_CASE("python_env: values that no run can use fail their row, in every step") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *what, *text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"reward=None", "row 0: ValueError: the reward is None, expected a number"},
           {"terminated='no'", "row 0: ValueError: terminated is 'no', expected True or False"},
           {"terminated=None", "row 0: ValueError: terminated is None, expected True or False"},
           {"terminated=True; info={'is_success': nan}",
            "row 0: ValueError: info[\"is_success\"] is nan, expected True"},
           {"terminated=True; info=None", "row 0: ValueError: info is None, expected a dict"},
       })
    for (const int64_t chunk : {0, 2}) {
      CAPTURE(c.what);
      EnvConfig config = python_config("Returns", 1, R"({"from_step": 2, "what": ")" + std::string(c.what) + "\"}");
      config.chunk = chunk;
      Stepping run(config);
      while (run.step.errors.empty() && run.t < 5) run.act(1);
      CHECK(run.failed() == Failed::now);
      CHECK_MESSAGE(error_of(run).starts_with(c.text), error_of(run));
    }
}

TEST_CASE("python_env: a row that fails in an episode that began singly is inactive until another one begins") {
  if (!can_use("numpy")) return;
  for (const std::string what : {"raise", "nan", "kill", "raise_in_reset"}) {
    CAPTURE(what);
    const auto env = make_env(python_config("Trouble", 2, trouble(what)));
    EnvStep step = EnvStep::allocate(env->spec(), 2);
    const auto advance = [&] { env->step(Array(DType::i32, {2, 1, 1}), step); };
    REQUIRE(env->play_singly(1));
    for (int episode = 0; episode < 3; ++episode) {
      for (int64_t i = 0; i < 2; ++i) env->begin_episode(i, 5);
      advance();
      const bool now = what == "raise_in_reset" && episode == 1;  // the second reset of an environment
      CHECK(step.failed == Array::of<uint8_t>({2}, {uint8_t(now ? 1 : 2), uint8_t(now ? 1 : 2)}));
      for (int t = 0; !now && t < 2; ++t) advance();
      if (what == "raise_in_reset") {
        for (int64_t i = 0; i < 2; ++i) env->set_active(i, false);
        continue;
      }
      advance();
      CHECK(step.failed == Array::of<uint8_t>({2}, {1, 1}));
      CHECK(step.errors.size() == 2);
      advance();
      CHECK(step.failed == Array::of<uint8_t>({2}, {2, 2}));
      CHECK(step.errors.empty());
    }
  }
}
