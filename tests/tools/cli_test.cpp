// The real program: exit codes, messages, help.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/support/run_command.h"
#include "tests/support/test.h"

namespace troupe {
namespace {

using testing::CommandResult;
using Words = std::vector<std::string>;

CommandResult troupe(Words words) {
  words.insert(words.begin(), testing::built_program("troupe"));
  return testing::run_command(words);
}

struct BadLine {
  Words words;
  std::string error;  // after "troupe: "
};

// Each line ends with exit code 2, its error and nothing else.
void check_all(const std::vector<BadLine>& lines) {
  for (const BadLine& line : lines) {
    CAPTURE(line.words);
    const CommandResult result = troupe(line.words);
    CHECK(result.exit_code == 2);
    CHECK(result.err == "troupe: " + line.error + '\n');
    CHECK(result.out == "");
  }
}

const Words kCommands = {"train", "worker", "inference", "node",  "spawn",    "eval",
                         "play",  "envs",   "config",    "bench", "simulate", "version"};

const std::string kSeedRange = " is not a seed, expected an integer in [0, 18446744073709551615]";
const std::string kExample = ", expected HOST:PORT, like 127.0.0.1:5555";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A folder that exists for the length of one test.
struct Folder {
  std::filesystem::path path;
  Folder() : path(std::filesystem::temp_directory_path() / ("troupe_cli_test_" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path / name) << text;
    return (path / name).string();
  }
};

}  // namespace

TEST_CASE("troupe: the help of every command shows its usage and an example of it") {
  for (const std::string& name : kCommands) {
    CAPTURE(name);
    for (const Words& words : {Words{name, "--help"}, Words{name, "-h"}, Words{"help", name}}) {
      const CommandResult result = troupe(words);
      CHECK(result.exit_code == 0);
      CHECK(result.err == "");
      CHECK(result.out.find("Usage: troupe " + name) != std::string::npos);
      CHECK(result.out.find("Examples:\n  troupe " + name) != std::string::npos);
      CHECK(result.out.find("troupe " + name + ' ' + name) == std::string::npos);
      for (const std::string& line : lines_of(result.out)) CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("troupe: the help of a command names what it requires in its usage, and the defaults of the rest") {
  const std::string train = troupe({"train", "--help"}).out, worker = troupe({"worker", "--help"}).out;
  CHECK(train.find("\nUsage: troupe train CONFIG [OPTIONS]\n") != std::string::npos);
  CHECK(train.find("\n  --run DIR             folder of the run;") != std::string::npos);
  CHECK(train.find("(default: runs/NAME)") != std::string::npos);
  CHECK(worker.find("\nUsage: troupe worker --connect HOST:PORT [OPTIONS]\n") != std::string::npos);
  CHECK(worker.find("(default: 1)") != std::string::npos);
  CHECK(troupe({"config", "--help"}).out.find("\nUsage: troupe config [CONFIG] [OPTIONS]\n") != std::string::npos);
}

TEST_CASE("troupe: a value that looks like an option is refused") {
  const std::string option = " looks like an option";
  check_all({
      {{"train", "cartpole", "--run", "--foo"},
       "train: --run: needs a value, and \"--foo\"" + option + "; if it is meant, write --run ./--foo"},
      {{"train", "cartpole", "--run=-x"},
       "train: --run: needs a value, and \"-x\"" + option + "; if it is meant, write --run ./-x"},
      {{"train", "--run", "--seed", "3", "cartpole"},
       "train: --run: needs a value, and \"--seed\"" + option + "; if it is meant, write --run ./--seed"},
      {{"train", "cartpole", "--set", "--run", "x"}, "train: --set: needs a value, and \"--run\"" + option},
      {{"train", "cartpole", "--seed", "--json"}, "train: --seed: needs a value, and \"--json\"" + option},
      {{"worker", "--connect", "--count", "3"}, "worker: --connect: needs a value, and \"--count\"" + option},
      {{"eval", "runs/x", "--episodes", "--json"}, "eval: --episodes: needs a value, and \"--json\"" + option},
      {{"bench", "gae", "--plot", "--json"},
       "bench: --plot: needs a value, and \"--json\"" + option + "; if it is meant, write --plot ./--json"},
      {{"simulate", "--seeds", "--verbose"}, "simulate: --seeds: needs a value, and \"--verbose\"" + option},
  });
}

TEST_CASE("troupe: the overview lists every command") {
  const std::string overview = troupe({"--help"}).out;
  for (const std::string& name : kCommands) CHECK(overview.find("\n  " + name + ' ') != std::string::npos);
  CHECK(troupe({"help"}).out == overview);
  CHECK(troupe({"-h"}).exit_code == 0);
}

TEST_CASE("troupe: version prints one line") {
  const CommandResult result = troupe({"version"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("troupe 0."));
  CHECK(troupe({"--version"}).out == result.out);
}

TEST_CASE("troupe: wrong commands and options end in one line") {
  check_all({
      {{}, "no command, `troupe --help` lists them"},
      {{""}, "\"\" is not a command, `troupe --help` lists them"},
      {{"trian"}, "\"trian\" is not a command, did you mean train?"},
      {{"xyzzy"}, "\"xyzzy\" is not a command, `troupe --help` lists them"},
      {{"help", "xyzzy"}, "\"xyzzy\" is not a command, `troupe --help` lists them"},
      {{"a\nb"}, "\"a\\x0ab\" is not a command, `troupe --help` lists them"},
      {{"version", "now"}, "version: \"now\" is one argument too many"},
      {{"version", "--json"}, "version: --json: unknown option, `troupe version --help` lists them"},
      {{"train"}, "train: CONFIG is required, `troupe train --help` shows examples"},
      {{"train", "cartpole", "acrobot"}, "train: \"acrobot\" is one argument too many"},
      {{"train", "cartpole", "--sed", "3"}, "train: --sed: unknown option, did you mean --seed?"},
      {{"train", "cartpole", "--lisen=5"}, "train: --lisen=5: unknown option, did you mean --listen?"},
      {{"train", "cartpole", "--seed"}, "train: --seed: needs a value"},
      {{"train", "cartpole", "--set"}, "train: --set: needs a value"},
      {{"train", "cartpole", "--seed", "1", "--seed", "2"}, "train: --seed: is given more than once"},
      {{"train", "cartpole", "--run", ""}, "--run: is empty, expected a folder"},
  });
}

TEST_CASE("troupe: wrong numbers end in one line") {
  check_all({
      {{"train", "cartpole", "--seed", "x"}, "--seed: \"x\"" + kSeedRange},
      {{"train", "cartpole", "--seed", ""}, "--seed: \"\"" + kSeedRange},
      {{"train", "cartpole", "--seed", "-1"}, "--seed: \"-1\"" + kSeedRange},
      {{"train", "cartpole", "--seed", "1.5"}, "--seed: \"1.5\"" + kSeedRange},
      {{"train", "cartpole", "--seed", "18446744073709551616"}, "--seed: \"18446744073709551616\"" + kSeedRange},
      {{"worker", "--connect", "h:1", "--count", "0"}, "--count: 0 is out of range, expected an integer in [1, 1024]"},
      {{"worker", "--connect", "h:1", "--count", "1e3"},
       "--count: \"1e3\" is not an integer, expected an integer in [1, 1024]"},
      {{"worker", "--connect", "h:1", "--count", "99999999999999999999"},
       "--count: 99999999999999999999 is out of range, expected an integer in [1, 1024]"},
      {{"spawn", "--node", "a:1", "--workers", "-3", "--run", "b:1"},
       "--workers: -3 is out of range, expected an integer in [1, 1024]"},
      {{"play", "runs/x", "--episodes", "0"}, "--episodes: 0 is out of range, expected an integer in [1, 1000000]"},
      {{"eval", "runs/x", "--episodes", "ten"},
       "--episodes: \"ten\" is not an integer, expected an integer in [1, 1000000]"},
      {{"bench", "sampling", "--seconds", "0"},
       "--seconds: \"0\" is not right, expected a number of seconds in (0, 3600]"},
      {{"bench", "sampling", "--seconds", "nan"},
       "--seconds: \"nan\" is not right, expected a number of seconds in (0, 3600]"},
      {{"bench", "samplng"}, "bench: \"samplng\" is unknown, did you mean sampling?"},
      {{"bench", "x"},
       "bench: \"x\" is unknown, expected one of: sampling, inference, trainer, weights, gae, vtrace, balance, "
       "surrogate, logprob"},
      {{"bench", "weights", "--plot", "x.svg"},
       "bench: --plot: weights cannot be drawn, only gae, vtrace, surrogate, logprob, balance"},
      {{"simulate"}, "simulate: expected exactly one of --seeds A..B and --seed N"},
      {{"simulate", "--seed", "1", "--seeds", "1..2"}, "simulate: expected exactly one of --seeds A..B and --seed N"},
      {{"simulate", "--seeds", "5"}, "--seeds: \"5\" is not a range, expected A..B, like 1..1000"},
      {{"simulate", "--seeds", "5..1"}, "--seeds: 5..1 is empty, expected A..B with A <= B"},
      {{"simulate", "--seeds", "1.."}, "--seeds: \"\"" + kSeedRange},
  });
}

TEST_CASE("troupe: wrong addresses end in one line") {
  const std::string listening = " is not right, expected HOST:PORT or a port, like 127.0.0.1:5555 or 5555";
  check_all({
      {{"worker"}, "worker: --connect is required, `troupe worker --help` shows examples"},
      {{"worker", "--connect", "localhost"}, "--connect: \"localhost\" has no port" + kExample},
      {{"worker", "--connect", "5555"}, "--connect: \"5555\" has no host" + kExample},
      {{"worker", "--connect", ":5555"}, "--connect: \":5555\" has no host" + kExample},
      {{"worker", "--connect", ""}, "--connect: \"\" has no port" + kExample},
      {{"worker", "--connect", "h:"}, "--connect port: \"\" is not an integer, expected an integer in [1, 65535]"},
      {{"worker", "--connect", "h:0"}, "--connect port: 0 is out of range, expected an integer in [1, 65535]"},
      {{"worker", "--connect", "h:65536"}, "--connect port: 65536 is out of range, expected an integer in [1, 65535]"},
      {{"worker", "--connect", "h:55x"},
       "--connect port: \"55x\" is not an integer, expected an integer in [1, 65535]"},
      {{"inference", "--connect", "::1:5"},
       "--connect: \"::1:5\" has several colons, an IPv6 address needs brackets, like [::1]:5555"},
      {{"inference", "--connect", "a b:5"}, "--connect: \"a b\" is not a host name" + kExample},
      {{"node", "--listen", "5555x"}, "--listen: \"5555x\"" + listening},
      {{"train", "cartpole", "--stats", "localhost"}, "--stats: \"localhost\"" + listening},
      {{"node", "--listen", ""}, "--listen: \"\"" + listening},
      {{"node", "--listen", "70000"}, "--listen port: 70000 is out of range, expected an integer in [0, 65535]"},
      {{"spawn", "--node", "a:1", "--workers", "3"}, "spawn: --run is required, `troupe spawn --help` shows examples"},
      {{"train", "cartpole", "--listen", "5", "--stats", "5"},
       "--stats: 127.0.0.1:5 is also --listen; they need two ports"},
  });
}

TEST_CASE("troupe: wrong run files and folders end in one line before anything starts") {
  const Folder folder;
  const std::string empty = folder.file("empty.json", "");
  const std::string typo = folder.file("typo.json", R"({"algorithm": {"gama": 0.9}})");
  const std::string pipe = (folder.path / "pipe.json").string(), large = folder.file("large.json", "{");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const int silent_writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // nobody waits for what it may write
  REQUIRE(silent_writer >= 0);
  std::filesystem::resize_file(large, uint64_t{6} << 30);
  const std::string hang = folder.file("hang.json", R"({"stop": {"env_steps": 0}})");
  check_all({
      {{"train", ""}, "the name of the run file is empty, expected a path or the name of a built-in one"},
      {{"train", "cartpol"}, "cartpol: no such run file, did you mean cartpole?"},
      {{"train", folder.path.string()},
       folder.path.string() +
           ": is a folder without a run, expected a run file, the name of a built-in one, or the folder of a run"},
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
      {{"train", "cartpole", "--set", "trainer.epochs=2", "--set", "algorithm.gamma=2"},
       "--set: algorithm.gamma: 2 is out of range, expected a number in [0, 1]"},
      {{"config"}, "config: expected exactly one of CONFIG, --defaults, --schema and --fields"},
      {{"config", "--defaults", "--schema"},
       "config: expected exactly one of CONFIG, --defaults, --schema and --fields"},
      {{"config", "--defaults", "--set", "seed=1"}, "--set: needs a CONFIG to change"},
      {{"eval"}, "eval: RUN is required, `troupe eval --help` shows examples"},
      {{"eval", "no/such"}, "no/such: no such run folder"},
      {{"eval", empty}, empty + ": is not a folder, expected the folder of a run"},
      {{"play", folder.path.string()}, folder.path.string() + ": is not the folder of a run, it has no config.json"},
  });
  ::close(silent_writer);
}

TEST_CASE("troupe: what is inside the folder of a run is answered with that run") {
  const Folder folder;
  const std::string run = folder.path.string() + "/run", checkpoint = run + "/checkpoints/000000000150";
  std::filesystem::create_directories(checkpoint);
  for (const char* name : {"/config.json", "/run.lock", "/metrics.jsonl"}) folder.file("run" + std::string(name), "{}");
  folder.file("run/checkpoints/000000000150/state.json", "{}");
  const std::string part = ": is part of the run " + run + "; give " + run;
  const std::string saved =
      ": is a checkpoint of the run " + run + "; give " + run + ", whose newest checkpoint is used";
  for (const char* command : {"train", "eval", "play"})
    check_all({
        {{command, checkpoint}, checkpoint + saved},
        {{command, checkpoint + '/'}, checkpoint + '/' + saved},
        {{command, run + "/checkpoints"}, run + "/checkpoints" + part},
    });
  check_all({{{"eval", run + "/config.json"}, run + "/config.json" + part},
             {{"play", checkpoint + "/state.json"}, checkpoint + "/state.json" + part}});
}

TEST_CASE("troupe: a mistake is blamed on the file, on --set, or on both, as it was made") {
  const Folder folder;
  const std::string file = folder.file("grid.json", R"({"env": {"id": "GridWorld", "params": {"size": 5}}})");
  const std::string bad = folder.file("bad.json", R"({"env": {"id": "GridWorld", "params": {"sise": 5}}})");
  const std::string unknown = "env.params.sise: unknown key, did you mean env.params.size?";
  const std::string other_env = "env.params.size: unknown key, this environment has no parameters";
  check_all({
      {{"train", file, "--set", "env.params.sise=2"}, "--set: " + unknown},
      {{"config", file, "--set", R"(env.params={"sise":2})"}, "--set: " + unknown},
      {{"config", bad}, bad + ": " + unknown},
      {{"config", bad, "--set", "trainer.epochs=2"}, bad + ": " + unknown},
      {{"config", bad, "--set", "env.params.sise=2"}, bad + ": " + unknown},
      {{"config", file, "--set", "env.id=CartPole-v1"}, file + " with --set: " + other_env},
      {{"config", "cartpole", "--set", "stop.env_steps=0"},
       "--set: stop.env_steps: 0, with stop.updates 0 and stop.seconds 0, never ends the run; set one of them"},
  });
}

TEST_CASE("troupe: where a run folder is missing, the nearest one is suggested") {
  const Folder folder;
  const std::filesystem::path runs = folder.path / "runs";
  for (const char* name : {"cartpole", "second_try"}) {
    std::filesystem::create_directories(runs / name);
    for (const char* file : {"config.json", "run.lock"}) std::ofstream(runs / name / file) << "{}";
  }
  const auto error = [&](const std::string& words) {
    return testing::run_command({"/bin/sh", "-c", "cd \"$0\" && \"$1\" " + words, folder.path.string(),
                                 testing::built_program("troupe")})
        .err;
  };
  const std::string none = ": no such run folder, did you mean runs/cartpole?\n";
  CHECK(error("eval cartpole") == "troupe: cartpole" + none);
  CHECK(error("play cartpole/") == "troupe: cartpole/" + none);
  CHECK(error("eval runs/cartpol") == "troupe: runs/cartpol" + none);
  CHECK(error("eval elsewhere/cartpole") == "troupe: elsewhere/cartpole" + none);
  CHECK(error("eval nothing_like_it") == "troupe: nothing_like_it: no such run folder\n");
  CHECK(error("train second_try") == "troupe: second_try: no such run file, did you mean runs/second_try?\n");
  CHECK(error("train runs/second_tri") == "troupe: runs/second_tri: no such run file, did you mean runs/second_try?\n");
}

TEST_CASE("troupe: train refuses a run folder where a file is in its place or above it") {
  const Folder folder;
  const std::string file = folder.file("a_file", "");
  const std::string wanted = ": is not a folder, expected a new one, an empty one or that of a run";
  check_all({
      {{"train", "cartpole", "--run", file}, "--run: " + file + wanted},
      {{"train", "cartpole", "--run", "/dev/full"}, "--run: /dev/full" + wanted},
      {{"train", "cartpole", "--run", file + "/run"}, "--run: " + file + "/run: " + file + " is not a folder"},
      {{"train", "cartpole", "--run", "/dev/null/a/b"}, "--run: /dev/null/a/b: /dev/null is not a folder"},
  });
}

TEST_CASE("troupe: config takes the folder of a run for its config.json") {
  const Folder folder;
  std::filesystem::create_directories(folder.path / "run");
  const std::string config = folder.file("run/config.json", R"({"name": "mine", "seed": 77})");
  folder.file("run/run.lock", "1\n");
  const CommandResult result = troupe({"config", (folder.path / "run").string()});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("\"seed\": 77") != std::string::npos);
  CHECK(troupe({"config", config}).out == result.out);
}

TEST_CASE("troupe: an unknown environment or parameter ends in one line before anything starts") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  check_all({
      {{"train", file, "--set", "env.id=CartPol-v1"},
       "--set: env.id: \"CartPol-v1\" is unknown, did you mean \"CartPole-v1\"?"},
      {{"config", file, "--set", "env.params.gravty=3"},
       "--set: env.params.gravty: unknown key, this environment has no parameters"},
  });
}

TEST_CASE("troupe: config checks what train checks, parameters of evaluations included") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const std::vector<BadLine> lines = {
      {{file, "--set", "evaluation.env_params.foo=1"},
       "--set: evaluation.env_params.foo: unknown key, this environment has no parameters"},
      {{file, "--set", "env.id=GridWorld", "--set", "evaluation.env_params.size=4"},
       "--set: evaluation.env_params: {\"size\":4} change what is observed or which actions there are, so that the "
       "run's policy does not fit; leave such parameters to env.params"},
      {{file, "--set", "env.id=Pendulum-v1", "--set", "algorithm.advantage=optimal_token_baseline"},
       "--set: algorithm.advantage: \"optimal_token_baseline\" needs probabilities of categories, but the actions of "
       "Pendulum-v1 are continuous"},
      {{file, "--set", "algorithm.advantage=grpo", "--set", "algorithm.group_by=task"},
       "--set: algorithm.group_by: \"task\", but CartPole-v1 has no tasks; use \"batch\""},
      {{file, "--set", "model.log_std_start=-1"},
       "--set: model.log_std_start: -1 has no effect with env.id \"CartPole-v1\", whose actions are discrete; change "
       "that, or leave this at 0"},
      {{file, "--set", "model.log_std=scheduled"},
       "--set: model.log_std: \"scheduled\" has no effect with env.id \"CartPole-v1\", whose actions are discrete; "
       "change that, or leave this at \"state_independent\""},
      {{file, "--set", "algorithm.ratio=per_dimension"},
       "--set: algorithm.ratio: \"per_dimension\" has no effect with env.id \"CartPole-v1\", whose actions have one "
       "dimension and one step; change that, or leave this at \"joint\""},
      {{file, "--set", "env.id=Pendulum-v1", "--set", "model.log_std=scheduled", "--set", "algorithm.entropy_coef=0.1"},
       "--set: algorithm.entropy_coef: 0.1 has no effect with model.log_std \"scheduled\", which sets the entropy of "
       "continuous actions; change that, or leave this at 0"},
  };
  for (const char* command : {"config", "train"})
    for (BadLine line : lines) {
      line.words.insert(line.words.begin(), command);
      check_all({line});
    }
  CHECK(troupe({"config", "token_reach", "--set", "algorithm.ratio=per_dimension"}).exit_code == 0);
  CHECK(troupe({"config", "pendulum", "--set", "model.log_std_start=-1"}).exit_code == 0);
}

TEST_CASE("troupe: an unknown name is refused as unknown, whether it would have an effect or not") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const std::string kl = " (known: k1, kl, abs, k2, mse, k3, low_var_kl, full)";
  check_all({
      {{"config", file, "--set", "algorithm.kl=k33"},
       "--set: algorithm.kl: unknown name \"k33\", did you mean \"k3\"?" + kl},
      {{"train", file, "--set", "algorithm.kl=k33", "--set", "algorithm.kl_coef=0.1"},
       "--set: algorithm.kl: unknown name \"k33\", did you mean \"k3\"?" + kl},
  });
  const Words advantage{"config", file, "--set", "algorithm.advantage=vtrac", "--set", "algorithm.rho_bar=2"};
  CHECK(troupe(advantage).err.starts_with(
      "troupe: --set: algorithm.advantage: unknown name \"vtrac\", did you mean \"vtrace\"?"));
}

TEST_CASE("troupe: config and train refuse a device that this build cannot use" *
          doctest::skip(TROUPE_USES_CUDA != 0)) {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const std::string why = ", but this build has no CUDA; use \"cpu\", or build with the preset gpu";
  for (const char* command : {"config", "train"})
    check_all({
        {{command, file, "--set", "trainer.device=cuda"}, "--set: trainer.device: \"cuda\"" + why},
        {{command, file, "--set", "trainer.device=cuda:1"}, "--set: trainer.device: \"cuda:1\"" + why},
    });
}

TEST_CASE("troupe: config --fields lists the names of estimators and surrogates and refers to no other command") {
  const std::string fields = troupe({"config", "--fields"}).out;
  CHECK(fields.find("--fields") == std::string::npos);
  const size_t surrogate = fields.find("algorithm.surrogate = ");
  REQUIRE(surrogate != std::string::npos);
  CHECK(fields.substr(surrogate, fields.find("algorithm.surrogate_params", surrogate) - surrogate).find("gspo") !=
        std::string::npos);
}

TEST_CASE("troupe: train refuses what cannot fit into memory, naming the setting, and config warns of it") {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--set", "model.hidden=[65536,65536]"}, "model.hidden: [65536, 65536] needs at least "},
      {{"--set", "trainer.super_batch=1000000000", "--set", "stop.env_steps=1000000000000"},
       "trainer.super_batch: 1000000000 needs at least "},
      {{"--set", "workers.count=4096", "--set", "workers.groups=64", "--set", "rollout.length=65536", "--set",
        "replay.max_policy_lag=10000", "--set", "trainer.super_batch=65536"},
       "workers.count: 4096 needs at least "},
      {{"--set", "rollout.length=65536", "--set", "env.rows=32768", "--set", "inference.max_batch=65536", "--set",
        "trainer.super_batch=65536", "--set", "replay.max_policy_lag=40000"},
       "rollout.length: 65536 needs at least "},
  };
  for (const auto& [settings, start] : cases) {
    CAPTURE(start);
    Words train{"train", "cartpole"}, config{"config", "cartpole"};
    train.insert(train.end(), settings.begin(), settings.end());
    config.insert(config.end(), settings.begin(), settings.end());
    const CommandResult refused = troupe(train), warned = troupe(config);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.starts_with("troupe: " + start));
    CHECK(lines_of(refused.err).size() == 1);
    CHECK(warned.exit_code == 0);
    CHECK(warned.err.starts_with("troupe: warning: " + start));
  }
}

