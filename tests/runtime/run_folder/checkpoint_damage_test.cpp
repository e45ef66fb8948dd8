#include "runtime/run_folder/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/runtime/run_folder/stored_checkpoints.h"
#include "tests/support/bad_files.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A disk in memory that calls `after_listing` after the next listing of a folder, and refuses to read the file
// `refused`.
class BusyDisk final : public Disk {
 public:
  std::unique_ptr<ReadFile> open_read(const std::string& path) const override {
    if (path == refused) throw IoError(path, "cannot open", error);
    return disk_.open_read(path);
  }
  void write_atomic(const std::string& path, std::span<const std::string_view> parts) override {
    disk_.write_atomic(path, parts);
  }
  std::unique_ptr<AppendFile> open_append(const std::string& path) override { return disk_.open_append(path); }
  void truncate(const std::string& path, uint64_t bytes) override { disk_.truncate(path, bytes); }
  void rename(const std::string& from, const std::string& to) override { disk_.rename(from, to); }
  void remove(const std::string& path) override { disk_.remove(path); }
  bool remove_directory(const std::string& path, std::span<const std::string> names) override {
    return disk_.remove_directory(path, names);
  }
  void make_directory(const std::string& path) override { disk_.make_directory(path); }
  bool exists(const std::string& path) const override { return disk_.exists(path); }
  std::vector<std::string> list(const std::string& path) const override {
    const std::vector<std::string> names = disk_.list(path);
    if (const auto action = std::exchange(after_listing, nullptr)) action();
    return names;
  }
  std::unique_ptr<FileLock> lock(const std::string& path) override { return disk_.lock(path); }

  mutable std::function<void()> after_listing;
  std::string refused;
  int error = 0;

 private:
  MemoryDisk disk_;
};

}  // namespace

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: every flipped bit is detected or changes nothing") {
  store.save(checkpoint_at(1));
  for (const std::string& name : disk.list(store.path_of(1))) {
    const std::string path = store.path_of(1) + '/' + name;
    const std::string good = disk.read(path);
    for (size_t byte = 0; byte < good.size(); ++byte) {
      flip_bit(path, byte);
      bool same = false;
      try {
        same = store.load(1) == checkpoint_at(1);
      } catch (const IoError& error) {
        same = std::string(error.what()).starts_with("run/checkpoints/000000000001/");
      }
      CHECK_MESSAGE(same, name, byte);
      disk.damage(path, good);
    }
  }
}

TEST_CASE_FIXTURE(StoredCheckpoints,
                  "checkpoint: a missing or truncated file is reported, and the checkpoint before is used") {
  for (const char* name : {"/model.safetensors", "/optimizer.safetensors", "/extras.safetensors", "/state.json"}) {
    for (const int kept_bytes : {-1, 0, 30}) {  // -1: the file is missing
      for (uint64_t step : {1, 2}) store.save(checkpoint_at(step));
      const std::string path = store.path_of(2) + name;
      if (kept_bytes < 0)
        disk.remove(path);
      else
        disk.truncate(path, static_cast<uint64_t>(kept_bytes));
      CHECK_MESSAGE(store.load_newest()->updates == 1, path, kept_bytes);
      CHECK(log().find("warning checkpoint: " + path) != std::string::npos);
    }
  }
  CHECK(log().find("using the checkpoint before it") != std::string::npos);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: recover renames damaged ones, so that prune does not count them") {
  for (uint64_t step : {1, 2, 3}) store.save(checkpoint_at(step));
  flip_bit(store.path_of(3) + "/model.safetensors", 100);
  CHECK(store.recover()->updates == 2);
  CHECK(store.list() == std::vector<uint64_t>{1, 2});
  CHECK(disk.exists("run/checkpoints/000000000003.damaged"));
  store.prune(1, 2);
  CHECK(store.recover()->updates == 2);
}

