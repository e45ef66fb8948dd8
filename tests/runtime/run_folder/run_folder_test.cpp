#include "runtime/run_folder/run_folder.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/start_files.h"
#include "tests/runtime/run_folder/run_folder_fixture.h"
#include "tests/support/bad_files.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Opens the folder as a start of a run does.
void open_all(const std::string& path) {
  RunFolder run(posix_disk(), path, kConfig);
  run.open_log_file();
  try {
    run.checkpoints().recover();
  } catch (const IoError& error) {
    throw ConfigError(error.what());
  }
  take_epoch(posix_disk(), path, 1);
  run.begin_metrics(1.0, RunFolder::ResumePoint{0, 0});
}

}  // namespace

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a new folder has the effective config and is not resuming") {
  RunFolder run(disk, "run", kConfig);
  CHECK_FALSE(run.resuming());
  CHECK(disk.read("run/config.json") == kConfig + '\n');
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a folder that is open cannot be opened again, and after it is closed it resumes") {
  {
    RunFolder run(disk, "run", kConfig);
    CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }) ==
          "run/run.lock: another process is using this folder; end it first, or use another folder");
  }
  CHECK(RunFolder(disk, "run", kConfig).resuming());
}

TEST_CASE("run_folder: the error about a folder in use has the id of the process that uses it") {
  test::TempFolder folder;
  const std::string path = folder / "run";
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const RunFolder run(posix_disk(), path, kConfig);
    if (::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(config_error_of([&] { RunFolder(posix_disk(), path, kConfig); }) ==
        path + "/run.lock: process " + std::to_string(child) +
            " is using this folder; end it first, or use another folder");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(RunFolder(posix_disk(), path, kConfig).resuming());
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: until something was trained, new settings replace the old ones") {
  const std::string changed = replaced(kConfig, "\"epochs\": 4", "\"epochs\": 8");
  {
    RunFolder run(disk, "run", kConfig);
    CHECK_FALSE(run.replaced_settings());
    run.begin_metrics(1.0, std::nullopt);
    run.write_metrics(R"({"updates": 0, "env_steps": 900})");
  }
  {
    RunFolder run(disk, "run", changed);
    CHECK(run.replaced_settings());
    CHECK(run.resuming());
    run.keep_config();
  }
  CHECK(disk.read("run/config.json") == changed + '\n');
  CHECK_FALSE(RunFolder(disk, "run", changed).replaced_settings());
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a refused resume names the settings that may not change, at most eight") {
  const auto config = [](int value) {
    std::string keys;
    for (char key = 'a'; key < 'k'; ++key) keys += std::string(", \"") + key + "\": " + std::to_string(value);
    return R"({"seed": )" + std::to_string(value) + keys + '}';
  };
  {
    RunFolder run(disk, "run", config(1));
  }
  disk.damage("run/metrics.jsonl", "{\"updates\": 1, \"env_steps\": 9}\n");
  const std::string refused = config_error_of([&] { RunFolder(disk, "run", config(2)); });
  CHECK(refused.starts_with("run: cannot resume: seed was 1 and is now 2, a was 1 and is now 2, "));
  CHECK(refused.find("g was 1 and is now 2, and 3 more; to resume, give them their old values; to begin a new run, ") !=
        std::string::npos);
}

TEST_CASE_FIXTURE(
    RunFolderFixture,
    "run_folder: metrics of an update, unreadable metrics and checkpoints of an update fix the settings") {
  const std::string changed = replaced(kConfig, "\"epochs\": 4", "\"epochs\": 8");
  const std::string refusal =
      "run: cannot resume: trainer.epochs was 4 and is now 8; to resume, give it the old value; to begin a new run, "
      "give "
      "another folder with --run DIR";
  for (const std::string lines :
       {"{\"updates\": 0, \"env_steps\": 9}\n{\"updates\": 1, \"env_steps\": 9}\n", "torn", "[]\n"}) {
    CAPTURE(lines);
    disk = MemoryDisk();
    {
      RunFolder run(disk, "run", kConfig);
    }
    disk.open_append("run/metrics.jsonl")->append(lines);
    CHECK(config_error_of([&] { RunFolder(disk, "run", changed); }) == refusal);
    CHECK(disk.read("run/config.json") == kConfig + '\n');
  }
  for (const uint64_t updates : {0, 5}) {
    CAPTURE(updates);
    disk = MemoryDisk();
    {
      RunFolder run(disk, "run", kConfig);
      Checkpoint checkpoint;
      checkpoint.updates = checkpoint.version.number = updates;
      run.save_checkpoint(checkpoint, 0);
    }
    if (updates > 0) {
      CHECK(config_error_of([&] { RunFolder(disk, "run", changed); }) ==
            refusal + " (and --init-from run for the weights of this one)");
      continue;
    }
    // A checkpoint before the first update does not fix the settings, and is removed.
    RunFolder run(disk, "run", changed);
    CHECK(run.replaced_settings());
    CHECK(disk.list("run/checkpoints").empty());
  }
}

TEST_CASE_FIXTURE(
    RunFolderFixture,
    "run_folder: a changed field that may not change is refused with both values, and the config is kept") {
  {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    run.write_metrics(R"({"updates": 1, "env_steps": 900})");
  }
  const std::string changed = replaced(kConfig, "\"epochs\": 4", "\"epochs\": 8");
  CHECK(config_error_of([&] {
          RunFolder(disk, "run", changed);
        }).starts_with("run: cannot resume: trainer.epochs was 4 and is now 8; to resume, give it the old value; "));
  const std::string added = replaced(kConfig, "\"epochs\": 4", "\"epochs\": 4, \"added\": {\"a\": 1}");
  CHECK(config_error_of([&] {
          RunFolder(disk, "run", added);
        }).starts_with("run: cannot resume: trainer.added was not set and is now {\"a\":1}; to resume, remove it; "));
  CHECK(disk.read("run/config.json") == kConfig + '\n');
  CHECK_NOTHROW(RunFolder(disk, "run", kConfig));
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a changed field that may change is stored, but not by a start that is refused") {
  {
    RunFolder run(disk, "run", kConfig);
  }
  const std::string changed = replaced(replaced(kConfig, "10", "20"), "\"threads\": 1", "\"threads\": 2");
  CHECK(RunFolder(disk, "run", changed, kSettings).resuming());
  CHECK(disk.read("run/config.json") == kConfig + '\n');
  RunFolder(disk, "run", changed, kSettings).keep_config();
  CHECK(disk.read("run/config.json") == changed + '\n');
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: an older config is upgraded before it is compared") {
  {
    RunFolder run(disk, "run", R"({"seed": 1})");
  }
  const auto upgrade = [](const std::string&) { return std::string(R"({"seed": 1, "added": 0})"); };
  CHECK_NOTHROW(RunFolder(disk, "run", R"({"seed": 1, "added": 0})", {nullptr, upgrade}));
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: the error about a damaged config.json has its path and position") {
  disk.write_atomic("run/run.lock", std::string());
  disk.write_atomic("run/config.json", "{\"seed\": 1, ");
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }).starts_with("run/config.json:1:13: not valid JSON"));
  disk.write_atomic("run/config.json", std::string());
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }).starts_with("run/config.json: is empty"));
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a folder whose config.json is not of a run is refused and not changed") {
  disk.write_atomic("home/config.json", kConfig);
  CHECK(config_error_of([&] { RunFolder(disk, "home", kConfig); }) ==
        "home: not a run folder, no run has written its config.json; use an empty or a new folder");
  CHECK(disk.list("home").size() == 1);
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a folder with other files is refused and not changed") {
  disk.write_atomic("home/thesis.tex", "x");
  CHECK(config_error_of([&] { RunFolder(disk, "home", kConfig); }) ==
        "home: not a run folder, it holds thesis.tex and no config.json; use an empty or a new folder");
  CHECK(disk.list("home").size() == 1);
}

