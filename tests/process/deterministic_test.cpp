// Deterministic runs: the same seed gives the same bytes, also if the run was killed, interrupted and resumed.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "tests/process/results.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  Words settings;
};

// Each takes about a second, and each has a different part of the state that a resume must restore.
const Case kCases[] = {
    {"synchronous", {"replay.max_policy_lag=0"}},
    {"lag 1, evaluations on the way", {"evaluation.every_updates=4"}},
    {"lag 3, two workers, two inference actors", {"replay.max_policy_lag=3", "workers.count=2", "inference.count=2"}},
    {"reuse, action masks", {"env.id=GridWorld", "replay.mode=reuse", "replay.max_policy_lag=4", "replay.max_reuse=3"}},
    {"reuse of single samples",
     {"replay.mode=reuse", "replay.draw=sample", "replay.max_policy_lag=4", "replay.max_reuse=3"}},
    {"v-trace, continuous, normalised",
     {"env.id=Pendulum-v1", "algorithm.advantage=vtrace", "model.normalize_observations=true",
      "model.normalize_returns=true"}},
    {"task sampling, chunks, one group, odd sizes",
     {"env.id=TokenReach", "algorithm.ratio=per_dimension", "workers.groups=1", "env.rows=5", "rollout.length=7",
      "trainer.epochs=1"}},
    {"lstm, burn-in, normalised",
     {R"(env.params={"velocities": false})", "model.kind=net",
      R"(model.net={"trunk": [16], "core": {"kind": "lstm", "size": 16}})", "model.sequence=4", "model.burn_in=1",
      "model.normalize_observations=true"}},
    {"gru, v-trace, lag 2, two workers",
     {R"(env.params={"velocities": false})", "model.kind=net",
      R"(model.net={"trunk": [16], "core": {"kind": "gru", "size": 16}})", "algorithm.advantage=vtrace",
      "replay.max_policy_lag=2", "workers.count=2"}},
    {"four shards, lag 2, normalised, two inference actors",
     {"trainer.shards=4", "workers.count=5", "trainer.minibatches=2", "replay.max_policy_lag=2", "inference.count=2",
      "model.normalize_observations=true", "model.normalize_returns=true"}},
    {"environments that fail",
     {"env.id=Synthetic",
      R"(env.params={"image_height": 4, "image_width": 4, "exception_probability": 0.01, "nan_probability": 0.01})",
      R"(evaluation.env_params={"exception_probability": 0, "nan_probability": 0})"}},
};

Words line_of(const std::string& folder, const Words& settings, int updates = 40) {
  Words words{"troupe", "train", "cartpole", "--run", folder};
  Words all{"deterministic=true",
            "env.rows=8",
            "rollout.length=8",
            "trainer.super_batch=256",
            "stats.every_updates=2",
            "stop.env_steps=0",
            "stop.updates=" + std::to_string(updates),
            "checkpoint.every_updates=5",
            "checkpoint.keep=0",
            "evaluation.episodes=2",
            "evaluation.rows=2"};
  all.insert(all.end(), settings.begin(), settings.end());
  const Words set_all = set(all);
  words.insert(words.end(), set_all.begin(), set_all.end());
  return words;
}

// Of a language model, with other parts of the state.
const Case kTokenCases[] = {
    {"synchronous, after a warm-up", {"replay.max_policy_lag=0", "warmup.steps=3"}},
    {"lag 1, evaluations on the way, of several answers",
     {"evaluation.every_updates=4", "evaluation.answers=3", "evaluation.temperature=1"}},
    {"lag 2, two workers, two inference actors, few slots",
     {"replay.max_policy_lag=2", "workers.count=2", "inference.count=2", "generation.answer_slots=7",
      "workers.groups=5", "replay.late=drop"}},
    {"late answers without their old tokens",
     {"replay.max_policy_lag=1", "replay.late=mask", "inference.count=2", "workers.count=2",
      "generation.answer_slots=7", "generation.max_tokens=40"}},
    {"reuse", {"replay.mode=reuse", "replay.max_policy_lag=4", "replay.max_reuse=3"}},
    {"two shards, lag 1, two inference actors",
     {"trainer.shards=2", "workers.count=3", "replay.max_policy_lag=1", "inference.count=2"}},
    {"a greedy answer to each prompt", {"algorithm.advantage=remax", "replay.max_policy_lag=1"}},
    {"a separate critic, a reference from after the warm-up with an adaptive weight, answers drawn by their scores",
     {"algorithm.advantage=gae", "algorithm.policy_filtration=max_random", "model.critic=separate",
      "trainer.value_only_updates=2", "warmup.steps=3", "reference.model=start", "reference.kl_controller=adaptive",
      "reference.kl_horizon=500"}},
    {"v-trace with a head, the exact KL to a reference",
     {"algorithm.advantage=vtrace", "model.critic=shared", "algorithm.bootstrap_cut_answers=true",
      "reference.model=start", "reference.in=loss", "reference.kl=full"}},
};