TEST_CASE_FIXTURE(
    StoredCheckpoints,
    "checkpoint: if none can be used, the error names the problem of the newest, and nothing is changed") {
  for (uint64_t step : {1, 2}) {
    store.save(checkpoint_at(step));
    disk.damage(store.path_of(step) + "/state.json", "[]");
  }
  const std::string problem =
      "run/checkpoints: no checkpoint can be used; the newest one: run/checkpoints/000000000002/state.json: damaged: ";
  CHECK(io_error_of([&] { store.load_newest(); }).starts_with(problem));
  CHECK(io_error_of([&] { store.recover(); }).starts_with(problem));
  CHECK(store.list() == std::vector<uint64_t>{1, 2});
  CHECK(log().empty());
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: a copy with another number is not used, and is renamed") {
  store.save(checkpoint_at(20));
  copy(20, 99);
  copy(20, 7);
  CHECK(store.load_newest()->updates == 20);
  CHECK(store.recover()->updates == 20);
  CHECK(store.list() == std::vector<uint64_t>{7, 20});
  CHECK(disk.exists("run/checkpoints/000000000099.foreign"));
  CHECK(log().find("run/checkpoints/000000000099: holds the checkpoint of update 20, expected that of update 99; using "
                   "the checkpoint before it") != std::string::npos);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: prune does not count copies with a number above the newest") {
  for (uint64_t step : {10, 20, 30}) store.save(checkpoint_at(step));
  copy(20, 99);
  store.prune(2, 30);
  CHECK(store.list() == std::vector<uint64_t>{20, 30, 99});
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: other files in the folder are not changed") {
  for (const char* name : {"notes.old", "notes.tmp", "000000000001.txt"})
    disk.write_atomic(std::string("run/checkpoints/") + name, "mine");
  store.save(checkpoint_at(1));
  store.recover();
  CHECK(disk.list("run/checkpoints").size() == 4);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: what others put among its files is never deleted") {
  const std::vector<std::string> names = {"000000000001", "000000000002", "000000000002.tmp", "000000000002.old",
                                          "000000000009.tmp"};
  store.save(checkpoint_at(1));
  store.save(checkpoint_at(2));
  for (const std::string& name : names) disk.write_atomic("run/checkpoints/" + name + "/notes.txt", name);
  disk.write_atomic("run/checkpoints/000000000003.tmp", "a file");
  store.recover();
  for (uint64_t step : {2, 3}) store.save(checkpoint_at(step));
  store.prune(1, 3, {});
  CHECK(store.list() == std::vector<uint64_t>{3});
  std::set<std::string> kept;
  for (const std::string& name : disk.list("run/checkpoints")) {
    const std::string path = "run/checkpoints/" + name;
    CHECK(disk.exists(path + "/model.safetensors") == (name == "000000000003"));
    if (disk.exists(path + "/notes.txt")) kept.insert(disk.read(path + "/notes.txt"));
  }
  CHECK(kept == std::set<std::string>(names.begin(), names.end()));
  CHECK(disk.read("run/checkpoints/000000000003.kept") == "a file");
  CHECK(log().find("run/checkpoints/000000000001.tmp: holds files that are not of a checkpoint; they are kept in "
                   "run/checkpoints/000000000001.kept") != std::string::npos);
}

TEST_CASE("checkpoint: the target of a link in the place of a checkpoint is not changed") {
  test::TempFolder folder;
  CheckpointStore store(posix_disk(), folder / "checkpoints");
  for (uint64_t step : {1, 2}) store.save(checkpoint_at(step));
  posix_disk().rename(store.path_of(1), folder / "archive");
  std::filesystem::create_directory_symlink(folder / "archive", store.path_of(1));
  store.prune(1, 2, {});
  CHECK(posix_disk().list(folder / "archive").size() == 4);
}

TEST_CASE("checkpoint: another kind of file in place of one of its files is refused by name") {
  test::TempFolder folder;
  CheckpointStore store(posix_disk(), folder / "checkpoints");
  for (const char* file : {"state.json", "model.safetensors", "optimizer.safetensors", "extras.safetensors"}) {
    for (const test::BadFile& bad : test::kBadFiles) {
      CAPTURE(file);
      CAPTURE(bad.name);
      for (uint64_t step : {1, 2}) store.save(checkpoint_at(step));
      const std::string path = store.path_of(2) + '/' + file;
      test::replace_by(bad, path);
      std::string error;
      bool refused = false;  // the system refused to open the file, so its contents are unknown
      try {
        store.load(2);
      } catch (const IoError& thrown) {
        error = thrown.what();
        refused = thrown.is_refusal();
      }
      CHECK_MESSAGE(error.starts_with(path + ": "), error);
      CHECK((refused || bad.name != "a link to itself"));
      if (refused) {
        CHECK(io_error_of([&] { store.recover(); }) == error);
        CHECK(store.list() == std::vector<uint64_t>{1, 2});
      } else {
        CHECK(store.recover()->updates == 1);
        std::filesystem::remove_all(store.path_of(2) + ".damaged");
      }
    }
  }
}

