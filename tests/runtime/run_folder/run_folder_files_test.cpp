#include "runtime/run_folder/run_folder.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "tests/runtime/run_folder/run_folder_fixture.h"
#include "tests/support/bad_files.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

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

}  // namespace

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

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: lines of metrics are counted, also after a resume") {
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

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a line of metrics is in the file immediately, and a text of two lines is refused") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  run.write_metrics(R"({"updates":1})");
  CHECK(metrics() == "{\"updates\":1}\n");
  CHECK_THROWS_AS(run.write_metrics("{\n}"), InvariantError);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: at a resume an incomplete line and lines after the checkpoint are cut off") {
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

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: a run without a checkpoint starts new metrics and keeps those of every start") {
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

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: lines that do not fit on a full disk are lost and counted, with one warning") {
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, std::nullopt);
  run.write_metrics("{\"updates\":1}");
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 5});
  for (int i = 0; i < 4; ++i) run.write_metrics("{\"updates\":2}");
  run.write_scalars(1.0, 2, {{"x", 1}});
  REQUIRE(run.refusals().size() == 2);
  CHECK(run.refusals()[0] == "run/metrics.jsonl: cannot write: No space left on device");
  CHECK(run.refusals()[1].starts_with("run/events.out.tfevents."));
  disk.clear_fault();
  run.write_metrics("{\"updates\":3}");
  CHECK(run.refusals().size() == 1);
  run.write_scalars(1.0, 3, {{"x", 1}});
  CHECK(run.refusals().empty());
  CHECK(run.lost_writes() == 5);
  CHECK(metrics() == "{\"updates\":1}\n{\"updates\":3}\n");
  CHECK(log().find("metrics.jsonl: cannot write: No space left on device; the run continues") != std::string::npos);
  CHECK(log().find("metrics.jsonl: writable again, 4 writes were lost") != std::string::npos);
}

TEST_CASE_FIXTURE(
    RunFolderFixture,
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
    CHECK(posix_disk().read(next_events.string()) ==
          tfrecord(event_file_version(1.0)) + tfrecord(event_hparams(1.0, kHParams)) + scalar + scalar);
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

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: after an incomplete line that cannot be cut off no line is appended") {
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

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a resume with missing metrics logs how many lines are lost") {
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

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: while the file system does not answer, metrics and events are still appended") {
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

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: a start that cannot read metrics.jsonl is refused") {
  UnansweringDisk network(disk);
  disk.write_atomic("run/config.json", kConfig);
  disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":3,\"env_steps\":30}\n"));
  RunFolder run(network, "run", kConfig);
  network.error = ESTALE;
  CHECK(config_error_of([&] {
          run.begin_metrics(1.0, RunFolder::ResumePoint{3, 30});
        }).starts_with("run/metrics.jsonl: cannot open: "));
}

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: if metrics have only lines after the checkpoint, all are cut off") {
  disk.write_atomic("run/config.json", kConfig);
  disk.write_atomic("run/metrics.jsonl", std::string("{\"updates\":3,\"env_steps\":30}\n"));
  RunFolder run(disk, "run", kConfig);
  run.begin_metrics(1.0, RunFolder::ResumePoint{2, 20, 2});
  CHECK(metrics().empty());
  CHECK(run.metrics_lines() == 0);
}

TEST_CASE_FIXTURE(RunFolderFixture,
                  "run_folder: each start writes a new TensorBoard file, with a restart event after a resume") {
  for (const bool resumed : {false, true}) {
    RunFolder run(disk, "run", kConfig);
    CHECK(run.resuming() == resumed);
    run.begin_metrics(7.0, resumed ? std::optional<RunFolder::ResumePoint>({1, 2048}) : std::nullopt);
    run.write_scalars(8.0, 4096, {{"x", 1}});
  }
  const std::string version = tfrecord(event_file_version(7.0)) + tfrecord(event_hparams(7.0, kHParams)),
                    scalar = tfrecord(event_scalars(8.0, 4096, {{"x", 1}}));
  CHECK(disk.read("run/" + event_file_name(7.0, 0)) == version + scalar);
  CHECK(disk.read("run/" + event_file_name(7.0, 1)) == version + tfrecord(event_restart(7.0, 2049)) + scalar);
}

TEST_CASE_FIXTURE(
    RunFolderFixture,
    "run_folder: the summary is replaced completely or not at all, and endpoints.json is removed at the end") {
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

TEST_CASE_FIXTURE(RunFolderFixture, "run_folder: if an old checkpoint cannot be removed, the new one is still saved") {
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
