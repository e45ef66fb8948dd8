// Tests of the program itself: troupe config, and the checks that it shares with troupe train.
#include <filesystem>

#include "tests/support/run_program.h"
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("troupe: the error about a mistake names the file, --set, or both") {
  const Folder folder;
  const std::string file = folder.file("grid.json", R"({"env": {"id": "GridWorld", "params": {"size": 5}}})");
  const std::string bad = folder.file("bad.json", R"({"env": {"id": "GridWorld", "params": {"sise": 5}}})");
  const std::string unknown = "env.params.sise: unknown key, did you mean env.params.size?";
  const std::string other_env = "env.params.size: unknown key, this environment has: velocities";
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

TEST_CASE("troupe: a critic_path without a separate critic is refused before its folder is read") {
  const CommandResult result = run_troupe(
      {"config", "tokens/reverse_ppo", "--set", "model.critic=shared", "--set", "model.critic_path=nowhere"});
  CHECK(result.exit_code == 2);
  CHECK_MESSAGE(
      result.err.find("model.critic_path: \"nowhere\" has no effect with model.critic \"shared\"") != std::string::npos,
      result.err);
}

TEST_CASE("troupe: config lists a run whose reward model is not there, and warns") {
  const CommandResult result = run_troupe({"config", "tokens/rlhf", "--set", "reward_model.path=nowhere"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("\"path\": \"nowhere\"") != std::string::npos);
  CHECK(result.err.starts_with("troupe: warning: reward_model.path: nowhere: there is no such folder"));
}

TEST_CASE("troupe: config prints the sections that the kind of the run has, as a config file of the same run") {
  const Folder folder;
  for (const bool tokens : {false, true}) {
    const CommandResult result = run_troupe({"config", tokens ? "tokens/reverse" : "cartpole"});
    REQUIRE(result.exit_code == 0);
    for (const std::string section : {"env", "rollout"})
      CHECK((result.out.find("\n  \"" + section + "\": {") == std::string::npos) == tokens);
    for (const std::string section : {"task", "tokenizer", "generation", "warmup", "reference", "reward_model"})
      CHECK((result.out.find("\n  \"" + section + "\": {") != std::string::npos) == tokens);
    for (const std::string section : {"model", "trainer", "network"})
      CHECK(result.out.find("\n  \"" + section + "\": {") != std::string::npos);
    CHECK(run_troupe({"config", folder.file("printed.json", result.out)}).out == result.out);
  }
}

TEST_CASE("troupe: config --memory prints what the memory of a run is for, the largest first") {
  const CommandResult tokens = run_troupe({"config", "tokens/reverse", "--memory"});
  CHECK(tokens.exit_code == 0);
  const std::vector<std::string> lines = lines_of(tokens.out);
  REQUIRE(lines.size() > 3);
  CHECK(lines[0].ends_with("  in all, of which"));
  CHECK(tokens.out.find("  weights, gradients and moments of the trainer (model.decoder: {") != std::string::npos);
  CHECK(tokens.out.find("  the program and its libraries\n") != std::string::npos);
  const CommandResult alone = run_troupe({"config", "--defaults", "--memory"});
  CHECK(alone.exit_code == 2);
  CHECK(alone.err == "troupe: --memory: needs a CONFIG to estimate\n");
}

TEST_CASE("troupe: config accepts the folder of a run in place of its config.json") {
  const Folder folder;
  std::filesystem::create_directories(folder.path / "run");
  const std::string config = folder.file("run/config.json", R"({"name": "mine", "seed": 77})");
  folder.file("run/run.lock", "1\n");
  const CommandResult result = run_troupe({"config", (folder.path / "run").string()});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("\"seed\": 77") != std::string::npos);
  CHECK(run_troupe({"config", config}).out == result.out);
}

TEST_CASE("troupe: an unknown environment or parameter gives a one-line error before anything starts") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  check_all({
      {{"train", file, "--set", "env.id=CartPol-v1"},
       "--set: env.id: \"CartPol-v1\" is unknown, did you mean \"CartPole-v1\"?"},
      {{"config", file, "--set", "env.params.gravty=3"},
       "--set: env.params.gravty: unknown key, this environment has: velocities"},
  });
}

