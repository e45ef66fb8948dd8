// Run folders that are changed from outside: copied, removed, on a full disk, or with another kind of file in place of
// one of theirs.
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>

#include "runtime/base/crc32c.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/process/train_process.h"
#include "tests/support/bad_files.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=5"});

// Settings of a run that ends after `updates` updates and writes a checkpoint after each.
Words short_run(int updates, int seed = 1) {
  return set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates), "checkpoint.every_updates=1",
              "checkpoint.keep=0", "trainer.lr_schedule=constant", "seed=" + std::to_string(seed)});
}

CommandLine train(const std::string& folder, const Words& more) { return CommandLine(train_line(folder, more)); }

// The number of lines that metrics.jsonl had when the newest checkpoint was written.
double counted_lines(const std::string& run) {
  const Json counts = state_of(run).at("scalars");
  return counts.value("metrics.lines_at_least", 0.0);
}

// Mounts a file system of `bytes` at `path` that only this process and its children see. False without the permission
// to mount.
bool mount_small(const std::string& path, uint64_t bytes) {
  static const bool alone =
      ::unshare(CLONE_NEWNS) == 0 && ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
  return alone && ::mount("none", path.c_str(), "tmpfs", 0, ("size=" + std::to_string(bytes)).c_str()) == 0;
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

}  // namespace

TEST_CASE("run folder: a config of any name trains, and its run is evaluated, shown, exported and resumed") {
  TempFolder folder;
  const std::string settings = R"({"stop": {"env_steps": 2048}, "evaluation": {"episodes": 2}})";
  for (const std::string name :
       {"a+b", "two words", "x=1", "caf\u00e9", "-first", ".hidden", "\"quoted\"", "it's;$(x)"}) {
    CAPTURE(name);
    const std::string file = folder / (name + ".json"), run = folder / ("run of " + name);
    std::ofstream(file) << settings;
    const Words train{"troupe", "train", file, "--run", run};
    CHECK(CommandLine(train).exit_code == 0);
    CHECK(json_of(run + "/config.json").at("name") == name);
    CHECK(CommandLine({"troupe", "eval", run, "--episodes", "1"}).exit_code == 0);
    CHECK(CommandLine({"troupe", "play", run, "--episodes", "1"}).exit_code == 0);
    CHECK(CommandLine({"troupe", "train", run, "--set", "stop.env_steps=4096"}).exit_code == 0);
    CHECK(CommandLine(train + set({"stop.env_steps=6144"})).exit_code == 0);
    CHECK(json_of(run + "/summary.json").at("env_steps").get<uint64_t>() >= 6144);
  }
}

TEST_CASE("run folder: a config whose name cannot be that of a run is refused before anything is written") {
  TempFolder folder;
  const std::pair<std::string, std::string> cases[] = {
      {"two\nlines", "\"two\\nlines\" is not allowed (it has the control character \\x0a), expected "},
      {"\xff\xe9", "\\xff\\xe9 is not UTF-8, expected "},
      {"\"\xe9", "\"\"\\xe9\" has the byte \\xe9, which is not UTF-8"},
      {".", "\".\" is not allowed, expected "}};
  for (const auto& [name, why] : cases) {
    const std::string file = folder / (name + ".json");
    std::ofstream(file) << "{}";
    const CommandLine train({"troupe", "train", file, "--run", folder / "run"});
    CHECK(train.exit_code == 2);
    CHECK_MESSAGE(has(train.err, ".json: name: " + why), train.err);
    CHECK(train.err.ends_with("; rename the file, or set name\n"));
    CHECK_FALSE(fs::exists(folder / "run"));
    CHECK(CommandLine({"troupe", "train", file, "--run", folder / "run", "--set", "name=good", "--set",
                       "stop.env_steps=2048", "--set", "evaluation.episodes=1"})
              .exit_code == 0);
    fs::remove_all(folder / "run");
  }
}