TEST_CASE("troupe: more threads than processors are a warning, with a line each") {
  const CommandResult result =
      troupe({"config", "cartpole", "--set", "trainer.threads=1000", "--set", "workers.count=4096"});
  CHECK(result.exit_code == 0);
  const std::vector<std::string> lines = lines_of(result.err);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("troupe: warning: trainer.threads: 1000 threads share "));
  CHECK(lines[1].starts_with("troupe: warning: workers.count: 4096 workers share "));
  CHECK(troupe({"config", "cartpole"}).err == "");
}

TEST_CASE("troupe: a deterministic run has no address to listen on") {
  check_all({
      {{"train", "cartpole", "--set", "deterministic=true", "--listen", "0.0.0.0:5555"},
       "--listen: 0.0.0.0:5555 has no effect with deterministic true; leave it out"},
      {{"train", "cartpole", "--set", "deterministic=true", "--stats", "5555"},
       "--stats: 127.0.0.1:5555 has no effect with deterministic true; leave it out"},
  });
}

TEST_CASE("troupe: config accepts every file of configs/ by its name") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    if (entry.is_directory()) continue;
    CAPTURE(entry.path());
    const auto name = entry.path().lexically_relative("configs").replace_extension("");
    CHECK(troupe({"config", name.string()}).exit_code == 0);
    ++files;
  }
  CHECK(files >= 1);
}

