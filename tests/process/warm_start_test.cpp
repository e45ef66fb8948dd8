// New runs that begin with the weights of another run or of a file: troupe train --init-from.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/base/crc32c.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/process/train_process.h"
#include "tests/process/warm_starts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
namespace fs = std::filesystem;

namespace {

using Tensors = std::map<std::string, Array>;

// A learning rate so small that updates hardly change the weights.
const Words kStill = set({"trainer.policy_lr=1e-9", "trainer.value_lr=1e-9"});

Tensors tensors_of(const std::string& path) { return read_safetensors(posix_disk(), path).tensors; }

// The largest difference between elements of two float32 tensors.
float distance(const Array& a, const Array& b) {
  REQUIRE(a.shape() == b.shape());
  float largest = 0;
  for (size_t i = 0; i < a.view<float>().size(); ++i)
    largest = std::max(largest, std::abs(a.view<float>()[i] - b.view<float>()[i]));
  return largest;
}

// Whether all weights of two models are nearly equal.
bool is_near(const Tensors& a, const Tensors& b) {
  return std::ranges::all_of(a,
                             [&](const auto& tensor) { return distance(tensor.second, b.at(tensor.first)) < 1e-4f; });
}

}  // namespace

TEST_CASE("warm start: a new run begins with the weights of the newest checkpoint of another run and counts from 0") {
  const Former former;
  const std::string run = former.folder / "run";
  const CommandLine started =
      train(run, updates(1) + kStill + from(former.run) + set({"algorithm.gamma=0.5", "seed=9"}));
  CHECK_MESSAGE(started.exit_code == 0, started.err);
  const std::string source = model_of(former.run, 3);
  CHECK(has(started.out, "beginning with the weights of " + source + " (checksum "));
  CHECK(log_has(run, "beginning with the weights of " + source));
  CHECK(is_near(tensors_of(model_of(run, 1)), tensors_of(source)));
  CHECK(!is_near(tensors_of(model_of(run, 1)), tensors_of(model_of(former.run, 1))));
  const Json state = state_of(run);
  CHECK(state.at("number") == 1);
  CHECK(state.at("epoch") == 0);
  CHECK(state.at("scalars").at("optimizer.policy_steps") == 16);  // 4 epochs of 4 minibatches
  CHECK(state.at("scalars").at("stats.starts") == 1);
  const Json summary = json_of(run + "/summary.json");
  CHECK(summary.at("updates") == 1);
  CHECK(summary.at("env_steps") == summary.at("ledger").at("produced"));
  CHECK(balances(summary.at("ledger")));
  CHECK(tensors_of(run + "/init.safetensors") == tensors_of(source));
}

TEST_CASE("warm start: a checkpoint folder, its weights file and a copy of either are sources too") {
  const Former former;
  const std::string file = former.folder / "mine.safetensors";
  fs::copy(model_of(former.run, 1), file);
  const std::string copied = former.folder / "a checkpoint";
  fs::copy(checkpoint_folder(former.run, 1), copied);
  int i = 0;
  for (const std::string& source : {checkpoint_folder(former.run, 1), checkpoint_folder(former.run, 1) + "/", copied,
                                    model_of(former.run, 1), file, former.run + "/checkpoints/1"}) {
    CAPTURE(source);
    const std::string run = former.folder / std::to_string(i++);
    const CommandLine started = train(run, updates(1) + kStill + from(source));
    CHECK_MESSAGE(started.exit_code == 0, started.err);
    CHECK(is_near(tensors_of(model_of(run, 1)), tensors_of(model_of(former.run, 1))));
  }
}

TEST_CASE("warm start: environment parameters and algorithm may differ, but not the size of the observations") {
  TempFolder folder;
  const std::string former = folder / "former", run = folder / "run";
  const Words grid = set({"env.id=GridWorld", "env.params.size=5"});
  REQUIRE(train(former, updates(1) + grid).exit_code == 0);
  const Words other = set({"env.params.slip=0.3", "algorithm.advantage=vtrace", "trainer.epochs=1", "env.rows=4"});
  const CommandLine started = train(run, updates(1) + grid + other + from(former));
  CHECK_MESSAGE(started.exit_code == 0, started.err);
  CHECK(has(refusal(folder / "larger", updates(1) + grid + set({"env.params.size=6"}) + from(former)),
            "tensor policy.0.weight is float32 [64, 25], this run's model has float32 [64, 36]\n"));
  CHECK(has(refusal(folder / "other", updates(1) + from(former)),
            "tensor policy.0.weight is float32 [64, 25], this run's model has float32 [64, 4]\n"));
}

