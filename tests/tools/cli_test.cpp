// Tests of the program itself: help, and the exit codes and messages with which commands refuse mistakes.
#include "tests/support/run_command.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"
#include "tools/cli/commands.h"
#include "tools/cli/worker_process.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kCommands = {"train",   "warmup", "sweep", "worker", "inference", "scorer",  "rank", "node",
                         "spawn",   "eval",   "play",  "export", "runs",      "plot",    "envs", "config",
                         "metrics", "top",    "dash",  "bench",  "version",   "simulate"};

const std::string kSeedRange = " is not a seed, expected an integer in [0, 18446744073709551615]";
const std::string kExample = ", expected HOST:PORT, like 127.0.0.1:5555";

}  // namespace

TEST_CASE("troupe: the help of every command shows its usage and an example of it") {
  for (const std::string& name : kCommands) {
    CAPTURE(name);
    for (const Words& words : {Words{name, "--help"}, Words{name, "-h"}, Words{"help", name}}) {
      const CommandResult result = run_troupe(words);
      CHECK(result.exit_code == 0);
      CHECK(result.err == "");
      CHECK(result.out.find("Usage: troupe " + name) != std::string::npos);
      CHECK(result.out.find("Examples:\n  troupe " + name) != std::string::npos);
      CHECK(result.out.find("troupe " + name + ' ' + name) == std::string::npos);
      for (const std::string& line : lines_of(result.out)) CHECK(line.size() <= 80);
    }
  }
}

TEST_CASE("join_report: the exit code tells a run that refused from one that was lost") {
  const auto code = [](const std::vector<JoinNews::Kind>& news, const std::string& error, bool interrupted = false) {
    const auto report = std::make_shared<JoinReport>();
    const RunAddress run = report->address({"127.0.0.1", 5555}, std::nullopt);
    for (const JoinNews::Kind kind : news) run.on_news({kind, "inference 0", "text"});
    if (!error.empty()) report->fail(error);
    return report->exit_code(interrupted);
  };
  using Kind = JoinNews::Kind;
  CHECK(code({Kind::joined, Kind::ended}, "") == 0);
  CHECK(code({Kind::joined}, "", true) == 130);
  CHECK(code({Kind::joined}, "the run refuses") == 2);
  CHECK(code({Kind::joined, Kind::lost, Kind::joined}, "the run refuses") == 2);
  CHECK(code({Kind::joined, Kind::lost, Kind::gave_up}, "the run is gone; gave up after 600 s") == 1);
  CHECK_THROWS_AS(code({Kind::searching}, "no run is open there"), ConfigError);
}