TEST_CASE("run folder: train --env needs no config file, and the same command resumes") {
  TempFolder folder;
  const Words small = set({"stop.env_steps=2048", "evaluation.episodes=2"});
  const Words train = Words{"troupe", "train", "--env", "Corridor", "--run", folder / "run"} + small;
  CHECK(CommandLine(train).exit_code == 0);
  CHECK(json_of(folder / "run/config.json").at("env").at("id") == "Corridor");
  CHECK(json_of(folder / "run/config.json").at("name") == "Corridor");
  CHECK(has(CommandLine(train + set({"stop.env_steps=4096"})).out, "resuming at update "));
  const CommandLine other({"troupe", "train", folder / "run", "--env", "GridWorld"});
  CHECK(other.exit_code == 2);
  CHECK_MESSAGE(has(other.err, "env.id"), other.err);
}

TEST_CASE("run folder: checkpoints of another seed or with a wrong number are reported, renamed and not resumed from") {
  TempFolder folder;
  const std::string ours = folder / "ours", theirs = folder / "theirs";
  REQUIRE(train(ours, short_run(3)).exit_code == 0);
  REQUIRE(train(theirs, short_run(7, 2)).exit_code == 0);
  fs::copy(checkpoint_folder(theirs, 7), checkpoint_folder(ours, 7), fs::copy_options::recursive);
  fs::copy(checkpoint_folder(ours, 2), checkpoint_folder(ours, 99), fs::copy_options::recursive);
  const CommandLine resumed = train(ours, short_run(4));
  CHECK(resumed.exit_code == 0);
  CHECK(has(resumed.out, "resuming at update 3,"));
  CHECK(has(resumed.err, checkpoint_folder(ours, 99) + ": holds the checkpoint of update 2"));
  CHECK(has(resumed.err, checkpoint_folder(ours, 7) + ": is of another run: seed was 2 and is now 1"));
  for (const uint64_t step : {7, 99}) {
    CHECK(fs::exists(checkpoint_folder(ours, step) + ".foreign"));
    CHECK(has(resumed.err, "; the checkpoint is renamed to " + checkpoint_folder(ours, step) + ".foreign\n"));
  }
  CHECK(checkpoints_of(ours) == std::vector<uint64_t>{1, 2, 3, 4});
  CHECK(train(ours, short_run(5)).err == "");
}

TEST_CASE("run folder: if the newest checkpoint cannot be opened, it is reported, and neither skipped nor renamed") {
  TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(train(run, short_run(2)).exit_code == 0);
  const std::string file = checkpoint_folder(run, 2) + "/model.safetensors", kept = folder / "kept";
  fs::rename(file, kept);
  fs::create_symlink("model.safetensors", file);
  for (const Words& line : {train_line(run, short_run(3)), Words{"troupe", "eval", run, "--episodes", "1"},
                            Words{"troupe", "play", run, "--episodes", "1"}}) {
    const CommandLine refused(line);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.starts_with("troupe: " + file + ": cannot open: Too many levels of symbolic links"));
    CHECK(std::ranges::count(refused.err, '\n') == 1);
  }
  CHECK(checkpoints_of(run) == std::vector<uint64_t>{1, 2});
  fs::rename(kept, file);
  const CommandLine resumed = train(run, short_run(3));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(has(resumed.out, "resuming at update 2,"));
}

TEST_CASE("run folder: a resume reports what was lost and which checkpoint it resumes from") {
  TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(train(run, short_run(4)).exit_code == 0);
  fs::remove_all(checkpoint_folder(run, 4));
  const CommandLine resumed = train(run, short_run(5));
  CHECK(resumed.exit_code == 0);
  CHECK(has(resumed.out, "resuming at update 3,"));
  CHECK(has(resumed.err, run + "/summary.json: the run ended after update 4, of which no checkpoint can be used; it "
                               "resumes from the one after update 3\n"));
  CHECK(
      has(resumed.out,
          "lost: all updates after update 3, the newest with a checkpoint; metrics.jsonl had lines up to update 4, "));
  CHECK(json_of(run + "/summary.json").at("undone_updates") == 1);
  const CommandLine whole = train(run, short_run(6));
  CHECK(whole.exit_code == 0);
  CHECK(whole.err == "");
  CHECK(!has(whole.out, "lost:"));
  fs::remove(run + "/metrics.jsonl");
  const CommandLine without = train(run, short_run(7));
  CHECK(without.exit_code == 0);
  CHECK(has(without.err, run + "/metrics.jsonl: is missing, so there are none of the "));
  // A run that ends within the interval of the reports may write its last checkpoint before its first line.
  int updates = 7;
  while (updates < 50 && counted_lines(run) == 0) REQUIRE(train(run, short_run(++updates)).exit_code == 0);
  fs::resize_file(run + "/metrics.jsonl", 0);
  CHECK(has(train(run, short_run(updates + 1)).err, run + "/metrics.jsonl: holds 0 of the "));
}

