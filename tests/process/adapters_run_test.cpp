// Runs that train adapters of another run's token_transformer, with real processes: with inference in a process of its
// own, resumed, evaluated, and with another base.

#include <signal.h>

#include <filesystem>

#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

Words transformer(const Words& settings) {
  return set({"model.kind=token_transformer", "model.hidden=[8]", "checkpoint.every_updates=1",
              R"(model.decoder={"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
                                "num_key_value_heads": 2, "intermediate_size": 16})"}) +
         set(settings);
}

Words adapted(const std::string& base, const Words& settings) {
  return transformer({"model.path=" + base, R"(model.lora={"rank": 2})"}) + set(settings);
}

void train_base(const std::string& folder, const std::string& seed) {
  const CommandLine base(train_line(folder, transformer({"stop.updates=2", "seed=" + seed})));
  REQUIRE_MESSAGE(base.exit_code == 0, base.err);
}

}  // namespace

TEST_CASE("adapters: a run trains those of another run, with inference in a process of its own, and is evaluated") {
  TempFolder folder;
  const std::string base = folder / "base", run_folder = folder / "run";
  train_base(base, "1");
  {
    TrainProcess run(run_folder, adapted(base, {"stop.updates=1000000", "workers.count=0", "inference.count=0"}));
    auto worker = start_worker(run.workers_at());
    const Process inference({"troupe", "inference", "--connect", run.workers_at()});
    REQUIRE(run.makes_updates(3));
    CHECK(run.interrupt().value_or(-1) == 130);
    CHECK(balances(run.summary().at("ledger")));
  }
  CHECK(json_of(run_folder + "/config.json").at("model").at("path") == checkpoint_folder(base, 2));
  std::filesystem::rename(base, folder / "elsewhere");
  const CommandLine gone({"troupe", "eval", run_folder});
  CHECK(gone.exit_code == 2);
  CHECK_MESSAGE(has(gone.err, "model.path: " + checkpoint_folder(base, 2)), gone.err);
  const std::string moved = "model.path=" + checkpoint_folder(folder / "elsewhere", 2);
  const CommandLine eval(Words{"troupe", "eval", run_folder, "--episodes", "2"} + set({moved}));
  CHECK_MESSAGE(eval.exit_code == 0, eval.err);
}

TEST_CASE("adapters: another base, and a start with a whole decoder, are refused") {
  TempFolder folder;
  const std::string base = folder / "base", other = folder / "other", run = folder / "run";
  train_base(base, "1");
  train_base(other, "2");
  REQUIRE(CommandLine(train_line(run, adapted(base, {"stop.updates=1"}))).exit_code == 0);
  const CommandLine resumed(train_line(run, adapted(other, {"stop.updates=2"})));
  CHECK(resumed.exit_code == 2);
  CHECK_MESSAGE(has(resumed.err, "model.base (the hash of the weights in model.path) was "), resumed.err);
  const CommandLine whole(train_line(folder / "new", adapted(base, {"stop.updates=1"}) + Words{"--init-from", other}));
  CHECK(whole.exit_code == 2);
  CHECK_MESSAGE(has(whole.err, "has a whole decoder, and this run trains adapters of one (model.lora); set model.path"),
                whole.err);
  const CommandLine of_adapters(train_line(folder / "new", adapted(run, {"stop.updates=1"})));
  CHECK(of_adapters.exit_code == 2);
  CHECK_MESSAGE(has(of_adapters.err, "model.path: " + run + ": was trained with model.lora {\"rank\":2}; give a run "),
                of_adapters.err);
  const CommandLine tanh(train_line(folder / "new", adapted(base, {"model.activation=relu", "stop.updates=1"})));
  CHECK(tanh.exit_code == 2);
  CHECK_MESSAGE(has(tanh.err, "was trained with model.activation \"tanh\", this run has \"relu\""), tanh.err);
}

