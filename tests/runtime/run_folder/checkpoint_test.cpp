#include "runtime/run_folder/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/support/bad_files.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

Checkpoint checkpoint_at(uint64_t updates) {
  Checkpoint checkpoint;
  checkpoint.version = {2, updates};
  checkpoint.env_steps = updates * 2048;
  checkpoint.updates = updates;
  checkpoint.seed = std::numeric_limits<uint64_t>::max();
  checkpoint.scalars = {{"lr", 0.1}, {"worst", -std::numeric_limits<double>::infinity()}};
  checkpoint.model = {{"w", Array::of<float>({2}, {1.5f, static_cast<float>(updates)})}};
  checkpoint.optimizer = {{"w.m", Array::of<float>({2}, {0.25f, NAN})}, {"step", Array::of<int64_t>({}, {7})}};
  checkpoint.extras = {{"env/0", std::string("\0\xff", 2)}, {"empty", ""}};
  return checkpoint;
}

std::string io_error_of(auto action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

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

// A checkpoint store on a disk in memory; warnings go to a file in memory.
struct Fixture {
  Fixture() { open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~Fixture() { close_log(); }
  std::string log() const { return log_disk.read("log"); }
  void flip_bit(const std::string& path, size_t byte) {
    std::string bytes = disk.read(path);
    bytes.at(byte) = static_cast<char>(bytes[byte] ^ 4);
    disk.damage(path, bytes);
  }

  void copy(uint64_t from, uint64_t to) {
    for (const std::string& name : disk.list(store.path_of(from)))
      disk.write_atomic(store.path_of(to) + '/' + name, disk.read(store.path_of(from) + '/' + name));
  }

  MemoryDisk disk, log_disk;
  CheckpointStore store{disk, "run/checkpoints"};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "checkpoint: a loaded checkpoint equals the saved one bit for bit") {
  store.save(checkpoint_at(150));
  CHECK(store.load(150) == checkpoint_at(150));
  CHECK(store.path_of(150) == "run/checkpoints/000000000150");
  CHECK(disk.list("run/checkpoints/000000000150") ==
        std::vector<std::string>{"extras.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"});
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: NaN among the scalars is kept, and a checkpoint without tensors can be saved") {
  Checkpoint empty;
  empty.scalars["x"] = NAN;
  store.save(empty);
  CHECK(std::isnan(store.load(0).scalars.at("x")));
  CHECK(store.load(0).model.empty());
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: a folder that does not exist has no checkpoints") {
  CHECK(store.list().empty());
  CHECK_FALSE(store.load_newest());
  CHECK_FALSE(store.recover());
  store.prune(1, 9);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: the newest has the largest number, also above 12 digits") {
  for (uint64_t step : {uint64_t{10}, uint64_t{9}, uint64_t{2'000'000'000'000}}) store.save(checkpoint_at(step));
  disk.write_atomic("run/checkpoints/notes.txt", "mine");
  CHECK(store.list() == std::vector<uint64_t>{9, 10, 2'000'000'000'000});
  CHECK(store.load_newest()->updates == 2'000'000'000'000);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: saving a number again replaces it") {
  Checkpoint other = checkpoint_at(1);
  other.env_steps = 7;
  store.save(checkpoint_at(1));
  store.save(other);
  CHECK(store.load(1) == other);
  CHECK(disk.list("run/checkpoints").size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: prune keeps the newest, and 0 keeps all") {
  for (uint64_t step = 1; step <= 4; ++step) store.save(checkpoint_at(step));
  store.prune(0, 4);
  CHECK(store.list().size() == 4);
  store.prune(2, 4);
  CHECK(store.list() == std::vector<uint64_t>{3, 4});
  CHECK(disk.list("run/checkpoints").size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: every flipped bit is detected or changes nothing") {
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: a missing or truncated file is reported, and the checkpoint before is used") {
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: recover renames damaged ones, so that prune does not count them") {
  for (uint64_t step : {1, 2, 3}) store.save(checkpoint_at(step));
  flip_bit(store.path_of(3) + "/model.safetensors", 100);
  CHECK(store.recover()->updates == 2);
  CHECK(store.list() == std::vector<uint64_t>{1, 2});
  CHECK(disk.exists("run/checkpoints/000000000003.damaged"));
  store.prune(1, 2);
  CHECK(store.recover()->updates == 2);
}

TEST_CASE_FIXTURE(
    Fixture, "checkpoint: if none can be used, the error names the problem of the newest, and nothing is changed") {
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: a copy with another number is not used, and is renamed") {
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: prune does not count copies with a number above the newest") {
  for (uint64_t step : {10, 20, 30}) store.save(checkpoint_at(step));
  copy(20, 99);
  store.prune(2, 30);
  CHECK(store.list() == std::vector<uint64_t>{20, 30, 99});
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: one of a run with other settings is not used") {
  const auto store_of = [&](const std::string& settings) {
    return CheckpointStore(disk, "run/checkpoints", {settings, {}});
  };
  const std::string ours = R"({"seed":1,"model":{"hidden":[64]}})";
  store_of(ours).save(checkpoint_at(1));
  for (const char* theirs : {R"({"seed":2,"model":{"hidden":[64]}})", R"({"seed":1,"model":{"hidden":[32]}})", "{}"}) {
    store_of(theirs).save(checkpoint_at(2));
    CHECK(
        io_error_of([&] { store_of(ours).load(2); }).starts_with("run/checkpoints/000000000002: is of another run: "));
    CHECK(store_of(ours).load_newest()->updates == 1);
    CHECK(store_of(theirs).load_newest()->updates == 2);
  }
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: settings of an older version are upgraded before they are compared") {
  CheckpointStore(disk, "run/checkpoints", {R"({"seed":1})", {}}).save(checkpoint_at(1));
  const std::string now = R"({"seed":1,"added":0})";
  CHECK_THROWS_AS(CheckpointStore(disk, "run/checkpoints", {now, {}}).load(1), IoError);
  const auto upgrade = [](const std::string& text) {
    return text.substr(0, text.size() - 1) + R"(,"added":0,"name":"x"})";
  };
  const auto change = [](std::string_view path) { return path == "name" ? Change::at_resume : Change::never; };
  CHECK(CheckpointStore(disk, "run/checkpoints", {now, {change, upgrade}}).load(1).updates == 1);
  const auto refuse = [](const std::string&) -> std::string { throw ConfigError("seed: unknown key"); };
  CHECK(io_error_of([&] { CheckpointStore(disk, "run/checkpoints", {now, {nullptr, refuse}}).load(1); }) ==
        "run/checkpoints/000000000001: is not of this run: seed: unknown key");
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: one of format 1, without settings, is compared by its seed") {
  store.save(checkpoint_at(1));
  // state.json as the version with format 1 wrote it.
  const auto as_format_1 = [&](nlohmann::json document) {
    document["format"] = 1;
    document["state"]["config_hash"] = "";
    document.erase("crc32c");
    char crc[16];
    std::snprintf(crc, sizeof crc, "%08x", crc32c(document.dump()));
    document["crc32c"] = crc;
    return document.dump(2);
  };
  const std::string path = store.path_of(1) + "/state.json";
  disk.damage(path, as_format_1(nlohmann::json::parse(disk.read(path))));
  const std::string same = R"({"gamma":0.5,"seed":18446744073709551615})", other = R"({"gamma":0.5,"seed":3})";
  CHECK(CheckpointStore(disk, "run/checkpoints", {same, {}}).load(1) == checkpoint_at(1));
  CHECK(io_error_of([&] { CheckpointStore(disk, "run/checkpoints", {other, {}}).load(1); }) ==
        "run/checkpoints/000000000001: is of another run: seed was 18446744073709551615 and is now 3");
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: a file that is larger than the model needs is refused") {
  store.save(checkpoint_at(1));
  store.expect_weights(8);
  CHECK_NOTHROW(store.load(1));
  Checkpoint large = checkpoint_at(2);
  large.model["w"] = Array(DType::u8, {static_cast<int64_t>(kMaxSafetensorsHeader) + 100});
  store.save(large);
  CHECK(io_error_of([&] { store.load(2); }).find("expected at most 4194336 for this run's model") != std::string::npos);
  CHECK(store.load_newest()->updates == 1);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: other files in the folder are not changed") {
  for (const char* name : {"notes.old", "notes.tmp", "000000000001.txt"})
    disk.write_atomic(std::string("run/checkpoints/") + name, "mine");
  store.save(checkpoint_at(1));
  store.recover();
  CHECK(disk.list("run/checkpoints").size() == 4);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: what others put among its files is never deleted") {
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

TEST_CASE_FIXTURE(Fixture,
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: one that is asked for and damaged is renamed, and a whole one is loaded") {
  for (const char* file : {"/state.json", "/model.safetensors", "/optimizer.safetensors", "/extras.safetensors"}) {
    CAPTURE(file);
    for (uint64_t step : {1, 2}) store.save(checkpoint_at(step));
    flip_bit(store.path_of(1) + file, disk.read(store.path_of(1) + file).size() - 9);
    CHECK_FALSE(store.load_checked(1));
    CHECK_FALSE(disk.exists(store.path_of(1)));
    CHECK(store.load_checked(2) == checkpoint_at(2));
    CHECK_FALSE(store.load_checked(3));
  }
  CHECK(disk.exists(store.path_of(1) + ".damaged"));
  CHECK(disk.exists(store.path_of(1) + ".damaged.3"));
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: scalar_of gives a scalar, and nothing where there is none") {
  Checkpoint checkpoint = checkpoint_at(1);
  checkpoint.scalars = {{"a", 2.5}};
  store.save(checkpoint);
  CHECK(store.scalar_of(1, "a") == 2.5);
  CHECK_FALSE(store.scalar_of(1, "b"));
  CHECK_FALSE(store.scalar_of(2, "a"));
  disk.damage(store.path_of(1) + "/state.json", "{");
  CHECK_FALSE(store.scalar_of(1, "a"));
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: weights_checksum identifies the weights without reading them") {
  const std::string first = store.save(checkpoint_at(1));
  CHECK(store.weights_checksum(1) == first);
  Checkpoint later = checkpoint_at(1);
  later.env_steps += 5;
  CHECK(store.save(later) == first);
  later.model["w"] = Array::of<float>({2}, {1.5f, 2.5f});
  CHECK(store.save(later) != first);
  flip_bit(store.path_of(1) + "/model.safetensors", 70);
  CHECK_NOTHROW(store.weights_checksum(1));
  CHECK_FALSE(store.check(2));
  CHECK(log().empty());
  disk.remove(store.path_of(1) + "/optimizer.safetensors");
  CHECK_FALSE(store.check(1));
  CHECK(disk.exists(store.path_of(1) + ".damaged"));
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: the error about an invalid entry of state.json has its name and value") {
  struct Case {
    const char* entry;
    nlohmann::json value;
    const char* problem;
  };
  const Case cases[] = {
      {"env_steps", -5, "state.env_steps is -5, expected an integer in [0, 18446744073709551615]"},
      {"env_steps", 1.5, "state.env_steps is 1.5, expected an integer in [0, 18446744073709551615]"},
      {"updates", "1", "state.updates is \"1\", expected an integer in [0, 18446744073709551615]"},
      {"number", 3, "state.number is 3, expected 1 like state.updates"},
      {"epoch", 4294967295U, "state.epoch is 4294967295, expected an integer in [0, 4294967294]"},
      {"epoch", -1, "state.epoch is -1, expected an integer in [0, 4294967294]"},
      {"seed", std::string(100'000, 'x'),
       "state.seed is \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx..., "
       "expected an integer in [0, 18446744073709551615]"},
  };
  for (const Case& each : cases) {
    store.save(checkpoint_at(1));
    const std::string path = store.path_of(1) + "/state.json";
    nlohmann::json document = nlohmann::json::parse(disk.read(path));
    document["state"][each.entry] = each.value;
    document.erase("crc32c");
    char crc[16];
    std::snprintf(crc, sizeof crc, "%08x", crc32c(document.dump()));
    document["crc32c"] = crc;
    disk.damage(path, document.dump());
    CHECK(io_error_of([&] { store.load(1); }) == path + ": " + each.problem);
  }
  disk.damage(store.path_of(1) + "/state.json", "{\n  \"format\": 2,,");
  CHECK(io_error_of([&] { store.load(1); }).starts_with(store.path_of(1) + "/state.json:2:15: not valid JSON: "));
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

TEST_CASE("checkpoint: a crash at any operation of a save or prune leaves only complete checkpoints") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    Fixture f;
    f.store.save(checkpoint_at(1));
    f.store.save(checkpoint_at(2));
    f.disk.set_fault({DiskFault::Kind::crash, f.disk.operations() + at, 1});
    uint64_t least = 2;  // the newest checkpoint must have at least this number afterwards
    try {
      f.store.save(checkpoint_at(3));
      least = 3;
      f.store.save(checkpoint_at(3));
      f.store.prune(1, 3);
      reached_end = true;
    } catch (const IoError&) {
    }
    f.disk.clear_fault();
    if (const auto seen = f.store.load_newest(); seen && least == 2) CHECK(seen->updates >= 2);
    const auto recovered = f.store.recover();
    REQUIRE(recovered);
    CHECK(recovered->updates >= least);
    for (uint64_t step : f.store.list()) CHECK_NOTHROW(f.store.load(step));
    for (const std::string& name : f.disk.list("run/checkpoints")) CHECK(name.size() == 12);
    CHECK(f.log().empty());
  }
}

TEST_CASE("checkpoint: after a full disk at any operation there is a checkpoint, and the next save works") {
  for (uint64_t at = 0; at < 16; ++at) {
    Fixture f;
    f.store.save(checkpoint_at(1));
    f.disk.set_fault({DiskFault::Kind::refuse, f.disk.operations() + at, 3});
    try {
      f.store.save(checkpoint_at(1));
      f.store.save(checkpoint_at(2));
    } catch (const IoError& error) {
      CHECK(std::string(error.what()).ends_with("No space left on device"));
    }
    f.disk.clear_fault();
    CHECK(f.store.recover());
    f.store.save(checkpoint_at(3));
    CHECK(f.store.load_newest()->updates == 3);
  }
}

TEST_CASE("checkpoint: a replaced checkpoint is kept until the new one is synced") {
  int seen = 0;
  for (uint64_t at = 0; at < 16; ++at) {
    CAPTURE(at);
    Fixture f;
    f.store.save(checkpoint_at(1));
    const std::string target = f.store.path_of(1);
    f.disk.set_fault({DiskFault::Kind::unsynced, f.disk.operations() + at, 1});
    std::string error;
    try {
      f.store.save(checkpoint_at(1));
    } catch (const IoError& thrown) {
      error = thrown.what();
    }
    f.disk.clear_fault();
    const bool unsynced = error == target + ": cannot sync directory: Input/output error";
    seen += unsynced;
    CHECK(f.disk.exists(target));
    CHECK(f.disk.exists(target + ".old") == unsynced);
    f.store.save(checkpoint_at(1));
    CHECK(f.disk.list("run/checkpoints") == std::vector<std::string>{"000000000001"});
    CHECK(f.store.recover()->updates == 1);
  }
  CHECK(seen == 1);
}

TEST_CASE("checkpoint: it can be saved to a real disk and read again") {
  test::TempFolder folder;
  CheckpointStore store(posix_disk(), folder / "checkpoints");
  store.save(checkpoint_at(1));
  store.save(checkpoint_at(1));
  store.save(checkpoint_at(2));
  store.prune(1, 2);
  CHECK(store.recover() == checkpoint_at(2));
  CHECK(posix_disk().list(folder / "checkpoints") == std::vector<std::string>{"000000000002"});
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
