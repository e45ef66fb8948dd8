// New runs that begin with the weights of another run or of a file: troupe train --init-from.
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "runtime/base/crc32c.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

using Tensors = std::map<std::string, Array>;

// A learning rate so small that updates hardly change the weights.
const Words kStill = set({"trainer.policy_lr=1e-9", "trainer.value_lr=1e-9"});

Words updates(int count) {
  return set({"stop.env_steps=0", "stop.updates=" + std::to_string(count), "checkpoint.every_updates=1",
              "checkpoint.keep=0", "trainer.lr_schedule=constant"});
}

Words from(const std::string& source) { return {"--init-from", source}; }

CommandLine train(const std::string& folder, const Words& more) { return CommandLine(train_line(folder, more)); }

std::string model_of(const std::string& folder, uint64_t step) {
  return checkpoint_folder(folder, step) + "/model.safetensors";
}

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

// Checks that `train` ends with exit code 2 and one line on stderr, which is returned, and makes no run folder.
std::string refusal(const std::string& folder, const Words& more) {
  const bool before = fs::exists(folder);
  const CommandLine refused = train(folder, more);
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  CHECK(fs::exists(folder) == before);
  return refused.err;
}

std::string hex(uint32_t value) {
  char text[16];
  std::snprintf(text, sizeof text, "%08x", value);
  return text;
}

// Writes state.json with the CRC that matches its content.
void write_state(const std::string& checkpoint, Json state) {
  state.erase("crc32c");
  state["crc32c"] = hex(crc32c(state.dump()));
  std::ofstream(checkpoint + "/state.json") << state.dump(2) << '\n';
}

// A run of three updates with a checkpoint after each. It is trained once, and each test case has a copy.
struct Trained {
  Trained() { REQUIRE(train(run, updates(3)).exit_code == 0); }
  TempFolder folder;
  std::string run = folder / "former";
};

struct Former {
  Former() {
    static const Trained trained;
    fs::copy(trained.run, run, fs::copy_options::recursive);
  }
  TempFolder folder;
  std::string run = folder / "former";
};

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