TEST_CASE("warm start: the statistics of normalisers are taken from the source too") {
  TempFolder folder;
  const Words normalised = set({"model.normalize_observations=true", "model.normalize_returns=true"});
  const std::string former = folder / "former", run = folder / "run";
  REQUIRE(train(former, updates(1) + normalised).exit_code == 0);
  REQUIRE(train(run, updates(1) + kStill + normalised + from(former)).exit_code == 0);
  const auto count = [](const std::string& path, const std::string& name) {
    return tensors_of(path).at(name + "_normalizer.count").view<double>()[0];
  };
  for (const std::string name : {"observation", "return"})
    CHECK(count(model_of(run, 1), name) >= count(model_of(former, 1), name) + 1024);
}

TEST_CASE("warm start: a new run with the settings of a warm-started run reports that it begins with new weights") {
  const Former former;
  const std::string run = former.folder / "run", like = former.folder / "like";
  REQUIRE(train(run, updates(1) + from(former.run)).exit_code == 0);
  const Words again{"troupe", "train", run, "--run", like};
  const std::string line =
      run + " was started with --init-from " + former.run + "; " + like + " begins with new weights";
  const CommandLine first(again), second(again + set({"stop.updates=2"}));
  REQUIRE(first.exit_code == 0);
  REQUIRE(second.exit_code == 0);
  CHECK(has(first.out, line));
  CHECK(log_has(like, line));
  CHECK(!has(second.out, line));  // this start resumes the run
  const CommandLine given(Words{"troupe", "train", run, "--run", former.folder / "given"} + from(former.run));
  REQUIRE(given.exit_code == 0);
  CHECK(!has(given.out, "begins with new weights"));
}

TEST_CASE("warm start: after a kill before the first checkpoint the run begins with the same weights again") {
  const Former former;
  const std::string run = former.folder / "run";
  const Words endless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=0"}) + kStill;
  {
    TrainProcess killed(run, endless + from(former.run));
    REQUIRE(killed.makes_updates(1));
    killed.process().signal(SIGKILL);
    REQUIRE(killed.process().wait().value_or(-1) == 137);
  }
  const Tensors given = tensors_of(model_of(former.run, 3));
  fs::remove_all(former.run);
  for (const Words& source : {from(former.run), Words{}}) {
    TrainProcess again(run, endless + source);
    CHECK(has(again.process().out(), "beginning with the weights of "));
    REQUIRE(again.makes_updates(1));
    again.process().signal(SIGKILL);
    REQUIRE(again.process().wait().value_or(-1) == 137);
  }
  TrainProcess last(run, endless);
  REQUIRE(last.makes_updates(1));
  REQUIRE(last.interrupt().value_or(-1) == 130);
  CHECK(is_near(tensors_of(model_of(run, checkpoints_of(run).back())), given));
}

TEST_CASE("warm start: a damaged or missing init.safetensors is refused, and is written again from its source") {
  const Former former;
  const std::string run = former.folder / "run", kept = run + "/init.safetensors";
  const Words endless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=0"}) + kStill;
  {
    TrainProcess killed(run, endless + from(former.run));
    REQUIRE(killed.makes_updates(1));
    killed.process().signal(SIGKILL);
    REQUIRE(killed.process().wait().value_or(-1) == 137);
  }
  REQUIRE(checkpoints_of(run).empty());
  const Safetensors good = read_safetensors(posix_disk(), kept);
  Safetensors changed = good;
  Array& weight = changed.tensors.at("policy.1.weight");
  weight = weight.clone();  // copies of an array share their data
  weight.mutable_view<float>()[3] = 0;
  const auto damage = [&](int kind) {
    if (kind == 0) write_safetensors(posix_disk(), kept, changed.tensors, changed.metadata);
    if (kind == 1) write_safetensors(posix_disk(), kept, changed.tensors, {});
    if (kind == 2) std::ofstream(kept) << "no tensors";
    if (kind == 3) fs::remove(kept);
  };
  const std::string problems[] = {": damaged: its tensors have the checksum ",
                                  ": damaged: its tensors have the checksum ",
                                  ": not a valid safetensors file: ", ": is missing"};
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    damage(kind);
    const std::string error = refusal(run, updates(1));
    CHECK(has(error, "troupe: " + kept + problems[kind]));
    CHECK(has(error, "; restore it, give --init-from " + former.run + " again, or use another run folder\n"));
    {
      TrainProcess again(run, endless + from(former.run));
      REQUIRE(again.makes_updates(1));
      CHECK(has(again.process().out(), "beginning with the weights of "));
      again.process().signal(SIGKILL);
      REQUIRE(again.process().wait().value_or(-1) == 137);
    }
    CHECK((tensors_of(kept) == good.tensors));
  }
  damage(3);
  fs::remove_all(checkpoint_folder(former.run, 3));
  CHECK(has(refusal(run, updates(1) + from(former.run)), "has other weights now (checksum "));
  fs::remove_all(former.run);
  CHECK(has(refusal(run, updates(1) + from(former.run)), kept + ": is missing, and it cannot be written again: "));
}