TEST_CASE("troupe: config checks what train checks, parameters of evaluations included") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const std::vector<BadLine> lines = {
      {{file, "--set", "evaluation.env_params.foo=1"},
       "--set: evaluation.env_params.foo: unknown key, this environment has: velocities"},
      {{file, "--set", "env.id=GridWorld", "--set", "evaluation.env_params.size=4"},
       "--set: evaluation.env_params: {\"size\":4} change the observations or actions, so that the "
       "run's policy does not fit; set such parameters in env.params"},
      {{file, "--set", "env.id=Pendulum-v1", "--set", "algorithm.advantage=optimal_token_baseline"},
       "--set: algorithm.advantage: \"optimal_token_baseline\" needs probabilities of categories, but the actions of "
       "Pendulum-v1 are continuous"},
      {{file, "--set", "algorithm.advantage=grpo", "--set", "algorithm.group_by=task"},
       "--set: algorithm.group_by: \"task\", but CartPole-v1 has no tasks; use \"batch\""},
      {{file, "--set", "model.log_std_start=-1"},
       "--set: model.log_std_start: -1 has no effect with env.id \"CartPole-v1\", whose actions are discrete; remove "
       "model.log_std_start (default 0)"},
      {{file, "--set", "model.log_std=scheduled"},
       "--set: model.log_std: \"scheduled\" has no effect with env.id \"CartPole-v1\", whose actions are discrete; "
       "remove model.log_std (default \"state_independent\")"},
      {{file, "--set", "algorithm.ratio=per_dimension"},
       "--set: algorithm.ratio: \"per_dimension\" has no effect with env.id \"CartPole-v1\", whose actions have one "
       "dimension and one step; remove algorithm.ratio (default \"joint\")"},
      {{file, "--set", "env.id=Pendulum-v1", "--set", "model.log_std=scheduled", "--set", "algorithm.entropy_coef=0.1"},
       "--set: algorithm.entropy_coef: 0.1 has no effect with model.log_std \"scheduled\", which sets the entropy of "
       "continuous actions; set model.log_std to \"state_independent\", or remove algorithm.entropy_coef (default 0)"},
  };
  for (const char* command : {"config", "train"})
    for (BadLine line : lines) {
      line.words.insert(line.words.begin(), command);
      check_all({line});
    }
  CHECK(run_troupe({"config", "token_reach", "--set", "algorithm.ratio=per_dimension"}).exit_code == 0);
  CHECK(run_troupe({"config", "pendulum", "--set", "model.log_std_start=-1"}).exit_code == 0);
}

TEST_CASE("troupe: an unknown name is refused as unknown, also for a setting without effect") {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const std::string kl = " (known: k1, abs, k2, k3, low_var_kl, full, kl, mse, each also with a + at the end)";
  check_all({
      {{"config", file, "--set", "algorithm.kl=k33"},
       "--set: algorithm.kl: unknown name \"k33\", did you mean \"k3\"?" + kl},
      {{"train", file, "--set", "algorithm.kl=k33", "--set", "algorithm.kl_coef=0.1"},
       "--set: algorithm.kl: unknown name \"k33\", did you mean \"k3\"?" + kl},
  });
  const Words advantage{"config", file, "--set", "algorithm.advantage=vtrac", "--set", "algorithm.rho_bar=2"};
  CHECK(run_troupe(advantage).err.starts_with(
      "troupe: --set: algorithm.advantage: unknown name \"vtrac\", did you mean \"vtrace\"?"));
}

TEST_CASE("troupe: config and train refuse to draw single samples where whole columns are needed") {
  const Folder folder;
  const std::string file = folder.file("run.json", R"({"replay": {"draw": "sample"}})");
  const auto refusal = [&](const std::string& what) {
    return "--set: replay.draw: \"sample\" takes single steps out of rollouts, but " + what +
           " needs whole columns of them; use \"column\"";
  };
  const std::string core = R"(model.net={"core": {"kind": "gru", "size": 4}})", draw = "replay.draw=sample";
  CHECK(run_troupe({"config", file}).exit_code == 0);
  check_all({
      {{"config", file, "--set", draw, "--set", "algorithm.advantage=vtrace"},
       refusal("algorithm.advantage \"vtrace\"")},
      {{"train", file, "--set", draw, "--set", "model.kind=net", "--set", core},
       refusal("model.net.core, whose state depends on the steps before,")},
  });
}

TEST_CASE("troupe: train refuses devices that this build cannot use, all at once, and config warns of them" *
          doctest::skip(TROUPE_USES_CUDA != 0)) {
  const Folder folder;
  const std::string file = folder.file("run.json", "{}");
  const auto check_line = [&](const Words& settings, const std::string& line) {
    Words overrides;
    for (const std::string& setting : settings) {
      overrides.push_back("--set");
      overrides.push_back(setting);
    }
    const auto run = [&](const char* command) {
      Words words{command, file};
      words.insert(words.end(), overrides.begin(), overrides.end());
      return run_troupe(words);
    };
    const CommandResult refused = run("train"), printed = run("config");
    CHECK(refused.exit_code == 2);
    CHECK(refused.err == "troupe: " + line + ", or build with the preset gpu\n");
    CHECK(printed.exit_code == 0);
    CHECK(printed.err == "troupe: warning: " + line + ", or build with the preset gpu\n");
    CHECK(printed.out.find("\"cuda") != std::string::npos);
  };
  check_line({"trainer.device=cuda:1"},
             "trainer.device: \"cuda:1\", but this build has no CUDA; use \"cpu\" (--set trainer.device=cpu)");
  check_line({"inference.device=cuda"},
             "inference.device: \"cuda\", but this build has no CUDA; use \"auto\" (--set inference.device=auto)");
  check_line({"evaluation.device=cuda:3"},
             "evaluation.device: \"cuda:3\", but this build has no CUDA; use \"auto\" (--set evaluation.device=auto)");
  check_line({"inference.device=cuda", "trainer.device=cuda", "evaluation.device=cuda"},
             "trainer.device: \"cuda\", but this build has no CUDA; use \"cpu\" (--set trainer.device=cpu --set "
             "evaluation.device=auto --set inference.device=auto)");
  check_line({"network.weights=nccl", "trainer.device=cuda"},
             "network.weights: \"nccl\" cannot be used, since this build has no CUDA and NCCL; use \"gloo\"");
}

