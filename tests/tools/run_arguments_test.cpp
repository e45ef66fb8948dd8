// Tests of the program itself: config files and run folders as arguments of train, config, eval and play.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/run_command.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("troupe: wrong config files and folders give a one-line error before anything starts") {
  const Folder folder;
  const std::string empty = folder.file("empty.json", "");
  const std::string typo = folder.file("typo.json", R"({"algorithm": {"gama": 0.9}})");
  const std::string pipe = (folder.path / "pipe.json").string(), large = folder.file("large.json", "{");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int silent_writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // a reader must not wait for it
  REQUIRE(silent_writer >= 0);
  std::filesystem::resize_file(large, uint64_t{6} << 30);
  const std::string hang = folder.file("hang.json", R"({"stop": {"env_steps": 0}})");
  check_all({
      {{"train", ""}, "the name of the config file is empty, expected a path or the name of a built-in one"},
      {{"train", "cartpol"}, "cartpol: no such config file, did you mean cartpole?"},
      {{"train", folder.path.string()},
       folder.path.string() +
           ": is a folder without a run, expected a config file, the name of a built-in one, or the folder of a run"},
      {{"train", empty}, empty + ": is empty, expected a JSON value"},
      {{"train", typo}, typo + ": algorithm.gama: unknown key, did you mean algorithm.gamma?"},
      {{"config", pipe}, pipe + ": is a pipe, expected a regular file"},
      {{"train", pipe}, pipe + ": is a pipe, expected a regular file"},
      {{"train", "/dev/zero"}, "/dev/zero: is a device, expected a regular file"},
      {{"config", large}, large + ": holds 6442450944 bytes, expected at most 1048576"},
      {{"config", typo}, typo + ": algorithm.gama: unknown key, did you mean algorithm.gamma?"},
      {{"train", hang},
       hang + ": stop.env_steps: 0, with stop.updates 0 and stop.seconds 0, never ends the run; set one of them"},
      {{"train", "cartpole", "--set", "gamma=1"}, "--set: gamma: unknown key, did you mean algorithm.gamma?"},
      {{"train", "cartpole", "--set", "stop_env_steps=1"},
       "--set: stop_env_steps: unknown key, did you mean stop.env_steps?"},
      {{"train", "cartpole", "--set", "stop_env_step=1"},
       "--set: stop_env_step: unknown key, did you mean stop.env_steps?"},
      {{"train", "cartpole", "--set", "env_params_some_size=1"},
       "--set: env_params_some_size: unknown key, did you mean env.params.some_size?"},
      {{"train", (folder.path / "TYPO.json").string()},
       (folder.path / "TYPO.json").string() + ": no such config file, did you mean " + typo + '?'},
      {{"train", typo + " "}, typo + " : no such config file, did you mean " + typo + '?'},
      {{"train", (folder.path / "tpyo.yaml").string()},
       (folder.path / "tpyo.yaml").string() + ": no such config file, did you mean " + typo + '?'},
      {{"train", "cartpole", "--set", "trainer.epochs=2", "--set", "algorithm.gamma=2"},
       "--set: algorithm.gamma: 2 is out of range, expected a number in [0, 1]"},
      {{"config"}, "config: expected exactly one of CONFIG, --defaults, --schema, --fields and --markdown"},
      {{"config", "--defaults", "--schema"},
       "config: expected exactly one of CONFIG, --defaults, --schema, --fields and --markdown"},
      {{"config", "--defaults", "--set", "seed=1"}, "--set: needs a CONFIG to change"},
      {{"eval"}, "eval: RUN is required, `troupe eval --help` shows examples"},
      {{"eval", "no/such"}, "no/such: no such run folder"},
      {{"eval", empty}, empty + ": is not a folder, expected the folder of a run"},
      {{"play", folder.path.string()}, folder.path.string() + ": is not the folder of a run, it has no config.json"},
  });
  ::close(silent_writer);
}

TEST_CASE("troupe: train names the config of an environment that is given in its place") {
  const std::string no_config = ": no such config file, but ";
  const auto use = [](const std::string& id) { return "`troupe train --env " + id + '`'; };
  check_all({
      {{"train", "Hopper-v5"},
       "Hopper-v5" + no_config +
           "mujoco:Hopper-v5 is an environment, which the built-in config mujoco/hopper_1m trains; without a config "
           "file: " +
           use("mujoco:Hopper-v5")},
      {{"train", "halfcheetah"},
       "halfcheetah" + no_config +
           "mujoco:HalfCheetah-v5 is an environment, which the built-in config mujoco/half_cheetah_1m trains; without "
           "a config file: " +
           use("mujoco:HalfCheetah-v5")},
      {{"config", "mujoco:Ant-v5"},
       "mujoco:Ant-v5" + no_config + "mujoco:Ant-v5 is an environment, which " + use("mujoco:Ant-v5") + " trains"},
      {{"train", "gym:Some/Thing-v3"},
       "gym:Some/Thing-v3" + no_config + "gym:Some/Thing-v3 is an environment, which " + use("gym:Some/Thing-v3") +
           " trains"},
  });
  CHECK(run_troupe({"train", "CartPole-v1"}).err.find("the built-in configs cartpole, ") != std::string::npos);
}

