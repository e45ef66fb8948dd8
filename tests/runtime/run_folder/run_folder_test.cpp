#include "runtime/run_folder/run_folder.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/bad_files.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kConfig =
    R"({"name": "a", "seed": 1, "trainer": {"epochs": 4, "threads": 1}, "stop": {"env_steps": 10}})";

// Settings with three that may change at a resume.
const SettingsOfRun kSettings = {[](std::string_view path) {
                                   const bool may =
                                       path == "name" || path == "stop.env_steps" || path == "trainer.threads";
                                   return may ? Change::at_resume : Change::never;
                                 },
                                 nullptr};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

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

// A network disk. While `error` is set, metrics.jsonl and events files seem not to exist and cannot be opened for
// reading.
struct UnansweringDisk final : Disk {
  explicit UnansweringDisk(Disk& disk) : disk(disk) {}

  bool answers_for(const std::string& path) const {
    return error == 0 || (!path.ends_with("/metrics.jsonl") && path.find("/events.") == std::string::npos);
  }
  std::unique_ptr<ReadFile> open_read(const std::string& path) const override {
    if (!answers_for(path)) throw IoError(path, "cannot open", error);
    return disk.open_read(path);
  }
  bool exists(const std::string& path) const override { return answers_for(path) && disk.exists(path); }
  using Disk::write_atomic;
  void write_atomic(const std::string& path, std::span<const std::string_view> parts) override {
    disk.write_atomic(path, parts);
  }
  std::unique_ptr<AppendFile> open_append(const std::string& path) override { return disk.open_append(path); }
  void truncate(const std::string& path, uint64_t bytes) override { disk.truncate(path, bytes); }
  void rename(const std::string& from, const std::string& to) override { disk.rename(from, to); }
  void remove(const std::string& path) override { disk.remove(path); }
  bool remove_directory(const std::string& path, std::span<const std::string> names) override {
    return disk.remove_directory(path, names);
  }
  void make_directory(const std::string& path) override { disk.make_directory(path); }
  std::vector<std::string> list(const std::string& path) const override { return disk.list(path); }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return disk.lock(path); }

  Disk& disk;
  int error = 0;
};

