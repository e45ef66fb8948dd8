#include <chrono>
#include <fstream>
#include <thread>

#include "envs/bridge/python_env.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/envs/bridge/python_fixtures.h"
#include "tests/support/temp_folder.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Whether a process exists that has not ended; one that nobody has waited for has the state Z.
bool runs(const std::string& pid) {
  std::ifstream stat("/proc/" + pid + "/stat");
  std::string word, state;
  return (stat >> word >> word >> state) && state != "Z";
}

}  // namespace

TEST_CASE("python_env: what cannot be made is refused with one line") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *name, *params, *text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"broken", "{}", "\" cannot be made: OSError: cannot be built (/"},
           {"broken", R"({"text": "first\nsecond"})", "\" cannot be made: OSError: first second (/"},
           {"Walk", R"({"size": 3})", "cannot be made: TypeError: Walk.__init__() got an unexpected keyword argument"},
           {"crashing", "{}",
            "was killed by signal 11 (Segmentation fault); the last line of its output: about to crash"},
           {"Missing", "{}", "environments.py has no Missing"},
           {"NotCallable", "{}", "NotCallable cannot be called, expected a function or class"},
           {"Vector", "{}", "Vector has no single_action_space, expected an environment"},
           {"Box", R"({"low": 0, "high": 1, "shape": [1]})", "Box has no observation_space, expected an environment"},
           {"with_spaces", R"({"observation": "graph"})", "the observation: a Graph space is not supported"},
           {"with_spaces", R"({"observation": "sequence"})", "the observation: a Sequence space is not"},
           {"with_spaces", R"({"observation": "text"})", "observation a/0: a Text space is not supported"},
           {"with_spaces", R"({"observation": "empty"})", "has no arrays besides the mask, expected at least one"},
           {"with_spaces", R"({"observation": "mask"})", "has no arrays besides the mask, expected at least one"},
           {"with_spaces", R"({"observation": "collision"})", "two parts of the observation have the name a/b"},
           {"with_spaces", R"({"observation": "nothing"})",
            "the observation has the shape [0], expected extents of at least 1"},
           {"with_spaces", R"({"observation": "complex"})",
            "Box with dtype complex64 is not supported, expected one of"},
           {"with_spaces", R"({"action": "infinite"})",
            "the action space has the bounds -inf and 1.0, expected finite"},
           {"with_spaces", R"({"action": "integers"})", "the action space is a Box of int32, expected float32 or"},
           {"with_spaces", R"({"action": "dict"})", "a Dict action space is not supported, expected Discrete, "},
       }) {
    CAPTURE(c.name);
    const std::string text = refusal_of(python_config(c.name, 1, c.params));
    CHECK(text.starts_with("env.id: \"py:tests/envs/bridge/environments.py:"));
    CHECK_MESSAGE(text.find(c.text) != std::string::npos, text);
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("python_env: an environment whose first reset or step no run could use is refused, with the value") {
  if (!can_use("numpy")) return;
  struct Case {
    const char *what, *text;
  };
  for (const Case& c : std::initializer_list<Case>{
           {"reward=None", "step(): the reward is None, expected a number"},
           {"reward='1'", "step(): the reward is '1', expected a number"},
           {"reward=[1.0, 2.0]", "step(): the reward is [1.0, 2.0], expected a number"},
           {"reward=nan", "step(): the reward is nan, expected a finite number"},
           {"terminated='no'", "step(): terminated is 'no', expected True or False"},
           {"terminated=None", "step(): terminated is None, expected True or False"},
           {"terminated=nan", "step(): terminated is nan, expected True or False"},
           {"truncated=2", "step(): truncated is 2, expected True or False"},
           {"info=None", "step(): info is None, expected a dict"},
           {"info={'is_success': nan}", "step(): info[\"is_success\"] is nan, expected True or False"},
           {"info={'success': 'no'}", "step(): info[\"success\"] is 'no', expected True or False"},
           {"observation=None", "step(): the observation is None, expected numbers"},
           {"observation=[1.0, 2.0]", "step(): the observation has shape [2], its space has [3]"},
           {"observation=[nan, 0, 0]", "step(): the observation is [nan, 0, 0], expected finite numbers"},
           {"step=(1, 2.0, False, {})", "step() returned 4 values, expected 5: observation, reward, terminated"},
           {"reset=[0.0, 0.0, 0.0]", "reset() returned 3 values, expected 2: observation and info"},
           {"reset=np.zeros(3)", "reset() returned array([0., 0., 0.]), expected 2: observation and info"},
           {"reset_info=None", "reset(): info is None, expected a dict"},
       }) {
    CAPTURE(c.what);
    const std::string text = refusal_of(python_config("Returns", 1, R"({"what": ")" + std::string(c.what) + "\"}"));
    CHECK_MESSAGE(text.starts_with("env.id: \"py:tests/envs/bridge/environments.py:Returns\": " + std::string(c.text)),
                  text);
  }
  for (const char* what :
       {"reward=np.array([1.5])", "reward=np.float64(1)", "terminated=np.array([False])", "terminated=0",
        "truncated=np.bool_(False)", "info={'is_success': 1.0}", "info={'is_success': None}"}) {
    CAPTURE(what);
    Stepping run(python_config("Returns", 2, R"({"what": ")" + std::string(what) + "\"}"));
    run.act(1);
    CHECK(run.step.errors.empty());
    CHECK(run.failed() == Failed::no);
  }
  const std::string raised = refusal_of(python_config("Returns", 1, R"({"what": "raise"})"));
  CHECK_MESSAGE(raised.find("cannot be made: RuntimeError: always (/") != std::string::npos, raised);
}