// The run folder is `name` in `folder`.
Words token_line_of(const std::string& folder, const std::string& name, const Words& settings) {
  const Words all{"deterministic=true", "stats.every_updates=2", "stop.updates=40", "checkpoint.every_updates=5",
                  "checkpoint.keep=0"};
  Words words = token_train_line(folder, set(all + settings));
  *std::next(std::ranges::find(words, "--run")) = folder + '/' + name;
  return words;
}

int run(const Words& line) {
  const CommandLine done(line);
  INFO(done.err);
  CHECK(done.exit_code == 0);
  return done.exit_code;
}

// Runs all of them at the same time.
void run_all(const std::vector<Words>& lines) {
  std::vector<std::unique_ptr<Process>> runs;
  for (const Words& line : lines) runs.push_back(std::make_unique<Process>(line));
  for (const auto& each : runs) {
    const int exit_code = each->wait().value_or(-1);
    REQUIRE_MESSAGE(exit_code == 0, each->err());
  }
}

uint64_t newest_checkpoint(const std::string& folder) {
  const auto all = checkpoints_of(folder);
  return all.empty() ? 0 : all.back();
}

// Starts the run and sends `signal` once there is one more checkpoint. False if the run ended before the signal.
bool cut_off(const Words& line, const std::string& folder, int signal) {
  const uint64_t before = newest_checkpoint(folder);
  Process process(line);
  REQUIRE(eventually([&] { return newest_checkpoint(folder) > before || process.exit_code(); }));
  process.signal(signal);
  return process.wait() == (signal == SIGKILL ? 128 + SIGKILL : 130);
}

// Makes a run folder whose run was killed once and interrupted once. On a busy machine the run can end before a signal
// reaches it; then it is started again from nothing.
void leave_in_parts(const Words& line, const std::string& folder) {
  for (int attempt = 0; attempt < 20; ++attempt) {
    fs::remove_all(folder);
    if (cut_off(line, folder, SIGKILL) && cut_off(line, folder, SIGINT)) return;
  }
  FAIL("the run was always over before it could be interrupted");
}

}  // namespace

TEST_CASE("deterministic: a run that was killed, interrupted and resumed equals an uninterrupted one byte for byte") {
  for (const Case& each : kCases) {
    CAPTURE(each.name);
    TempFolder folder;
    Process whole(line_of(folder / "whole", each.settings));
    const Words line = line_of(folder / "parts", each.settings);
    leave_in_parts(line, folder / "parts");
    CHECK(newest_checkpoint(folder / "parts") < 40);
    REQUIRE(run(line) == 0);
    REQUIRE_MESSAGE(whole.wait().value_or(-1) == 0, whole.err());
    check_same(folder / "parts", folder / "whole");
  }
}

TEST_CASE("deterministic: so does a run that trains a language model") {
  for (const Case& each : kTokenCases) {
    CAPTURE(each.name);
    TempFolder folder;
    Process whole(token_line_of(folder.path(), "whole", each.settings));
    const Words line = token_line_of(folder.path(), "parts", each.settings);
    leave_in_parts(line, folder / "parts");
    CHECK(newest_checkpoint(folder / "parts") < 40);
    REQUIRE(run(line) == 0);
    REQUIRE_MESSAGE(whole.wait().value_or(-1) == 0, whole.err());
    check_same(folder / "parts", folder / "whole", 40, 6);
  }
}