struct Fixture {
  Fixture() { open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~Fixture() { close_log(); }
  std::string log() const { return log_disk.read("log"); }
  std::string metrics() const { return disk.read("run/metrics.jsonl"); }

  MemoryDisk disk, log_disk;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "run_folder: a new folder has the effective config and is not resuming") {
  RunFolder run(disk, "run", kConfig);
  CHECK_FALSE(run.resuming());
  CHECK(disk.read("run/config.json") == kConfig + '\n');
}

TEST_CASE_FIXTURE(Fixture,
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

TEST_CASE_FIXTURE(Fixture, "run_folder: until something was trained, new settings replace the old ones") {
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

TEST_CASE_FIXTURE(Fixture, "run_folder: a refused resume names the settings that may not change, at most eight") {
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
    Fixture, "run_folder: metrics of an update, unreadable metrics and checkpoints of an update fix the settings") {
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
    Fixture, "run_folder: a changed field that may not change is refused with both values, and the config is kept") {
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

TEST_CASE_FIXTURE(Fixture,
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

TEST_CASE_FIXTURE(Fixture, "run_folder: an older config is upgraded before it is compared") {
  {
    RunFolder run(disk, "run", R"({"seed": 1})");
  }
  const auto upgrade = [](const std::string&) { return std::string(R"({"seed": 1, "added": 0})"); };
  CHECK_NOTHROW(RunFolder(disk, "run", R"({"seed": 1, "added": 0})", {nullptr, upgrade}));
}

TEST_CASE_FIXTURE(Fixture, "run_folder: the error about a damaged config.json has its path and position") {
  disk.write_atomic("run/run.lock", std::string());
  disk.write_atomic("run/config.json", "{\"seed\": 1, ");
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }).starts_with("run/config.json:1:13: not valid JSON"));
  disk.write_atomic("run/config.json", std::string());
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }).starts_with("run/config.json: is empty"));
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a folder whose config.json is not of a run is refused and not changed") {
  disk.write_atomic("home/config.json", kConfig);
  CHECK(config_error_of([&] { RunFolder(disk, "home", kConfig); }) ==
        "home: not a run folder, no run has written its config.json; use an empty or a new folder");
  CHECK(disk.list("home").size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a folder with other files is refused and not changed") {
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

TEST_CASE_FIXTURE(Fixture, "run_folder: after a crash at any operation of the opening the folder can be opened") {
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

TEST_CASE("run_folder: large metrics are truncated without reading them into memory") {
  test::TempFolder folder;
  const std::string path = folder / "run/metrics.jsonl";
  {
    const RunFolder made(posix_disk(), folder / "run", kConfig);
  }
  posix_disk().write_atomic(path, "{\"updates\":1,\"env_steps\":8}\n{\"updates\":2,\"env_steps\":16}\n");
  std::filesystem::resize_file(path, uint64_t{1} << 30);
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  RunFolder run(posix_disk(), folder / "run", kConfig);
  run.begin_metrics(1.0, RunFolder::ResumePoint{1, 8});
  CHECK(posix_disk().read(path) == "{\"updates\":1,\"env_steps\":8}\n");
  CHECK(run.metrics_lines() == 1);
#if defined(__SANITIZE_ADDRESS__)
  constexpr long kMost = 512 << 10;  // half of the file; the sanitizer keeps up to 256 MiB of freed memory
#else
  constexpr long kMost = 100 << 10;
#endif
  CHECK(peak() - before < kMost);
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

TEST_CASE_FIXTURE(Fixture, "run_folder: a folder with checkpoints and without a config is refused") {
  CheckpointStore(disk, "run/checkpoints").save({});
  CHECK(config_error_of([&] { RunFolder(disk, "run", kConfig); }) ==
        "run: not a run folder, it holds checkpoints and no config.json; use an empty or a new folder");
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a checkpoint of a run with another seed is not used") {
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

TEST_CASE_FIXTURE(Fixture, "run_folder: lines of metrics are counted, also after a resume") {
  {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    for (int i = 0; i < 3; ++i) run.write_metrics(R"({"updates":1,"env_steps":10})");
    CHECK(run.metrics_lines() == 3);
  }
  for (const auto lines : {std::optional<uint64_t>(), std::optional<uint64_t>(2)}) {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(2.0, RunFolder::ResumePoint{1, 10, lines});
    CHECK(run.metrics_lines() == lines.value_or(3));
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "run_folder: a line of metrics is in the file immediately, and a text of two lines is refused") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  run.write_metrics(R"({"updates":1})");
  CHECK(metrics() == "{\"updates\":1}\n");
  CHECK_THROWS_AS(run.write_metrics("{\n}"), InvariantError);
}

TEST_CASE_FIXTURE(Fixture, "run_folder: at a resume an incomplete line and lines after the checkpoint are cut off") {
  struct Case {
    std::string before;
    std::optional<RunFolder::ResumePoint> resume;
    std::string after;
  };
  const auto line = [](int updates, int env_steps) {
    return "{\"updates\":" + std::to_string(updates) + ",\"env_steps\":" + std::to_string(env_steps) + "}\n";
  };
  const std::string two = line(1, 10) + line(2, 20);
  const Case cases[] = {
      {two, {{2, 20}}, two},
      {two + "{\"upd", {{2, 20}}, two},
      {two + line(3, 30) + line(4, 40) + "{\"u", {{2, 20}}, two},
      {two + line(2, 25), {{2, 20}}, two},  // the same update, but after the checkpoint
      {two + "garbage\n\n", {{2, 20}}, two},
      {two, {{0, 0}}, ""},
      {two + line(2, 20), {{2, 20, 2}}, two},
      {two + "{\"upd", {{1, 10, 2}}, two},
      {two, {{2, 20, 0}}, ""},
      {two, {{2, 20, 3}}, two},
      {"{\"updates\":2", {{2, 20}}, ""},
      {"\n", {{2, 20}}, ""},
      {"", {{2, 20}}, ""},
  };
  for (const Case& each : cases) {
    disk.write_atomic("run/config.json", kConfig);
    disk.write_atomic("run/metrics.jsonl", each.before);
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, each.resume);
    CHECK(metrics() == each.after);
    run.write_metrics("{\"updates\":9}");
    CHECK(metrics() == each.after + "{\"updates\":9}\n");
  }
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a run without a checkpoint starts new metrics and keeps those of every start") {
  for (const std::string start : {"1", "2", "3"}) {
    RunFolder run(disk, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    CHECK(run.metrics_lines() == 0);
    run.write_metrics("{\"updates\":" + start + "}");
    const auto& former = run.former_metrics();
    CHECK(former ==
          (start == "1" ? std::nullopt : std::optional("run/metrics.jsonl." + std::to_string(std::stoi(start) - 1))));
  }
  CHECK(disk.read("run/metrics.jsonl.1") == "{\"updates\":1}\n");
  CHECK(disk.read("run/metrics.jsonl.2") == "{\"updates\":2}\n");
  CHECK(metrics() == "{\"updates\":3}\n");
}

TEST_CASE_FIXTURE(Fixture,
                  "run_folder: a folder with the summary of a run that has trained but no checkpoint is refused") {
  const std::string other = replaced(kConfig, "\"name\": \"a\"", "\"name\": \"b\"");
  for (const std::string summary : {R"({"updates": 4})", R"({"env_steps": 4})", "torn", ""}) {
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
  disk.write_atomic("run/summary.json", std::string(R"({"updates": 0})"));
  CHECK(RunFolder(disk, "run", other, kSettings).resuming());
  disk.write_atomic("run/summary.json", std::string(R"({"updates": 4})"));
  disk.make_directory("run/checkpoints/000000000004.damaged");  // checked later, by recover()
  CHECK(RunFolder(disk, "run", other, kSettings).resuming());
}

TEST_CASE_FIXTURE(Fixture, "run_folder: lines that do not fit on a full disk are lost and counted, with one warning") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  run.write_metrics("{\"updates\":1}");
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 5});
  for (int i = 0; i < 4; ++i) run.write_metrics("{\"updates\":2}");
  run.write_scalars(1.0, 2, {{"x", 1}});
  disk.clear_fault();
  run.write_metrics("{\"updates\":3}");
  run.write_scalars(1.0, 3, {{"x", 1}});
  CHECK(run.lost_writes() == 5);
  CHECK(metrics() == "{\"updates\":1}\n{\"updates\":3}\n");
  CHECK(log().find("metrics.jsonl: cannot write: No space left on device; the run continues") != std::string::npos);
  CHECK(log().find("metrics.jsonl: writable again, 4 writes were lost") != std::string::npos);
}

TEST_CASE_FIXTURE(
    Fixture,
    "run_folder: after a file is renamed, removed or cut, complete lines are kept and events go to a new file") {
  const std::string one = "{\"updates\":1,\"env_steps\":1}\n", two = "{\"updates\":2,\"env_steps\":2}";
  const auto size = static_cast<int64_t>(one.size());
  struct Change {
    const char* name;
    void (*act)(const std::filesystem::path& file, int64_t bytes);
    int64_t bytes = 0;
    uint64_t lines = 0;  // complete lines that are kept
  };
  namespace fs = std::filesystem;
  const auto cut = [](const fs::path& file, int64_t bytes) { fs::resize_file(file, static_cast<uint64_t>(bytes)); };
  const Change changes[] = {
      {"removed", [](const fs::path& file, int64_t) { fs::remove(file); }},
      {"renamed", [](const fs::path& file, int64_t) { fs::rename(file, file.string() + ".old"); }},
      {"rotated",
       [](const fs::path& file, int64_t) {
         fs::rename(file, file.string() + ".old");
         std::ofstream(file).flush();
       }},
      {"cut to nothing", cut},
      {"cut inside the first line", cut, size - 1},
      {"cut at the end of a line", cut, 2 * size, 2},
      {"cut inside a line", cut, 2 * size + 1, 2},
      {"cut before the last byte", cut, 3 * size - 1, 2},
  };
  for (const Change& change : changes) {
    CAPTURE(change.name);
    test::TempFolder folder;
    const fs::path path = folder / "run", metrics_path = path / "metrics.jsonl";
    const fs::path events = path / event_file_name(1.0, 0), next_events = path / event_file_name(1.0, 1);
    RunFolder run(posix_disk(), path.string(), kConfig);
    run.begin_metrics(1.0, std::nullopt);
    const size_t warned = log().size();
    for (int i = 0; i < 3; ++i) run.write_metrics(one.substr(0, one.size() - 1));
    run.write_scalars(1.0, 1, {{"x", 1}});
    change.act(metrics_path, change.bytes);
    change.act(events, std::min(change.bytes, static_cast<int64_t>(fs::file_size(events)) - 1));
    const std::string left = fs::exists(events) ? posix_disk().read(events.string()) : "";
    for (int i = 0; i < 2; ++i) run.write_metrics(two);
    for (int i = 0; i < 2; ++i) run.write_scalars(2.0, 2, {{"x", 2}});
    std::string kept;
    for (uint64_t i = 0; i < change.lines; ++i) kept += one;
    CHECK(posix_disk().read(metrics_path.string()) == kept + two + '\n' + two + '\n');
    CHECK(run.metrics_lines() == change.lines + 2);
    const std::string scalar = tfrecord(event_scalars(2.0, 2, {{"x", 2}}));
    CHECK(posix_disk().read(next_events.string()) == tfrecord(event_file_version(1.0)) + scalar + scalar);
    CHECK((fs::exists(events) ? posix_disk().read(events.string()) : "") == left);
    CHECK(run.lost_writes() == 0);
    const std::string lines = log().substr(warned), changed = ": was renamed, removed or cut during the run; ";
    for (const std::string& line :
         {metrics_path.string() + changed +
              (change.lines > 0 ? "the run appends to the 2 whole lines that it holds" : "a new file is begun"),
          events.string() + changed + next_events.string() + " continues it"}) {
      const size_t first = lines.find(line);
      CHECK(first != std::string::npos);
      CHECK(lines.find(line, first + 1) == std::string::npos);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "run_folder: after an incomplete line that cannot be cut off no line is appended") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  for (int i = 0; i < 3; ++i) run.write_metrics("{\"updates\":1}");
  disk.damage("run/metrics.jsonl", metrics().substr(0, 20));
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 2});
  for (int i = 0; i < 3; ++i) run.write_metrics("{\"updates\":2}");
  disk.clear_fault();
  CHECK(metrics() == "{\"updates\":1}\n{\"updates\":2}\n");
  CHECK(run.metrics_lines() == 2);
  CHECK(run.lost_writes() == 2);
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a resume with missing metrics logs how many lines are lost") {
  const auto line = [](int updates, int env_steps) {
    return "{\"updates\":" + std::to_string(updates) + ",\"env_steps\":" + std::to_string(env_steps) + "}\n";
  };
  const std::string two = line(1, 10) + line(2, 20);
  struct Case {
    std::optional<std::string> before;
    std::string warning;
  };
  const std::string end =
      " of the 2 lines that there were at the checkpoint from which the run resumes, that of update "
      "2; the others are lost\n";
  const Case cases[] = {{std::nullopt, "is missing, so there are none" + end},
                        {"", "holds 0" + end},
                        {line(1, 10) + "{\"upd", "holds 1" + end},
                        {two, ""},
                        {two + line(3, 30), ""}};
  for (const Case& each : cases) {
    for (const bool counted : {false, true}) {  // true as in a deterministic run
      disk = MemoryDisk();
      const std::string path = counted ? "counted" : "run";
      disk.write_atomic(path + "/run.lock", std::string());
      disk.write_atomic(path + "/config.json", kConfig);
      if (each.before) disk.write_atomic(path + "/metrics.jsonl", *each.before);
      RunFolder run(disk, path, kConfig);
      const size_t logged = log().size();
      run.begin_metrics(1.0, counted ? RunFolder::ResumePoint{2, 20, 2} : RunFolder::ResumePoint{2, 20, {}, 2});
      const std::string lines = log().substr(logged);
      CHECK(lines.empty() == each.warning.empty());
      CHECK_MESSAGE(lines.find(each.warning) != std::string::npos, lines);
    }
  }
}

TEST_CASE_FIXTURE(Fixture, "run_folder: cut_updates() is the last update whose metrics a resume has cut off") {
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

TEST_CASE("run_folder: a start is refused if a file that is written later is not a regular file") {
  for (const char* file : {"summary.json", "endpoints.json", "epoch", "metrics.jsonl", "log.txt"})
    for (const test::BadFile& bad : test::kBadFiles) {
      const bool regular = bad.name == "an empty file" || bad.name == "6 GiB of zeros" ||
                           bad.name == "a file of the system" || bad.name == "a huge file of the system";
      if (regular || bad.name == "a broken link") continue;
      CAPTURE(file);
      CAPTURE(bad.name);
      test::TempFolder folder;
      const std::string run = folder / "r", path = run + '/' + file;
      {
        const RunFolder made(posix_disk(), run, kConfig);
      }
      test::replace_by(bad, path);
      const std::vector<std::string> names = posix_disk().list(run);
      const std::string line = config_error_of([&] { RunFolder(posix_disk(), run, kConfig); });
      CHECK_MESSAGE(line.starts_with(path + ": "), line);
      CHECK(posix_disk().list(run) == names);
    }
}

TEST_CASE_FIXTURE(Fixture, "run_folder: while the file system does not answer, metrics and events are still appended") {
  for (const int error : {ESTALE, EIO, EACCES}) {
    CAPTURE(error);
    disk = MemoryDisk();
    UnansweringDisk network(disk);
    RunFolder run(network, "run", kConfig);
    run.begin_metrics(1.0, std::nullopt);
    run.write_metrics("{\"updates\":1}");
    run.write_scalars(1.0, 1, {{"x", 1}});
    const size_t logged = log().size();
    network.error = error;
    run.write_metrics("{\"updates\":2}");
    run.write_scalars(2.0, 2, {{"x", 2}});
    network.error = 0;
    run.write_metrics("{\"updates\":3}");
    run.write_scalars(3.0, 3, {{"x", 3}});
    CHECK(run.metrics_lines() == 3);
    CHECK(metrics() == "{\"updates\":1}\n{\"updates\":2}\n{\"updates\":3}\n");
    CHECK_FALSE(disk.exists("run/" + event_file_name(1.0, 1)));
    CHECK(log().size() == logged);
  }
}

TEST_CASE_FIXTURE(Fixture, "run_folder: a start that cannot read metrics.jsonl is refused") {
  UnansweringDisk network(disk);
  disk.write_atomic("run/config.json", kConfig);
  disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":3,\"env_steps\":30}\n"));
  RunFolder run(network, "run", kConfig);
  network.error = ESTALE;
  CHECK(config_error_of([&] {
          run.begin_metrics(1.0, RunFolder::ResumePoint{3, 30});
        }).starts_with("run/metrics.jsonl: cannot open: "));
}

