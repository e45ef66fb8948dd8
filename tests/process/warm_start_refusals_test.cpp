#include <filesystem>
#include <fstream>

#include "tests/process/train_process.h"
#include "tests/process/warm_starts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
namespace fs = std::filesystem;

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