TEST_CASE("run_folder: a path that is a file is refused") {
  test::TempFolder folder;
  posix_disk().write_atomic(folder / "file", "x");
  const std::string line = config_error_of([&] { RunFolder(posix_disk(), folder / "file", kConfig); });
  CHECK(line.find("/file: ") != std::string::npos);
  CHECK(line.find("Not a directory") != std::string::npos);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: after a crash at any operation of the opening the folder can be opened") {
  for (uint64_t at = 0; at < 6; ++at) {
    MemoryDisk each;
    each.set_fault({DiskFault::Kind::crash, at, 1});
    const std::string line = config_error_of([&] { RunFolder(each, "run", kConfig); });
    CHECK((line == "no error") == (at > 3));
    each.clear_fault();
    CHECK_NOTHROW(RunFolder(each, "run", kConfig));
  }
}

TEST_CASE("run_folder: another kind of file in place of one of its files is refused by name") {
  const std::vector<std::string> empty = {"an empty file", "a file of the system"};
  struct Case {
    std::string file;
    std::vector<std::string> accepted;
  };
  const Case cases[] = {
      {"config.json", {}},
      {"epoch", {}},
      {"checkpoints", {"a directory"}},
      {"run.lock", {"an empty file", "6 GiB of zeros"}},                     // written again
      {"log.txt", {empty[0], empty[1], "6 GiB of zeros", "a broken link"}},  // appended to
      {"metrics.jsonl", {empty[0], empty[1], "6 GiB of zeros"}},             // cut
  };
  for (const Case& each : cases) {
    for (const test::BadFile& bad : test::kBadFiles) {
      if (std::find(each.accepted.begin(), each.accepted.end(), bad.name) != each.accepted.end()) continue;
      if (bad.name == "a huge file of the system" && !posix_disk().exists("/proc/kcore")) continue;
      CAPTURE(each.file);
      CAPTURE(bad.name);
      test::TempFolder folder;
      const std::string run = folder / "r", path = run + '/' + each.file;
      RunFolder(posix_disk(), run, kConfig).checkpoints().save({});
      test::replace_by(bad, path);
      const std::string line = config_error_of([&] { open_all(run); });
      CHECK_MESSAGE(line.starts_with(path), line);
      CHECK(line.find('\n') == std::string::npos);
    }
  }
}