TEST_CASE("run folder: a checkpoint with an invalid number is refused, and the error names the tensor or the field") {
  TempFolder folder;
  const std::string run = folder / "run";
  const Words normalised = set({"model.normalize_observations=true"});
  REQUIRE(train(run, short_run(1) + normalised).exit_code == 0);
  const std::string checkpoint = checkpoint_folder(run, 1), copy = folder / "copy";
  fs::copy(checkpoint, copy, fs::copy_options::recursive);
  const Words more = train_line(run, short_run(2) + normalised), eval = {"troupe", "eval", run, "--episodes", "1"};
  const auto refusal = [](const Words& line) {
    const CommandLine refused(line);
    CHECK(refused.exit_code == 2);
    CHECK(std::ranges::count(refused.err, '\n') == 1);
    return refused.err;
  };
  const auto change = [&](const std::string& name, const std::string& tensor, auto number) {
    fs::copy(copy, checkpoint, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    Safetensors file = read_safetensors(posix_disk(), checkpoint + '/' + name);
    file.tensors.at(tensor).mutable_view<decltype(number)>()[0] = number;
    write_safetensors(posix_disk(), checkpoint + '/' + name, file.tensors, file.metadata);
    const std::string bytes = text_of(checkpoint + '/' + name);
    Json state = json_of(checkpoint + "/state.json");
    state["files"][name] = {{"bytes", bytes.size()}, {"crc32c", hex(crc32c(bytes))}};
    write_state(checkpoint, state);
  };
  change("model.safetensors", "observation_normalizer.count", -5.0);
  const std::string negative =
      "troupe: " + checkpoint + ": tensor observation_normalizer.count holds a negative number\n";
  CHECK(refusal(more) == negative);
  CHECK(refusal(eval) == negative);
  change("optimizer.safetensors", "first.policy.0.bias", std::numeric_limits<float>::quiet_NaN());
  CHECK(refusal(more) ==
        "troupe: " + checkpoint + ": optimizer tensor first.policy.0.bias holds a number that is not finite\n");
  fs::copy(copy, checkpoint, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  Json state = json_of(checkpoint + "/state.json");
  state["state"]["env_steps"] = state["state"]["env_steps"].get<uint64_t>() + 1;
  write_state(checkpoint, state);
  CHECK(refusal(more).starts_with("troupe: " + checkpoint + ": its state.env_steps is "));
}

TEST_CASE("run folder: a removed lock ends the run, and no other run can use the folder before that") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless + set({"checkpoint.every_updates=0"}));
  run.process().signal(SIGSTOP);  // the run checks its lock whenever it writes
  fs::remove(folder / "run/run.lock");
  const CommandLine second = train(folder / "run", kEndless);
  CHECK(second.exit_code == 2);
  CHECK(second.err == "troupe: " + (folder / "run/run.lock") +
                          ": another process is using this folder; end it first, or use another folder\n");
  run.process().signal(SIGCONT);
  CHECK(run.process().wait().value_or(-1) == 1);
  CHECK(has(run.process().err(), "run.lock: was removed or renamed while this process was using it"));
  CHECK(checkpoints_of(folder / "run").empty());
  CHECK(!fs::exists(folder / "run/summary.json"));
}

TEST_CASE("run folder: when the folder of a run is moved away, the run ends and does not make the folder again") {
  TempFolder folder;
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    const std::string path = folder / std::to_string(deterministic);
    const Words settings = kEndless + set({deterministic ? "deterministic=true" : "deterministic=false"});
    Process first(train_line(path, settings));
    REQUIRE(eventually([&] { return updates_of(path) > 0; }));
    fs::rename(path, path + ".gone");
    CHECK(first.wait().value_or(-1) == 1);
    CHECK(has(first.err(), path + ": was removed or renamed while this process was using it"));
    CHECK(!has(first.err(), "internal error"));
    CHECK(!fs::exists(path));
  }
}

