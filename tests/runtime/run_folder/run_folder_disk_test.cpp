// A run folder on a disk that is full, does not answer or is changed by others.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
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

TEST_CASE("run_folder: a start is refused if a file that is written later is not a regular file") {
  for (const char* file : {"summary.json", "endpoints.json", "epoch", "metrics.jsonl", "alarms.json", "log.txt"})
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