TEST_CASE("deterministic: so does one that draws prompts by their failures") {
  TempFolder folder;
  const std::string prompts = folder / "prompts.jsonl";
  std::ofstream file(prompts);
  for (int a = 0; a < 30; ++a) file << R"({"prompt": ")" << a << R"(>", "truth": ")" << a % 3 << "\"}\n";
  file.close();
  const Words settings{"task.name=dataset",       R"(task.params={"path": ")" + prompts + R"("})",
                       "generation.max_tokens=3", "task.sampling=failure_weighted",
                       "workers.count=2",         "replay.max_policy_lag=1"};
  Process whole(token_line_of(folder.path(), "whole", settings));
  const Words line = token_line_of(folder.path(), "parts", settings);
  leave_in_parts(line, folder / "parts");
  REQUIRE(run(line) == 0);
  REQUIRE_MESSAGE(whole.wait().value_or(-1) == 0, whole.err());
  check_same(folder / "parts", folder / "whole", 40, 6);
  CHECK(lines_of(folder / "whole").back().at("prompts").at("asked") > 20);
}

TEST_CASE(
    "deterministic: the number of ranks, and whether each has all moments, changes no byte, also if it is another one "
    "after a kill") {
  const Case cases[] = {
      {"synchronous", {"replay.max_policy_lag=0"}},
      {"lag 1, normalised", {"model.normalize_observations=true", "model.normalize_returns=true"}},
      {"lag 2, two inference actors", {"replay.max_policy_lag=2", "inference.count=2", "workers.count=5"}},
      {"reuse of single samples",
       {"replay.mode=reuse", "replay.draw=sample", "replay.max_policy_lag=4", "replay.max_reuse=3"}},
      {"environments that fail",
       {"env.id=Synthetic", "replay.max_policy_lag=2",
        R"(env.params={"image_height": 4, "image_width": 4, "exception_probability": 0.01, "nan_probability": 0.01})",
        R"(evaluation.env_params={"exception_probability": 0, "nan_probability": 0})"}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    TempFolder folder;
    const std::string divided = std::to_string(1 + (&each - cases) % 2);  // 1 or 2, in turn
    const auto line = [&](const std::string& name, int ranks) {
      return line_of(folder / name,
                     Words{"trainer.shards=4", "workers.count=4", "trainer.minibatches=2",
                           "trainer.ranks=" + std::to_string(ranks), "trainer.zero=" + (ranks == 4 ? divided : "0")} +
                         each.settings);
    };
    run_all({line("one", 1), line("two", 2), line("four", 4)});
    REQUIRE(cut_off(line("parts", 4), folder / "parts", SIGKILL));
    REQUIRE(run(line("parts", 2)) == 0);
    for (const std::string name : {"two", "four", "parts"}) {
      CAPTURE(name);
      check_same(folder / name, folder / "one");
    }
  }
}

TEST_CASE("deterministic: nor does it in runs that train a language model") {
  const TempFolder of_base;
  REQUIRE(run(token_line_of(of_base.path(), "base", {"stop.updates=1"})) == 0);
  REQUIRE(run({"troupe", "export", of_base / "base", "--hf", of_base / "hf"}) == 0);
  const Case cases[] = {
      {"synchronous, after a warm-up", {"replay.max_policy_lag=0", "warmup.steps=3"}},
      {"lag 2, micro-batches of two minibatches, corrected, two inference actors",
       {"replay.max_policy_lag=2", "inference.count=2", "trainer.minibatches=2", "trainer.epochs=2",
        "trainer.micro_batch_tokens=100", R"(algorithm.rollout_correction={"is": "token"})"}},
      {"a separate critic, a reference whose weight follows the KL",
       {"algorithm.advantage=gae", "model.critic=separate", "trainer.value_lr=1e-4", "trainer.value_only_updates=2",
        "reference.model=start", "reference.kl_controller=adaptive", "reference.kl_horizon=500"}},
      {"the exact KL to a reference, in the loss",
       {"reference.model=start", "reference.in=loss", "reference.kl=full", "trainer.micro_batch_tokens=100"}},
      {"adapters, and a critic with a learning rate of its own",
       {"model.path=" + of_base / "hf", R"(model.lora={"rank": 2})", "model.decoder={}", "algorithm.advantage=gae",
        "model.critic=shared", "trainer.value_lr=1e-4"}},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    TempFolder folder;
    const std::string divided = std::to_string(1 + (&each - cases) % 2);  // 1 or 2, in turn
    const auto line = [&](const std::string& name, int ranks) {
      return token_line_of(folder.path(), name,
                           Words{"trainer.shards=4", "workers.count=4", "trainer.ranks=" + std::to_string(ranks),
                                 "trainer.zero=" + (ranks == 4 ? divided : "0")} +
                               each.settings);
    };
    run_all({line("one", 1), line("two", 2), line("four", 4)});
    REQUIRE(cut_off(line("parts", 4), folder / "parts", SIGKILL));
    REQUIRE(run(line("parts", 2)) == 0);
    for (const std::string name : {"two", "four", "parts"}) {
      CAPTURE(name);
      check_same(folder / name, folder / "one", 40, 6);
    }
  }
}

TEST_CASE("deterministic: the same seed gives the same result, another seed gives another") {
  for (const std::string name : {"synchronous", "lstm, burn-in, normalised"}) {
    CAPTURE(name);
    const Words settings = std::ranges::find(kCases, name, &Case::name)->settings;
    TempFolder folder;
    run_all({line_of(folder / "a", settings), line_of(folder / "b", settings),
             line_of(folder / "c", settings + Words{"seed=2"})});
    check_same(folder / "b", folder / "a");
    const auto a = results_of(folder / "a", 40), c = results_of(folder / "c", 40);
    CHECK((a.at("model.safetensors") != c.at("model.safetensors")));
    CHECK((a.at("metrics.jsonl") != c.at("metrics.jsonl")));
  }
}

TEST_CASE("deterministic: a run whose limit is raised has the checkpoint of a run with that limit from the start") {
  TempFolder folder;
  const Words constant{"trainer.lr_schedule=constant"};  // other schedules depend on the end of the run
  REQUIRE(run(line_of(folder / "whole", constant, 33)) == 0);
  for (int updates : {1, 2, 5, 32, 33}) REQUIRE(run(line_of(folder / "parts", constant, updates)) == 0);
  const auto got = results_of(folder / "parts", 33), wanted = results_of(folder / "whole", 33);
  for (const std::string name : {"model.safetensors", "optimizer.safetensors", "extras.safetensors", "state.json"}) {
    CAPTURE(name);
    CHECK((got.at(name) == wanted.at(name)));
  }
}

TEST_CASE("deterministic: starting a finished run again changes no byte of its results") {
  TempFolder folder;
  const Words line = line_of(folder / "run", {}, 7);
  REQUIRE(run(line) == 0);
  const auto before = results_of(folder / "run", 7);
  REQUIRE(run(line) == 0);
  CHECK((results_of(folder / "run", 7) == before));
}

TEST_CASE("deterministic: the interval of checkpoints does not change the results") {
  TempFolder folder;
  run_all({line_of(folder / "often", {"checkpoint.every_updates=1"}, 20),
           line_of(folder / "never", {"checkpoint.every_updates=0"}, 20)});
  check_same(folder / "often", folder / "never", 20);
}

TEST_CASE(
    "deterministic: with an unreachable lag cap a run neither exceeds its step limit nor stops after one update") {
  for (const std::string mode : {"consume_once", "reuse"}) {
    CAPTURE(mode);
    TempFolder folder;
    Words settings{"replay.mode=" + mode, "replay.max_policy_lag=1000000", "stop.env_steps=4096"};
    if (mode == "reuse") settings.push_back("replay.max_reuse=2");
    REQUIRE(run(line_of(folder / "run", settings, 1000)) == 0);
    const Json summary = Json::parse(text_of(folder / "run/summary.json"));
    CHECK(summary.at("env_steps") >= 4096);
    CHECK(summary.at("env_steps") <= 4096 + 2 * 256);
    CHECK(summary.at("updates") >= 12);
  }
}