TEST_CASE("checkpoint: one that the system refuses to read is neither skipped nor renamed") {
  for (const char* file : {"/state.json", "/model.safetensors", "/optimizer.safetensors", "/extras.safetensors"})
    for (const int error : {EACCES, EPERM, EIO, ELOOP, EMFILE, ENFILE, ENOMEM, ESTALE}) {
      CAPTURE(file);
      CAPTURE(error);
      BusyDisk disk;
      CheckpointStore store(disk, "run", {});
      for (uint64_t step : {1, 2}) store.save(checkpoint_at(step));
      disk.refused = store.path_of(2) + file;
      disk.error = error;
      const std::string line = disk.refused + ": cannot open: " + std::generic_category().message(error);
      CHECK(io_error_of([&] { store.load_newest(); }) == line);
      CHECK(io_error_of([&] { store.recover(); }) == line);
      CHECK(io_error_of([&] { store.check(2); }) == line);
      CHECK(io_error_of([&] { store.load_checked(2); }) == line);
      CHECK(disk.list("run") == std::vector<std::string>{"000000000001", "000000000002"});
      disk.error = 0;
      disk.refused.clear();
      CHECK(store.recover() == checkpoint_at(2));
    }
}

TEST_CASE_FIXTURE(StoredCheckpoints,
                  "checkpoint: each renamed checkpoint is reported with one line and replaces no earlier one") {
  for (int round = 0; round < 3; ++round) {
    for (uint64_t step : {1, 2, 3}) store.save(checkpoint_at(step));
    for (uint64_t step : {2, 3}) disk.truncate(store.path_of(step) + "/model.safetensors", 30);
    const size_t logged = log().size();
    CHECK(store.recover()->updates == 1);
    const std::string lines = log().substr(logged), number = round == 0 ? "" : "." + std::to_string(round);
    for (uint64_t step : {2, 3})
      CHECK(lines.find(store.path_of(step) +
                       "/model.safetensors: damaged: 30 bytes, 104 were written; the checkpoint is "
                       "renamed to " +
                       store.path_of(step) + ".damaged" + number + '\n') != std::string::npos);
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);
  }
  CHECK(disk.list("run/checkpoints").size() == 7);
}

TEST_CASE("checkpoint: another kind of file in place of its folder is refused by name") {
  test::TempFolder folder;
  CheckpointStore store(posix_disk(), folder / "checkpoints");
  for (const test::BadFile& bad : test::kBadFiles) {
    if (bad.name == "a directory") continue;
    CAPTURE(bad.name);
    store.save(checkpoint_at(1));
    test::replace_by(bad, store.path_of(2));
    const std::string error = io_error_of([&] { store.load(2); });
    CHECK_MESSAGE(error.starts_with(store.path_of(2)), error);
    if (bad.name == "a pipe" || bad.name == "an empty file")
      CHECK(error == store.path_of(2) + ": is not a directory, expected one with the files of a checkpoint");
    std::filesystem::remove_all(store.path_of(2));
  }
}

TEST_CASE("checkpoint: if the trainer replaces the checkpoint during a read, the new one is read") {
  BusyDisk disk;
  CheckpointStore trainer(disk, "run", {}), reader(disk, "run", {});
  trainer.save(checkpoint_at(150));
  disk.after_listing = [&] {
    trainer.save(checkpoint_at(160));
    trainer.prune(1, 160);
  };
  const std::optional<Checkpoint> newest = reader.load_newest();
  REQUIRE(newest);
  CHECK(newest->updates == 160);
}

TEST_CASE("checkpoint: one that the trainer removes during a read is not reported as damaged") {
  MemoryDisk log_disk;
  open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
  BusyDisk disk;
  CheckpointStore trainer(disk, "run", {}), reader(disk, "run", {});
  trainer.save(checkpoint_at(6));
  trainer.save(checkpoint_at(940));
  disk.after_listing = [&] {
    trainer.save(checkpoint_at(941));
    trainer.prune(1, 941, {6});
  };
  CHECK(reader.load_newest() == checkpoint_at(941));
  close_log();
  CHECK(log_disk.read("log") == "");
}

TEST_CASE("checkpoint: if the trainer removes each one before it is read, reading ends with an error") {
  BusyDisk disk;
  CheckpointStore trainer(disk, "run", {}), reader(disk, "run", {});
  uint64_t step = 1;
  trainer.save(checkpoint_at(step));
  std::function<void()> replace = [&] {
    trainer.save(checkpoint_at(++step));
    trainer.remove(step - 1);
    disk.after_listing = replace;
  };
  disk.after_listing = replace;
  CHECK_THROWS_WITH_AS(reader.load_newest(),
                       "run: each checkpoint was removed while it was read; raise checkpoint.keep of the run", IoError);
}