TEST_CASE("run folder: after a folder was moved away, its run ends and a new run at the same path is not affected") {
  TempFolder folder;
  const std::string path = folder / "run";
  TrainProcess first(path, kEndless);
  REQUIRE(first.makes_updates(1));
  fs::rename(path, path + ".gone");
  TrainProcess second(path, kEndless);
  CHECK(first.process().wait().value_or(-1) == 1);
  CHECK(has(first.process().err(), path + ": was "));
  CHECK(fs::exists(path + "/endpoints.json"));  // of the second run
  CHECK(second.makes_updates(3));
  CHECK(second.interrupt().value_or(-1) == 130);
}

TEST_CASE("run folder: without room on the disk a start or a checkpoint fails, and with room the run resumes") {
  TempFolder folder;
  if (!mount_small(folder.path(), 700 << 10)) {
    MESSAGE("skipped: mounting a file system needs root");
    return;
  }
  const std::string path = folder / "run";
  const auto settings = [](int updates) {
    return set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates), "checkpoint.every_updates=2",
                "checkpoint.keep=1"});
  };
  REQUIRE(train(path, settings(2)).exit_code == 0);
  {
    std::ofstream filler(folder / "filler", std::ios::binary);
    while (filler.put('x').flush()) {
    }
  }
  // A start is refused, because it has to write its epoch.
  const CommandLine refused = train(path, settings(6));
  CHECK(refused.exit_code == 2);
  CHECK(has(refused.err, "No space left on device"));
  CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
  CHECK(checkpoints_of(path) == std::vector<uint64_t>{2});

  fs::resize_file(folder / "filler", fs::file_size(folder / "filler") - (40 << 10));  // too little for a checkpoint
  const CommandLine full = train(path, settings(6));
  CHECK(full.exit_code == 1);
  CHECK(has(full.err, "No space left on device"));
  CHECK(checkpoints_of(path) == std::vector<uint64_t>{2});

  fs::remove(folder / "filler");
  const CommandLine resumed = train(path, settings(6));
  CHECK(resumed.exit_code == 0);
  CHECK(has(resumed.out, "resuming at update 2,"));
  CHECK(checkpoints_of(path) == std::vector<uint64_t>{6});
}

TEST_CASE("run folder: a file of another kind in place of one of its files is refused with one line or ignored") {
  TempFolder folder;
  REQUIRE(train(folder / "run", short_run(2)).exit_code == 0);
  const std::string newest = "checkpoints/000000000002/";
  size_t next = 0;  // so that every kind is used
  for (const std::string& file :
       {std::string("config.json"), newest + "model.safetensors", newest + "state.json", std::string("epoch"),
        newest + "optimizer.safetensors", std::string("metrics.jsonl"), std::string("endpoints.json"),
        std::string("log.txt"), std::string("run.lock"), std::string("checkpoints"), newest + "model.safetensors"}) {
    const BadFile& bad = kBadFiles[next++ % std::size(kBadFiles)];
    CAPTURE(file);
    CAPTURE(bad.name);
    const std::string evaluated = folder / "evaluated", trained = folder / "trained";
    for (const std::string& run : {evaluated, trained}) {
      fs::remove_all(run);
      fs::copy(folder / "run", run, fs::copy_options::recursive);
      replace_by(bad, run + '/' + file);
    }
    Process eval({"troupe", "eval", evaluated, "--episodes", "1"}), train(train_line(trained, short_run(3)));
    const auto check = [&](Process& process, const std::string& run) {
      const int exit_code = process.wait().value_or(-1);
      const std::string err = process.err();
      CHECK_MESSAGE((exit_code == 0 || exit_code == 2), err);
      if (exit_code == 2) CHECK(std::count(err.begin(), err.end(), '\n') == 1);
      if (exit_code == 2) CHECK(has(err, run + '/' + file));
      CHECK(!has(err, "internal error"));
    };
    check(eval, evaluated);
    check(train, trained);
  }
}