TEST_CASE("warm start: a source that does not fit is refused with the reason, and no run folder is made") {
  const Former former;
  const std::string run = former.folder / "run", shown = "troupe: --init-from: " + model_of(former.run, 3) + ": ";
  CHECK(refusal(run, updates(1) + from(former.run) + set({"model.hidden=[32,64]"})) ==
        shown + "tensor policy.0.bias is float32 [64], this run's model has float32 [32]\n");
  CHECK(refusal(run, updates(1) + from(former.run) + set({"model.hidden=[64]"})) ==
        shown + "tensor policy.1.bias is float32 [64], this run's model has no such tensor\n");
  CHECK(refusal(run, updates(1) + from(former.run) + set({"model.normalize_observations=true"})) ==
        shown + "tensor observation_normalizer.count is missing, this run's model has float64 []\n");
  const std::string nothing = former.folder / "formr";
  CHECK(refusal(run, from(nothing)) ==
        "troupe: --init-from: " + nothing + ": no such run folder, did you mean " + former.run + "?\n");
  CHECK(refusal(run, from(former.run + "/config.json")) == "troupe: --init-from: " + former.run +
                                                               "/config.json: is part of the run " + former.run +
                                                               "; give " + former.run + '\n');
  CHECK(refusal(run, from(former.run + "/checkpoints/7")) ==
        "troupe: --init-from: " + former.run +
            ": has no checkpoint after 7 updates, those that it has are after: 1, 2, 3\n");
  CHECK(has(refusal(run, from("")), "--init-from: is empty, expected "));
  CHECK(has(refusal(run, from(former.folder.path())), "is not the folder of a run, it has no config.json"));
  const std::string bad = former.folder / "bad.safetensors";
  std::ofstream(bad) << "no tensors";
  CHECK(has(refusal(run, from(bad)), bad + ": not a valid safetensors file: "));
  const std::string empty = former.folder / "empty";
  fs::create_directories(empty);
  fs::copy(former.run + "/config.json", empty + "/config.json");
  CHECK(has(refusal(run, from(empty)), "has no checkpoint yet"));
  std::fstream damaged(model_of(former.run, 2), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(-1, std::ios::end).put('x');
  damaged.close();
  CHECK(has(refusal(run, from(checkpoint_folder(former.run, 2))), model_of(former.run, 2) + ": damaged: CRC "));
}

TEST_CASE("warm start: settings that change the meaning of the weights are refused for every kind of source") {
  const Former former;
  const std::string checkpoint = checkpoint_folder(former.run, 3), copied = former.folder / "copied",
                    run = former.folder / "run";
  fs::copy(checkpoint, copied);
  const auto refused = [&](const std::string& file) {
    return "troupe: --init-from: " + file +
           ": was trained with model.activation \"tanh\", this run has \"relu\"; give " + "this run the same value\n";
  };
  const Words relu = updates(1) + set({"model.activation=relu"});
  CHECK(refusal(run, relu + from(former.run)) == refused(checkpoint + "/model.safetensors"));
  CHECK(refusal(run, relu + from(checkpoint)) == refused(checkpoint + "/model.safetensors"));
  CHECK(refusal(run, relu + from(checkpoint + "/model.safetensors")) == refused(checkpoint + "/model.safetensors"));
  CHECK(refusal(run, relu + from(copied)) == refused(copied + "/model.safetensors"));
  CHECK(refusal(run, relu + from(copied + "/model.safetensors")) == refused(copied + "/model.safetensors"));
  // Older versions wrote no settings.
  Json state = json_of(checkpoint + "/state.json");
  state.erase("settings");
  write_state(checkpoint, state);
  CHECK(refusal(run, relu + from(checkpoint)) == refused(checkpoint + "/model.safetensors"));
  const std::string file = former.folder / "model.safetensors";  // without a folder that tells how it was trained
  fs::copy(checkpoint + "/model.safetensors", file);
  const CommandLine started = train(run, relu + from(file));
  CHECK_MESSAGE(started.exit_code == 0, started.err);
  CHECK(has(refusal(former.folder / "other", updates(1) + from(run + "/init.safetensors")),
            "was trained with model.activation \"relu\", this run has \"tanh\""));
}

TEST_CASE("warm start: a run that has not trained yet refuses settings that do not fit its initial weights") {
  const Former former;
  const std::string run = former.folder / "run", kept = run + "/init.safetensors";
  REQUIRE(train(run, updates(1) + from(former.run)).exit_code == 0);
  fs::remove_all(run + "/checkpoints");
  fs::remove(run + "/summary.json");
  fs::remove(run + "/metrics.jsonl");
  const Words relu = updates(1) + set({"model.activation=relu"});
  for (const Words& source : {from(former.run), Words{}}) {
    const std::string error = refusal(run, relu + source);
    CHECK(has(error, kept + ": was trained with model.activation \"tanh\", this run has \"relu\""));
    CHECK(has(error, "; use another run folder, or remove this file and init.json to begin with new weights\n"));
  }
  const CommandLine again = train(run, updates(1));
  CHECK_MESSAGE(again.exit_code == 0, again.err);
  CHECK(has(again.out, "beginning with the weights of "));
}

TEST_CASE("warm start: the same command resumes the run, even without its source; another source is refused") {
  const Former former;
  const std::string run = former.folder / "run";
  REQUIRE(train(run, updates(1) + from(former.run)).exit_code == 0);
  fs::rename(former.run, former.run + ".gone");
  const CommandLine resumed = train(run, updates(2) + from(former.run + "/"));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(has(resumed.out, "resuming at update 1,"));
  CHECK(!has(resumed.out, "beginning with"));
  CHECK(train(run, updates(3)).exit_code == 0);
  const std::string other = former.run + ".gone";
  CHECK(refusal(run, updates(4) + from(other)) ==
        "troupe: --init-from: " + other + ": the run in " + run + " was started with --init-from " + former.run +
            "; leave --init-from out to resume it, or begin a new run with --run DIR\n");
  const std::string cold = former.folder / "cold";
  REQUIRE(train(cold, updates(1)).exit_code == 0);
  CHECK(has(refusal(cold, updates(2) + from(run)), "the run in " + cold + " was not started with --init-from; "));
  CHECK(has(refusal(run, updates(4) + from(run)), "the run in " + run + " was started with --init-from " + former.run));
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

TEST_CASE("warm start: --init-from is refused if the only checkpoint of the run is one that was being replaced") {
  const Former former;
  const std::string cold = former.folder / "cold";
  REQUIRE(train(cold, updates(1) + set({"checkpoint.keep=1"})).exit_code == 0);
  REQUIRE(checkpoints_of(cold) == std::vector<uint64_t>{1});
  fs::rename(checkpoint_folder(cold, 1), checkpoint_folder(cold, 1) + ".old");
  const CommandLine refused = train(cold, updates(2) + from(former.run));
  CHECK(refused.exit_code == 2);
  CHECK(
      refused.err ==
      "troupe: --init-from: " + former.run + ": the run in " + cold +
          " was not started with --init-from; leave --init-from out to resume it, or begin a new run with --run DIR\n");
  CHECK(!fs::exists(cold + "/init.safetensors"));
  const CommandLine resumed = train(cold, updates(2));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(has(resumed.out, "resuming at update 1,"));
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

TEST_CASE("warm start: a source that cannot be opened is refused, a damaged newest checkpoint is reported once") {
  const Former former;
  const std::string run = former.folder / "run", loop = former.folder / "loop";
  fs::create_symlink(loop, loop);
  CHECK(refusal(run, from(loop)) ==
        "troupe: --init-from: " + loop + ": cannot open: Too many levels of symbolic links\n");
  std::ofstream(model_of(former.run, 3)) << "damaged";
  const CommandLine started = train(run, updates(1) + from(former.run));
  CHECK(started.exit_code == 0);
  const std::string warning = "; using the checkpoint before it";
  CHECK(started.err.find(warning) != std::string::npos);
  CHECK(started.err.find(warning) == started.err.rfind(warning));
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