TEST_CASE("adapters: a run begins with those of a run with the same base") {
  TempFolder folder;
  const std::string base = folder / "base", first = folder / "first", next = folder / "next";
  train_base(base, "1");
  REQUIRE(CommandLine(train_line(first, adapted(base, {"stop.updates=2"}))).exit_code == 0);
  const CommandLine begun(train_line(next, adapted(base, {"stop.updates=1"}) + Words{"--init-from", first}));
  CHECK_MESSAGE(begun.exit_code == 0, begun.err);
}

TEST_CASE("adapters: the merged run needs no base, plays as the adapters do, and can be a base itself") {
  TempFolder folder;
  const std::string base = folder / "base", run = folder / "run", merged = folder / "new/merged";
  train_base(base, "1");
  REQUIRE(CommandLine(train_line(run, adapted(base, {"stop.updates=3", "trainer.policy_lr=0.01"}))).exit_code == 0);
  const CommandLine exported({"troupe", "export", run, "--run", merged, "--merge"});
  REQUIRE_MESSAGE(exported.exit_code == 0, exported.err);
  CHECK(has(exported.out, merged + ": the merged model of " + run + " after 3 updates"));
  const Words eval{"--episodes", "5", "--json"};
  const CommandLine of_adapters(Words{"troupe", "eval", run} + eval);
  std::filesystem::remove_all(base);
  const CommandLine of_merged(Words{"troupe", "eval", merged} + eval);
  REQUIRE_MESSAGE(of_merged.exit_code == 0, of_merged.err);
  for (const char* figure : {"return_mean", "length_mean"})
    CHECK(Json::parse(of_merged.out).at(figure).get<double>() ==
          doctest::Approx(Json::parse(of_adapters.out).at(figure).get<double>()).epsilon(1e-5));
  CHECK(CommandLine({"troupe", "play", merged}).exit_code == 0);
  const CommandLine next(train_line(folder / "next", adapted(merged, {"stop.updates=1"})));
  CHECK_MESSAGE(next.exit_code == 0, next.err);
}

TEST_CASE("adapters: an export as a run is of adapters, and into a new folder") {
  TempFolder folder;
  const std::string base = folder / "base", run = folder / "run";
  train_base(base, "1");
  REQUIRE(CommandLine(train_line(run, adapted(base, {"stop.updates=1"}))).exit_code == 0);
  const auto refusal = [&](const Words& more) {
    const CommandLine refused(Words{"troupe", "export"} + more);
    CHECK(refused.exit_code == 2);
    return refused.err;
  };
  CHECK(
      has(refusal({run, "--run", folder / "x"}), "--run: writes a run without adapters, which needs --merge; add it"));
  CHECK(
      has(refusal({base, "--run", folder / "x", "--merge"}),
          "model.kind is \"token_transformer\" with model.lora {}, --run is for \"token_transformer\" with adapters"));
  CHECK(has(refusal({run, "--run", base, "--merge"}), "is not empty, expected a new or an empty folder"));
  CHECK(has(refusal({run, "--hf", folder / "x", "--merge"}), "only runs with \"decoder\" can be exported"));
  CHECK_FALSE(std::filesystem::exists(folder / "x"));
}

TEST_CASE("adapters: a deterministic run that is killed and resumed ends with the same bytes") {
  TempFolder folder;
  const std::string base = folder / "base", whole = folder / "whole", run = folder / "run";
  train_base(base, "1");
  const Words settings = adapted(base, {"deterministic=true", "stop.updates=30"});
  REQUIRE(CommandLine(train_line(whole, settings)).exit_code == 0);
  {
    Process killed(train_line(run, settings));
    REQUIRE(eventually([&] { return checkpoints_of(run).size() > 1; }));
    killed.signal(SIGKILL);
    killed.wait();
  }
  const CommandLine resumed(train_line(run, settings));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  const std::string file = "/model.safetensors";
  CHECK(text_of(checkpoint_folder(run, 30) + file) == text_of(checkpoint_folder(whole, 30) + file));
}