TEST_CASE("troupe: lists fit 100 columns") {
  // Except a field with its range, which is kept on one line.
  for (const Words& words : {Words{"envs"}, Words{"config", "--fields"}})
    for (const std::string& line : lines_of(troupe(words).out))
      if (line.starts_with("  ")) CHECK(line.size() <= 100);
}

TEST_CASE("troupe: envs lists the environments, as text and as JSON") {
  CHECK(troupe({"envs"}).out.starts_with("CartPole-v1\n"));
  const auto list = nlohmann::json::parse(troupe({"envs", "--json"}).out);
  CHECK(list.at(0).at("id") == "CartPole-v1");
  CHECK(list.at(0).at("observations").at(0).at("shape") == std::vector<int>{4});
  CHECK(list.at(0).at("action").at("bins") == std::vector<int>{2});
}

TEST_CASE("troupe: config prints the effective settings, which it accepts again") {
  const Folder folder;
  const CommandResult first = troupe({"config", "cartpole", "--set", "algorithm.gamma=0.5"});
  CHECK(first.exit_code == 0);
  CHECK(first.out.find("\"gamma\": 0.5") != std::string::npos);
  CHECK(first.out.find("\"name\": \"cartpole\"") != std::string::npos);
  CHECK(troupe({"config", folder.file("again.json", first.out)}).out == first.out);
}

TEST_CASE("troupe: config --defaults is a run file, and what follows -- is no option") {
  const Folder folder;
  const std::string defaults = folder.file("defaults.json", troupe({"config", "--defaults"}).out);
  CHECK(troupe({"config", "--", defaults}).exit_code == 0);
}

TEST_CASE("troupe: an output that cannot be written is an error") {
  const CommandResult result =
      testing::run_command({"/bin/sh", "-c", testing::built_program("troupe") + " config --fields > /dev/full"});
  CHECK(result.exit_code == 1);
  CHECK(result.err == "troupe: the output cannot be written\n");
}

}  // namespace troupe