TEST_CASE("troupe: a config in a folder of the built-in ones is suggested") {
  check_all({
      {{"train", "hopper_1m"}, "hopper_1m: no such config file, did you mean mujoco/hopper_1m?"},
      {{"train", "walker_1m"}, "walker_1m: no such config file, did you mean mujoco/walker2d_1m?"},
      {{"train", "gym/cartpole"}, "gym/cartpole: no such config file, did you mean gym/cart_pole?"},
      {{"config", "surrogate_sapo.json"},
       "surrogate_sapo.json: no such config file, did you mean algorithms/surrogate_sapo?"},
  });
  const std::string all = run_troupe({"train", "xyzzyxyzzy"}).err;
  for (const char* name : {"cartpole, ", "mujoco/hopper_1m", "gym/cart_pole", "12 in tokens/", "28 in algorithms/"})
    CHECK_MESSAGE(all.find(name) != std::string::npos, name);
}

TEST_CASE("troupe: train --env refuses an environment that cannot be trained") {
  check_all({
      {{"train", "--env", ""}, "--env: is empty, expected an environment like CartPole-v1"},
      {{"train", "--env", "CartPol-v1"},
       "--env CartPol-v1: env.id: \"CartPol-v1\" is unknown, did you mean \"CartPole-v1\"?"},
      {{"train", "--env", "Hopper-v5"},
       "--env Hopper-v5: env.id: \"Hopper-v5\" is unknown, did you mean \"mujoco:Hopper-v5\"?"},
      {{"train", "cartpole", "--env", "Hopper"},
       "--env Hopper: env.id: \"Hopper\" is unknown, did you mean \"mujoco:Hopper-v5\"?"},
      {{"train", "--env", "GridWorld", "--set", "env.params.sise=4"},
       "--set: env.params.sise: unknown key, did you mean env.params.size?"},
  });
}

TEST_CASE("troupe: for a path inside a run folder, the error names that run") {
  const Folder folder;
  const std::string run = folder.path.string() + "/run", checkpoint = run + "/checkpoints/000000000150";
  std::filesystem::create_directories(checkpoint);
  for (const char* name : {"/config.json", "/run.lock", "/metrics.jsonl"}) folder.file("run" + std::string(name), "{}");
  folder.file("run/checkpoints/000000000150/state.json", "{}");
  const std::string part = ": is part of the run " + run + "; give " + run;
  const std::string saved = ": is a checkpoint of the run " + run + "; give " + run;
  for (const char* command : {"train", "eval", "play"})
    check_all({{{command, run + "/checkpoints"}, run + "/checkpoints" + part}});
  const std::pair<std::string, std::string> names[] = {{checkpoint, "150"},
                                                       {checkpoint + '/', "150"},
                                                       {run + "/checkpoints/20", "20"},
                                                       {run + "/checkpoints/best", "best"}};
  for (const auto& [path, which] : names) {
    for (const char* command : {"eval", "play"})
      check_all({{{command, path}, path + saved + " --checkpoint " + which}});
    for (const char* command : {"train", "config"})
      check_all({{{command, path},
                  path + saved + " to resume that run, or a config file and --init-from " + path +
                      " to begin a new run with these weights"}});
  }
  check_all({{{"eval", run + "/config.json"}, run + "/config.json" + part},
             {{"play", checkpoint + "/state.json"}, checkpoint + "/state.json" + part}});
}

TEST_CASE("troupe: if a run folder is missing, the nearest one is suggested") {
  const Folder folder;
  const std::filesystem::path runs = folder.path / "runs";
  for (const char* name : {"cartpole", "second_try"}) {
    std::filesystem::create_directories(runs / name);
    for (const char* file : {"config.json", "run.lock"}) std::ofstream(runs / name / file) << "{}";
  }
  const auto error = [&](const std::string& words) {
    return test::run_command(
               {"/bin/sh", "-c", "cd \"$0\" && \"$1\" " + words, folder.path.string(), test::built_program("troupe")})
        .err;
  };
  const std::string none = ": no such run folder, did you mean runs/cartpole?\n";
  CHECK(error("eval cartpole") == "troupe: cartpole" + none);
  CHECK(error("play cartpole/") == "troupe: cartpole/" + none);
  CHECK(error("eval runs/cartpol") == "troupe: runs/cartpol" + none);
  CHECK(error("eval elsewhere/cartpole") == "troupe: elsewhere/cartpole" + none);
  CHECK(error("eval nothing_like_it") == "troupe: nothing_like_it: no such run folder\n");
  CHECK(error("train second_try") == "troupe: second_try: no such config file, did you mean runs/second_try?\n");
  CHECK(error("train runs/second_tri") ==
        "troupe: runs/second_tri: no such config file, did you mean runs/second_try?\n");
}