TEST_CASE("run_folder: after its folder or lock is removed or replaced, the owner writes nothing") {
  struct Case {
    const char* name;
    void (*act)(const std::string& run);
  };
  const Case cases[] = {
      {"lock removed", [](const std::string& run) { std::filesystem::remove(run + "/run.lock"); }},
      {"lock replaced",
       [](const std::string& run) {
         std::filesystem::remove(run + "/run.lock");
         std::ofstream(run + "/run.lock").flush();
       }},
      {"folder removed", [](const std::string& run) { std::filesystem::remove_all(run); }},
      {"folder renamed", [](const std::string& run) { std::filesystem::rename(run, run + "2"); }},
      {"folder replaced",
       [](const std::string& run) {
         std::filesystem::remove_all(run);
         RunFolder(posix_disk(), run, kConfig);
       }},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    test::TempFolder folder;
    const std::string path = folder / "run";
    RunFolder run(posix_disk(), path, kConfig);
    run.begin_metrics(1.0, std::nullopt);
    run.write_endpoints("{}");
    each.act(path);
    const std::vector<std::string> names = posix_disk().list(path);
    CHECK_THROWS_AS(run.write_metrics("{\"updates\":1}"), LockLost);
    CHECK_THROWS_AS(run.write_scalars(1.0, 1, {{"x", 1}}), LockLost);
    CHECK_THROWS_AS(run.save_checkpoint({}, 0), LockLost);
    CHECK_THROWS_AS(run.write_summary("{}"), LockLost);
    CHECK(posix_disk().list(path) == names);
  }
}