TEST_CASE("troupe: config --fields lists the names of estimators and surrogates and refers to no other command") {
  const std::string fields = run_troupe({"config", "--fields"}).out;
  CHECK(fields.find("--fields") == std::string::npos);
  const size_t surrogate = fields.find("algorithm.surrogate = ");
  REQUIRE(surrogate != std::string::npos);
  CHECK(fields.substr(surrogate, fields.find("algorithm.surrogate_params", surrogate) - surrogate).find("gspo") !=
        std::string::npos);
}

TEST_CASE("troupe: more threads than processors give one warning line per setting") {
  const CommandResult result =
      run_troupe({"config", "cartpole", "--set", "trainer.threads=1000", "--set", "workers.count=4096"});
  CHECK(result.exit_code == 0);
  const std::vector<std::string> lines = lines_of(result.err);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("troupe: warning: trainer.threads: 1000 threads share "));
  CHECK(lines[1].starts_with("troupe: warning: workers.count: 4096 workers share "));
  CHECK(run_troupe({"config", "cartpole"}).err == "");
  const CommandResult ranks = run_troupe({"config", "cartpole", "--set", "trainer.threads=1000", "--set",
                                          "trainer.shards=2", "--set", "trainer.ranks=2", "--set", "workers.count=2"});
  REQUIRE(lines_of(ranks.err).size() == 2);
  CHECK(lines_of(ranks.err)[1].starts_with("troupe: warning: trainer.ranks: 2 ranks with trainer.threads 1000 share "));
}

TEST_CASE("troupe: a rollout with more samples than an update takes from a shard gives a warning with what would fit") {
  const auto warning = [](const std::string& setting) {
    return run_troupe({"config", "cartpole", "--set", "workers.count=8", "--set", setting}).err;
  };
  CHECK(warning("trainer.shards=2") == "");
  CHECK(warning("trainer.shards=4") ==
        "troupe: warning: trainer.super_batch: 2048 / trainer.shards 4 is less than a rollout of 1024 samples "
        "(rollout.length 32 x env.rows 32); what an update cannot take is trained late or dropped as stale; use at "
        "least 4096, or fewer env.rows or a smaller rollout.length, or fewer shards\n");
  CHECK(warning("trainer.super_batch=512").find("2048") == std::string::npos);
  CHECK(warning("trainer.super_batch=512").find("use at least 1024, or fewer env.rows or a smaller rollout.length\n") !=
        std::string::npos);
}

TEST_CASE("troupe: config accepts every file of configs/ by its name") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
    if (entry.is_directory()) continue;
    CAPTURE(entry.path());
    const auto name = entry.path().lexically_relative("configs").replace_extension("");
    const bool in_python = name.string().starts_with("gym/");
    if (in_python && !test::python_has("gymnasium")) continue;
    std::vector<std::string> words{"config", name.string()};
    if (in_python) words.insert(words.end(), {"--set", "env.python=" + test::test_python()});
    const CommandResult result = run_troupe(words);
    // This machine may not have the model of the file, or its reward model, without which the file can be listed.
    const bool lacks_model = result.err.find("tools/fetch_smollm2") != std::string::npos;
    const bool lacks_reward_model = result.err.find("troupe.reward_model --example") != std::string::npos;
    CHECK(result.exit_code == (lacks_model ? 2 : 0));
    if (lacks_model || lacks_reward_model) CHECK(lines_of(result.err).size() == 1);
    ++files;
  }
  CHECK(files >= 1);
}

TEST_CASE("troupe: config prints the effective settings, which it accepts again") {
  const Folder folder;
  const CommandResult first = run_troupe({"config", "cartpole", "--set", "algorithm.gamma=0.5"});
  CHECK(first.exit_code == 0);
  CHECK(first.out.find("\"gamma\": 0.5") != std::string::npos);
  CHECK(first.out.find("\"name\": \"cartpole\"") != std::string::npos);
  CHECK(run_troupe({"config", folder.file("again.json", first.out)}).out == first.out);
}

TEST_CASE("troupe: config --defaults prints a config file, and words after -- are not options") {
  const Folder folder;
  const std::string defaults = folder.file("defaults.json", run_troupe({"config", "--defaults"}).out);
  CHECK(run_troupe({"config", "--", defaults}).exit_code == 0);
}