TEST_CASE_FIXTURE(Fixture, "run_folder: if metrics have only lines after the checkpoint, all are cut off") {
  disk.write_atomic("run/config.json", kConfig);
  disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":3,\"env_steps\":30}\n"));
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, RunFolder::ResumePoint{2, 20, 2});
  CHECK(metrics().empty());
  CHECK(run.metrics_lines() == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "run_folder: each start writes a new TensorBoard file, with a restart event after a resume") {
  for (const bool resumed : {false, true}) {
    RunFolder run(disk, "run", kConfig);
    CHECK(run.resuming() == resumed);
    run.begin_metrics(7.0, resumed ? std::optional<RunFolder::ResumePoint>({1, 2048}) : std::nullopt);
    run.write_scalars(8.0, 4096, {{"x", 1}});
  }
  const std::string version = tfrecord(event_file_version(7.0)),
                    scalar = tfrecord(event_scalars(8.0, 4096, {{"x", 1}}));
  CHECK(disk.read("run/" + event_file_name(7.0, 0)) == version + scalar);
  CHECK(disk.read("run/" + event_file_name(7.0, 1)) == version + tfrecord(event_restart(7.0, 2049)) + scalar);
}

TEST_CASE_FIXTURE(
    Fixture, "run_folder: the summary is replaced completely or not at all, and endpoints.json is removed at the end") {
  {
    RunFolder run(disk, "run", kConfig);
    run.write_endpoints("{}");
    run.write_summary("{\"a\":1}");
    disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1});
    CHECK_THROWS_AS(run.write_summary("{\"a\":2}"), IoError);
    CHECK(disk.exists("run/endpoints.json"));
  }
  CHECK(disk.read("run/summary.json") == "{\"a\":1}\n");
  CHECK_FALSE(disk.exists("run/endpoints.json"));
}

TEST_CASE_FIXTURE(Fixture, "run_folder: if an old checkpoint cannot be removed, the new one is still saved") {
  RunFolder folder(disk, "run", kConfig);
  Checkpoint checkpoint;
  const auto save = [&](uint64_t updates) {
    checkpoint.updates = checkpoint.version.number = updates;
    folder.save_checkpoint(checkpoint, 1);
  };
  save(1);
  const uint64_t begun = disk.operations();
  save(2);
  const uint64_t last = disk.operations() - begun - 1;  // the last operation of a save is one of the removal
  disk.set_fault({.first = disk.operations() + last, .count = 1});
  save(3);
  disk.clear_fault();
  CHECK(folder.checkpoints().load_newest()->updates == 3);
  CHECK(log().find("; an old checkpoint is kept") != std::string::npos);
}