TEST_CASE("python_env: a start may take longer than a step") {
  if (!can_use("numpy")) return;
  EnvConfig config = python_config("slow_start", 2);
  config.step_timeout = std::chrono::milliseconds(500);
  Stepping run(config);  // its function sleeps for 0.6 s
  run.act(1);
  CHECK(run.step.errors.empty());
}

TEST_CASE("python_env: a start that takes too long is refused") {
  if (!can_use("numpy")) return;
  EnvConfig config = python_config("hanging", 1);
  config.start_timeout = std::chrono::milliseconds(300);
  CHECK(refusal_of(config) ==
        "env.id: \"py:tests/envs/bridge/environments.py:hanging\" cannot be made: the process of the environment has "
        "not answered within env.start_timeout_ms (300 ms) and was killed");
}

TEST_CASE("python_env: the processes of an environment start at the same time") {
  if (!can_use("numpy")) return;
  const TempFolder folder;
  EnvConfig config = python_config("meets", 4, R"({"count": 4, "folder": ")" + (folder / "met") + "\"}");
  config.processes = 4;
  Stepping run(config);
  CHECK(run.step.errors.empty());
}

TEST_CASE("python_env: processes that start at the same time may print more than a pipe holds") {
  if (!can_use("numpy")) return;
  const TempFolder folder;
  for (const std::string write : {"60", "1500", "3000"}) {
    CAPTURE(write);
    EnvConfig config =
        python_config("meets", 3, R"({"count": 3, "write": )" + write + R"(, "folder": ")" + (folder / write) + "\"}");
    config.processes = 3;
    config.start_timeout = std::chrono::seconds(50);  // without `meets` giving up before
    Stepping run(config);
    CHECK_MESSAGE(run.step.errors.empty(), run.step.errors.front());
  }
}

TEST_CASE("python_env: environments that are prepared start at the same time") {
  if (!can_use("numpy")) return;
  const TempFolder folder;
  const EnvConfig config = python_config("meets", 1, R"({"count": 4, "folder": ")" + (folder / "met") + "\"}");
  std::vector<std::unique_ptr<Env>> envs;
  for (int k = 0; k < 4; ++k) envs.push_back(make_env(config));
  for (const auto& env : envs) env->prepare();
  for (const auto& env : envs) {
    EnvStep step = EnvStep::allocate(env->spec(), 1);
    env->reset(1, 0, step);
    CHECK(step.errors.empty());
  }
}

TEST_CASE("python_env: what an environment without close() has started ends with its process") {
  if (!can_use("numpy")) return;
  const TempFolder folder;
  const std::string file = folder / "pids";
  {
    Stepping run(python_config("Spawns", 2, R"({"file": ")" + file + "\"}"));
    run.act(1);
    CHECK(run.step.errors.empty());
  }
  std::ifstream pids(file);
  int count = 0;
  for (std::string pid; std::getline(pids, pid); ++count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (runs(pid) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    CHECK_MESSAGE(!runs(pid), pid);
  }
  CHECK(count >= 2);
}

TEST_CASE("python_env: a missing interpreter or package is refused with what to install") {
  EnvConfig config = python_config("Walk", 1);
  config.python = "no-such-python";
  CHECK(refusal_of(config) ==
        "env.python: no-such-python: no program of this name in PATH; env.id \"py:tests/envs/bridge/"
        "environments.py:Walk\" needs Python 3.9 or later with numpy, expected its name or path");
  config.python = "";
  CHECK(refusal_of(config) == "env.python: \"\" is empty, expected the name or path of a program");
  if (!can_use("numpy")) return;
  config.python = "tests/envs/bridge/python_without_numpy.sh";
  const std::string text = refusal_of(config);
  CHECK(text.starts_with("env.python: numpy is not installed for \"" + config.python + '"'));
  CHECK(text.find("install it with `" + config.python + " -m pip install numpy`") != std::string::npos);
  config.id = "gym:CartPole-v1";
  CHECK(refusal_of(config).find("-m pip install numpy gymnasium`") != std::string::npos);
}

TEST_CASE("python_env: ids that cannot be right are refused before anything starts") {
  const auto refused = [](const std::string& id) {
    EnvConfig config;
    config.id = id;
    config.python = "no-such-python";
    return refusal_of(config);
  };
  CHECK(refused("ray:CartPole") ==
        "env.id: \"ray:CartPole\" begins with an unknown scheme, expected one of: gym:ID, envpool:ID, "
        "zoo:MODULE, py:MODULE:CALLABLE, mujoco:ID, lib:FILE.so");
  CHECK(refused("py:module") ==
        "env.id: \"py:module\" names no callable, expected py:MODULE:CALLABLE or py:FILE.py:CALLABLE");
  CHECK(refused("zoo:") == "env.id: \"zoo:\" names no environment, expected zoo:MODULE");
  CHECK(refused("gym:") == "env.id: \"gym:\" names no environment, expected gym:ID");
}

TEST_CASE("python_env: an unknown Gymnasium id is refused with Gymnasium's suggestion") {
  if (!can_use("gymnasium")) return;
  const std::string text = refusal_of(python_config("gym:CartPoel-v1", 1));
  CHECK(text.starts_with("env.id: \"gym:CartPoel-v1\" cannot be made: NameNotFound: "));
  CHECK(text.find("CartPole") != std::string::npos);
}