TEST_CASE("run_folder: a folder in use is refused even without its lock file, until its owner ends") {
  test::TempFolder folder;
  {
    RunFolder run(posix_disk(), folder / "run", kConfig);
    run.open_log_file();
    std::filesystem::remove(folder / "run/run.lock");
    CHECK(config_error_of([&] { RunFolder(posix_disk(), folder / "run", kConfig); }) ==
          (folder / "run/run.lock") + ": another process is using this folder; end it first, or use another folder");
  }
  CHECK(RunFolder(posix_disk(), folder / "run", kConfig).resuming());
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a folder with checkpoints and without a config is refused") {
  CheckpointStore(disk, "run/checkpoints").save({});
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }) ==
        "run: not a run folder, it holds checkpoints and no config.json; use an empty or a new folder");
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a checkpoint of a run with another seed is not used") {
  const std::string other = replaced(kConfig, "\"seed\": 1", "\"seed\": 2");
  {
    RunFolder theirs(disk, "theirs", other);
    theirs.save_checkpoint({}, 0);
  }
  RunFolder run(disk, "run", kConfig);
  for (const std::string& name : disk.list("theirs/checkpoints/000000000000"))
    disk.write_atomic("run/checkpoints/000000000000/" + name, disk.read("theirs/checkpoints/000000000000/" + name));
  CHECK_THROWS_WITH_AS(run.checkpoints().recover(),
                       "run/checkpoints: no checkpoint can be used; the newest one: run/checkpoints/000000000000: is "
                       "of another run: seed was 2 and is now 1",
                       IoError);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a folder with the summary of a run that has trained but no checkpoint is refused") {
  const std::string other = replaced(kConfig, "\"name\": \"a\"", "\"name\": \"b\"");
  for (const std::string summary : {R"({"updates": 4})", R"({"updates": 4, "error": "x", "has_checkpoint": true})",
                                    R"({"updates": 4, "has_checkpoint": false})", R"({"env_steps": 4})", "torn", ""}) {
    CAPTURE(summary);
    disk = MemoryDisk();
    disk.write_atomic("run/config.json", kConfig);
    disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":4}\n"));
    disk.write_atomic("run/summary.json", summary);
    disk.make_directory("run/checkpoints/notes");             // not ours
    disk.make_directory("run/checkpoints/000000000004.tmp");  // left by an interrupted write
    const std::string why = summary.find("updates") != std::string::npos
                                ? " is of a run that has trained"
                                : " cannot be read, so the run may have trained";
    CHECK(config_error_of([&] { RunFolder(disk, "run", other); }) ==
          "run/checkpoints: holds no checkpoint, but run/summary.json" + why +
              "; restore the checkpoints, use another run folder, or remove run/summary.json to start over");
    CHECK(disk.read("run/config.json") == kConfig);
    CHECK(metrics() == "{\"updates\":4}\n");
  }
  for (const char* summary : {R"({"updates": 0})", R"({"updates": 4, "error": "x", "has_checkpoint": false})"}) {
    CAPTURE(summary);
    disk.write_atomic("run/summary.json", std::string(summary));
    CHECK(RunFolder(disk, "run", other, kSettings).resuming());
  }
  disk.write_atomic("run/summary.json", std::string(R"({"updates": 4})"));
  disk.make_directory("run/checkpoints/000000000004.damaged");  // checked later, by recover()
  CHECK(RunFolder(disk, "run", other, kSettings).resuming());
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: cut_updates() is the last update whose metrics a resume has cut off") {
  const std::string one = "{\"updates\":1,\"env_steps\":10}\n", nine = "{\"updates\":9,\"env_steps\":90}\n";
  for (const auto& [text, updates] :
       {std::pair<std::string, uint64_t>{one, 0}, {one + nine, 9}, {one + nine + "{\"upd", 9}, {one + "x\n", 0}}) {
    CAPTURE(text);
    disk = MemoryDisk();
    disk.write_atomic("run/config.json", kConfig);
    disk.write_atomic("run/metrics.jsonl", text);
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, RunFolder::ResumePoint{1, 10});
    CHECK(run.cut_updates() == updates);
    CHECK(metrics() == one);
  }
}