TEST_CASE("warm start: init.json or the metadata of init.safetensors is enough to start the run again") {
  const Former former;
  const std::string run = former.folder / "run", kept = run + "/init.safetensors";
  REQUIRE(train(run, updates(1) + from(former.run)).exit_code == 0);
  fs::remove(kept);  // init.json still records the source
  CHECK(train(run, updates(2) + from(former.run)).exit_code == 0);
  const std::string other = former.folder / "other";
  CHECK(has(refusal(run, updates(3) + from(checkpoint_folder(former.run, 1))),
            " was started with --init-from " + former.run + "; "));
  REQUIRE(train(other, updates(1) + from(former.run)).exit_code == 0);
  for (const char* name : {"/init.json", "/summary.json", "/metrics.jsonl"}) fs::remove(other + name);
  fs::remove_all(other + "/checkpoints");
  CHECK(train(other, updates(1) + from(former.run)).exit_code == 0);
  Safetensors bare = read_safetensors(posix_disk(), other + "/init.safetensors");
  for (const char* name : {"/init.json", "/summary.json", "/metrics.jsonl"}) fs::remove(other + name);
  fs::remove_all(other + "/checkpoints");
  write_safetensors(posix_disk(), other + "/init.safetensors", bare.tensors, {});
  CHECK(
      has(refusal(other, updates(1)), "/init.safetensors: its metadata holds no xxh3, the checksum of the weights, "));
}

TEST_CASE("warm start: weights that give non-finite outputs end the run and eval with that reason") {
  const Former former;
  const std::string run = former.folder / "run", file = former.folder / "huge.safetensors",
                    checkpoint = checkpoint_folder(former.run, 3);
  Safetensors huge = read_safetensors(posix_disk(), checkpoint + "/model.safetensors");
  for (const char* name : {"policy.0.weight", "policy.head.weight"})
    for (float& x : huge.tensors.at(name).mutable_view<float>()) x = 3e38f;
  write_safetensors(posix_disk(), file, huge.tensors);
  TrainProcess started(run, updates(1) + from(file) + set({"workers.failure_timeout_ms=200"}));
  CHECK(started.process().wait().value_or(-1) == 1);
  CHECK(has(started.process().err(), " is not finite"));

  const std::string bytes = text_of(file);
  fs::copy_file(file, checkpoint + "/model.safetensors", fs::copy_options::overwrite_existing);
  Json state = json_of(checkpoint + "/state.json");
  state["files"]["model.safetensors"] = {{"bytes", bytes.size()}, {"crc32c", hex(crc32c(bytes))}};
  write_state(checkpoint, state);
  const CommandLine evaluated({"troupe", "eval", former.run, "--checkpoint", "3"});
  CHECK(evaluated.exit_code == 1);
  CHECK(evaluated.err.starts_with("troupe: " + former.run +
                                  ": policy output of sample 0 is not finite; the weights of "));
  CHECK(std::ranges::count(evaluated.err, '\n') == 1);
}

TEST_CASE("warm start: a start without room for the weights is refused, and the same command works with room") {
  TempFolder folder;
  const Words wide = updates(1) + set({"model.hidden=[256,256]"});
  const std::string former = folder / "former", run = folder / "run";
  REQUIRE(train(former, wide).exit_code == 0);
  Process full(train_line(run, wide + from(former)), 64 << 10);
  CHECK(full.wait().value_or(-1) == 2);
  CHECK(has(full.err(), run + "/init.safetensors.tmp: cannot write: "));
  CHECK(std::ranges::count(full.err(), '\n') == 1);
  const CommandLine again = train(run, wide + from(former));
  CHECK_MESSAGE(again.exit_code == 0, again.err);
  CHECK(has(again.out, "beginning with the weights of "));
}

TEST_CASE("warm start: deterministic runs with the same weights give the same bytes, other weights give others") {
  const Former former;
  const Words settings =
      set({"deterministic=true", "stop.env_steps=0", "stop.updates=4", "checkpoint.every_updates=2"});
  const auto result = [&](const std::string& name, uint64_t step) {
    const std::string run = former.folder / name;
    REQUIRE(train(run, settings + from(checkpoint_folder(former.run, step))).exit_code == 0);
    return text_of(model_of(run, 4)) + text_of(run + "/metrics.jsonl");
  };
  const std::string a = result("a", 2), b = result("b", 2), c = result("c", 3);
  CHECK((a == b));
  CHECK((a != c));
}