TEST_CASE("troupe: the help of a command names what it requires in its usage, and the defaults of the rest") {
  const std::string train = run_troupe({"train", "--help"}).out, worker = run_troupe({"worker", "--help"}).out;
  CHECK(train.find("\nUsage: troupe train [CONFIG] [OPTIONS]\n") != std::string::npos);
  CHECK(train.find("\n  --run DIR             folder of the run;") != std::string::npos);
  CHECK(train.find("(default: runs/NAME)") != std::string::npos);
  CHECK(worker.find("\nUsage: troupe worker --connect HOST:PORT [OPTIONS]\n") != std::string::npos);
  CHECK(worker.find("(default: 1)") != std::string::npos);
  CHECK(run_troupe({"config", "--help"}).out.find("\nUsage: troupe config [CONFIG] [OPTIONS]\n") != std::string::npos);
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

TEST_CASE("troupe: the list of commands in this file is complete") {
  Words names;
  for (const Command& command : all_commands()) names.emplace_back(command.name);
  CHECK(names == kCommands);
}

TEST_CASE("troupe: the overview lists every command, those for maintainers under their own heading at the end") {
  const std::string overview = run_troupe({"--help"}).out;
  const size_t heading = overview.find("\nFor maintainers of troupe:\n");
  REQUIRE(heading != std::string::npos);
  for (const std::string& name : kCommands)
    CHECK((overview.find("\n  " + name + ' ') > heading) == (name == "simulate"));
  for (const std::string& name : kCommands) CHECK(overview.find("\n  " + name + ' ') != std::string::npos);
  CHECK(run_troupe({"help"}).out == overview);
  CHECK(run_troupe({"-h"}).exit_code == 0);
}

TEST_CASE("troupe: help --markdown prints the page of all commands, unless a command is given") {
  const CommandResult result = run_troupe({"help", "--markdown"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("# Commands\n"));
  CHECK(run_troupe({"--help", "--markdown"}).out == result.out);
  CHECK(run_troupe({"help", "train", "--markdown"}).out == run_troupe({"train", "--help"}).out);
}

TEST_CASE("troupe: metrics lists those whose name contains the argument, or all of them") {
  const std::string all = run_troupe({"metrics"}).out, lag = run_troupe({"metrics", "lag."}).out;
  CHECK(all.find("\nlearner.kl  nats\n") != std::string::npos);
  CHECK(all.find(lag) != std::string::npos);
  CHECK(lag.starts_with("lag.p50  updates\n"));
  CHECK(lag.find("env_steps") == std::string::npos);
  CHECK(run_troupe({"metrics", "--markdown"}).out.starts_with("# Metrics\n"));
  CHECK(run_troupe({"metrics", "lag.p50", "--json"}).out.starts_with(R"([{"path":"lag.p50",)"));
  check_all({
      {{"metrics", "lag", "--json", "--markdown"}, "metrics: --markdown: prints all metrics; leave out NAME"},
      {{"metrics", "--json", "--markdown"}, "metrics: --markdown: not together with --json"},
      {{"metrics", "learner.kll"}, "learner.kll: no metric has this in its name, did you mean learner.kl?"},
      {{"metrics", "xyzzy"}, "xyzzy: no metric has this in its name, `troupe metrics` lists them"},
      {{"metrics", "lag", "--markdown"}, "metrics: --markdown: prints all metrics; leave out NAME"},
  });
}

TEST_CASE("troupe: version prints one line") {
  const CommandResult result = run_troupe({"version"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.starts_with("troupe 0."));
  CHECK(run_troupe({"--version"}).out == result.out);
}

TEST_CASE("troupe: wrong commands and options give a one-line error") {
  check_all({
      {{}, "no command, `troupe --help` lists them"},
      {{""}, "\"\" is not a command, `troupe --help` lists them"},
      {{"trian"}, "\"trian\" is not a command, did you mean train?"},
      {{"xyzzy"}, "\"xyzzy\" is not a command, `troupe --help` lists them"},
      {{"help", "xyzzy"}, "\"xyzzy\" is not a command, `troupe --help` lists them"},
      {{"a\nb"}, "\"a\\x0ab\" is not a command, `troupe --help` lists them"},
      {{"version", "now"}, "version: \"now\" is one argument too many"},
      {{"version", "--json"}, "version: --json: unknown option, `troupe version --help` lists them"},
      {{"train"}, "train: CONFIG or --env is required, `troupe train --help` shows examples"},
      {{"train", "cartpole", "acrobot"}, "train: \"acrobot\" is one argument too many"},
      {{"train", "cartpole", "--sed", "3"}, "train: --sed: unknown option, did you mean --seed?"},
      {{"train", "cartpole", "--lisen=5"}, "train: --lisen=5: unknown option, did you mean --listen?"},
      {{"train", "--sed=3"}, "train: --sed=3: unknown option, did you mean --seed?"},
      {{"train", "runs/a", "--resume"},
       "train: --resume: unknown option, the same command resumes a run, and so does `troupe train RUN`"},
      {{"train", "cartpole", "--device=cuda"},
       "train: --device=cuda: unknown option, devices are settings, like --set trainer.device=cuda"},
      {{"train", "runs/a", "--checkpoint", "best"},
       "train: --checkpoint: unknown option, a run is resumed from its newest checkpoint; to begin a new run with the "
       "weights of another checkpoint, use --init-from RUN/checkpoints/NUMBER"},
      {{"train", "cartpole", "--load", "runs/a"},
       "train: --load: unknown option, to begin a new run with the weights of another one, use --init-from"},
      {{"train", "cartpole", "--learning-rate", "1e-3"},
       "train: --learning-rate: unknown option, settings are given with --set trainer.policy_lr=VALUE --set "
       "trainer.value_lr=VALUE"},
      {{"train", "cartpole", "--total-timesteps=1e6"},
       "train: --total-timesteps=1e6: unknown option, settings are given with --set stop.env_steps=1e6"},
      {{"train", "cartpole", "--num-envs", "8"},
       "train: --num-envs: unknown option, settings are given with --set env.rows=VALUE"},
      {{"train", "cartpole", "--deterministic", "a"},
       "train: --deterministic: unknown option, settings are given with --set deterministic=VALUE"},
      {{"train", "cartpole", "--gamma=0.9"},
       "train: --gamma=0.9: unknown option, settings are given with --set algorithm.gamma=0.9"},
      {{"train", "cartpole", "--trainer.epochs", "2"},
       "train: --trainer.epochs: unknown option, settings are given with --set trainer.epochs=VALUE"},
      {{"train", "cartpole", "--batch-size", "64"},
       "train: --batch-size: unknown option, the size of a minibatch is trainer.super_batch / trainer.minibatches"},
      {{"train", "cartpole", "--rows", "8"}, "train: --rows: unknown option, `troupe train --help` lists them"},
      {{"train", "cartpole", "trainer.epochs=4"},
       "train: \"trainer.epochs=4\" is one argument too many; settings are given with --set trainer.epochs=4"},
      {{"train", "cartpole", "env.params.size=9"},
       "train: \"env.params.size=9\" is one argument too many; settings are given with --set env.params.size=9"},
      {{"train", "cartpole", "num_envs=8"},
       "train: \"num_envs=8\" is one argument too many; settings are given with --set env.rows=8"},
      {{"train", "cartpole", "a=b"}, "train: \"a=b\" is one argument too many"},
      {{"version", "--gamma"}, "version: --gamma: unknown option, `troupe version --help` lists them"},
      {{"train", "cartpole", "--seed"}, "train: --seed: needs a value"},
      {{"train", "cartpole", "--set"}, "train: --set: needs a value"},
      {{"train", "cartpole", "--seed", "1", "--seed", "2"}, "train: --seed: is given more than once"},
  });
}

TEST_CASE("troupe: an empty path gives a one-line error in every command that takes one") {
  const std::string run = "RUN: is empty, expected the folder of a run", file = "is empty, expected the name of a file";
  const std::string name = "the name of the config file is empty, expected a path or the name of a built-in one";
  const std::string weights = "--init-from: is empty, expected the folder of a run or of a checkpoint, or a file";
  check_all({
      {{"train", ""}, name},
      {{"warmup", ""}, name},
      {{"config", ""}, name},
      {{"train", "cartpole", "--run", ""}, "--run: is empty, expected a folder"},
      {{"warmup", "tokens/reverse", "--run="}, "warmup: --run: needs a value"},
      {{"train", "cartpole", "--init-from", ""}, weights},
      {{"warmup", "tokens/reverse", "--init-from="}, "warmup: --init-from: needs a value"},
      {{"eval", ""}, run},
      {{"eval", "runs/x", "--answers-file", ""}, "--answers-file: " + file},
      {{"play", ""}, run},
      {{"export", "", "--hf", "models/x"}, run},
      {{"export", "runs/x", "--hf", ""}, "--hf: is empty, expected a new or an empty folder"},
      {{"export", "runs/x", "--hf="}, "export: --hf: needs a value"},
      {{"export", "runs/x", "--csv", ""}, "--csv: is empty, expected a file, or -"},
      {{"runs", ""}, "DIR: is empty, expected a folder"},
      {{"runs", "--group", "seed", "--sort", "score"},
       "runs: --sort: has no effect with --group, which lists the best group first; leave it out"},
      {{"plot", "runs/x", "--title", "a"},
       "plot: --title: has no effect without --output, which writes a picture; leave it out"},
      {{"train", "cartpole", "--name", "a/b"},
       "--name: \"a/b\": has a slash; --run gives the folder, --name only what the run is called"},
      {{"train", "cartpole", "--tag", "a b"}, "--tag: \"a b\": has a comma or a space; give --tag once for each tag"},
      {{"sweep", "cartpole", "--random", "3"},
       "--random: nothing is drawn; give a range or a list, like --set trainer.policy_lr=1e-5..1e-3"},
      {{"sweep", "cartpole", "--set", "seed=1..2"},
       "--set: seed=1..2: is a range, which needs --random N; a list gives values: [1e-4, 1e-3]"},
      {{"plot", ""}, run},
      {{"plot", "runs/x", "-o", ""}, "--output: \"\": expected a name that ends with .svg, .png or .pdf"},
      {{"bench", "sampling", "--plot", ""}, "--plot: " + file},
  });
}

TEST_CASE("troupe: wrong numbers give a one-line error") {
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
      {{"play", "runs/x", "--greedy"}, "--greedy: has no effect without --prompt"},
      {{"play", "runs/x", "--prompt", "p", "--greedy", "--temperature", "1"},
       "--temperature: cannot go with --greedy; leave one out"},
      {{"play", "runs/x", "--prompt", "p", "--greedy", "--episodes", "2"},
       "--episodes: 2, but there is one most likely answer; use 1"},
      {{"play", "runs/x", "--prompt", "p", "--temperature", "0"},
       "--temperature: \"0\" is not valid, expected a number in [0.001, 100]"},
      {{"eval", "runs/x", "--temperature", "0.0001"},
       "--temperature: \"0.0001\" is not valid, expected 0 or a number in [0.001, 100]"},
      {{"eval", "runs/x", "--answers", "0"}, "--answers: 0 is out of range, expected an integer in [1, 1024]"},
      {{"eval", "runs/x", "--episodes", "ten"},
       "--episodes: \"ten\" is not an integer, expected an integer in [1, 1000000]"},
      {{"bench", "sampling", "--seconds", "0"},
       "--seconds: \"0\" is not valid, expected a number of seconds in (0, 3600]"},
      {{"bench", "sampling", "--seconds", "nan"},
       "--seconds: \"nan\" is not valid, expected a number of seconds in (0, 3600]"},
      {{"bench", "samplng"}, "bench: \"samplng\" is unknown, did you mean sampling?"},
      {{"bench", "x"},
       "bench: \"x\" is unknown, expected one of: sampling, inference, trainer, weights, replay, gae, vtrace, balance, "
       "surrogate, logprob, bridge, mujoco, gemm, generate, lm_train, micro_batches, lag_figures, verdicts, stats"},
      {{"bench", "weights", "--plot", "x.svg"},
       "bench: --plot: weights cannot be drawn, only gae, vtrace, surrogate, logprob, balance"},
      {{"bench", "gae", "--nccl"}, "bench: --nccl: goes with weights only, remove it"},
      {{"bench", "gae", "--ranks", "2"}, "bench: --ranks: only for trainer"},
      {{"bench", "weights", "--exchange", "400"}, "bench: --exchange: only for trainer"},
      {{"bench", "trainer", "--link", "10"}, "bench: --link: needs --ranks N"},
      {{"bench", "trainer", "--ranks", "2", "--exchange", "400"},
       "bench: --exchange: cannot go with --ranks; leave one out"},
      {{"bench", "trainer", "--ranks", "1"}, "--ranks: 1 is out of range, expected an integer in [2, 64]"},
      {{"bench", "trainer", "--ranks", "2", "--hidden", "64,"},
       "--hidden: \"\" is not an integer, expected an integer in [1, 65536]"},
      {{"simulate"}, "simulate: expected exactly one of --seeds A..B and --seed N"},
      {{"simulate", "--seed", "1", "--seeds", "1..2"}, "simulate: expected exactly one of --seeds A..B and --seed N"},
      {{"simulate", "--mutate", ""}, "--mutate: is empty, expected the name of a bug, or list"},
      {{"simulate", "--mutate", "list", "--seed", "1"},
       "simulate: --mutate list: cannot go with other options; leave them out"},
      {{"simulate", "--mutate", "credit_lost", "--seed", "1", "--seeds", "1..2"},
       "simulate: expected exactly one of --seeds A..B and --seed N"},
      {{"simulate", "--seeds", "5"}, "--seeds: \"5\" is not a range, expected A..B, like 1..1000"},
      {{"simulate", "--seeds", "5..1"}, "--seeds: 5..1 is empty, expected A..B with A <= B"},
      {{"simulate", "--seeds", "1.."}, "--seeds: \"\"" + kSeedRange},
  });
}

TEST_CASE("troupe: wrong addresses give a one-line error") {
  const std::string listening = " has no port, expected HOST:PORT or a port, like 127.0.0.1:5555 or 5555";
  check_all({
      {{"worker", "--conect", "h:1"}, "worker: --conect: unknown option, did you mean --connect?"},
      {{"worker", "h:1"}, "worker: --connect is required, `troupe worker --help` shows examples"},
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
      {{"train", "cartpole", "--on-alarm", " "}, "--on-alarm: is empty, expected a command for the shell"},
      {{"node", "--listen", "70000"}, "--listen port: 70000 is out of range, expected an integer in [0, 65535]"},
      {{"spawn", "--node", "a:1", "--workers", "3"}, "spawn: --run is required, `troupe spawn --help` shows examples"},
      {{"train", "cartpole", "--listen", "5", "--stats", "5"},
       "--stats: 127.0.0.1:5 is also --listen; they need two ports"},
  });
}

TEST_CASE("troupe: an output that cannot be written is an error") {
  const CommandResult result =
      test::run_command({"/bin/sh", "-c", test::built_program("troupe") + " config --fields > /dev/full"});
  CHECK(result.exit_code == 1);
  CHECK(result.err == "troupe: the output cannot be written\n");
}
