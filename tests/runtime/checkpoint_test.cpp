#include "runtime/checkpoint.h"

#include <cmath>
#include <limits>

#include "runtime/log.h"
#include "runtime/memory_disk.h"
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
  checkpoint.config_hash = "cafe";
  checkpoint.scalars = {{"lr", 0.1}, {"worst", -std::numeric_limits<double>::infinity()}};
  checkpoint.model = {{"w", Array::of<float>({2}, {1.5f, static_cast<float>(updates)})}};
  checkpoint.optimizer = {{"w.m", Array::of<float>({2}, {0.25f, NAN})}, {"step", Array::of<int64_t>({}, {7})}};
  checkpoint.extras = {{"env/0", std::string("\0\xff", 2)}, {"empty", ""}};
  return checkpoint;
}

// Stores on a disk in memory; warnings go to a file in memory.
struct Fixture {
  Fixture() { open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~Fixture() { close_log(); }
  std::string log() const { return log_disk.read("log"); }
  void flip_bit(const std::string& path, size_t byte) {
    std::string bytes = disk.read(path);
    bytes.at(byte) = static_cast<char>(bytes[byte] ^ 4);
    disk.damage(path, bytes);
  }

  MemoryDisk disk, log_disk;
  CheckpointStore store{disk, "run/checkpoints"};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "checkpoint: what was saved comes back, bit for bit") {
  store.save(150, checkpoint_at(150));
  CHECK(store.load(150) == checkpoint_at(150));
  CHECK(store.path_of(150) == "run/checkpoints/000000000150");
  CHECK(disk.list("run/checkpoints/000000000150") ==
        std::vector<std::string>{"extras.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"});
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: NaN among the scalars survives, and an empty checkpoint is one") {
  Checkpoint empty;
  empty.scalars["x"] = NAN;
  store.save(0, empty);
  CHECK(std::isnan(store.load(0).scalars.at("x")));
  CHECK(store.load(0).model.empty());
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: a folder that does not exist holds none") {
  CHECK(store.list().empty());
  CHECK_FALSE(store.load_newest());
  CHECK_FALSE(store.recover());
  store.prune(1);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: the newest is the largest number, beyond the padding too") {
  for (uint64_t step : {uint64_t{10}, uint64_t{9}, uint64_t{2'000'000'000'000}}) store.save(step, checkpoint_at(step));
  disk.write_atomic("run/checkpoints/notes.txt", "mine");
  CHECK(store.list() == std::vector<uint64_t>{9, 10, 2'000'000'000'000});
  CHECK(store.load_newest()->updates == 2'000'000'000'000);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: saving a number again replaces it") {
  store.save(1, checkpoint_at(1));
  store.save(1, checkpoint_at(5));
  CHECK(store.load(1) == checkpoint_at(5));
  CHECK(disk.list("run/checkpoints").size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: prune keeps the newest, and 0 keeps all") {
  for (uint64_t step = 1; step <= 4; ++step) store.save(step, checkpoint_at(step));
  store.prune(0);
  CHECK(store.list().size() == 4);
  store.prune(2);
  CHECK(store.list() == std::vector<uint64_t>{3, 4});
  CHECK(disk.list("run/checkpoints").size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: every flipped bit is noticed or changes nothing") {
  store.save(1, checkpoint_at(1));
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: a file that is missing or cut is named, and the one before it is used") {
  for (const char* name : {"/model.safetensors", "/optimizer.safetensors", "/extras.safetensors", "/state.json"}) {
    for (const int kept_bytes : {-1, 0, 30}) {  // -1: the file is missing
      for (uint64_t step : {1, 2}) store.save(step, checkpoint_at(step));
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

TEST_CASE_FIXTURE(Fixture, "checkpoint: recover sets damaged ones aside, so that prune cannot prefer them") {
  for (uint64_t step : {1, 2, 3}) store.save(step, checkpoint_at(step));
  flip_bit(store.path_of(3) + "/model.safetensors", 100);
  CHECK(store.recover()->updates == 2);
  CHECK(store.list() == std::vector<uint64_t>{1, 2});
  CHECK(disk.exists("run/checkpoints/000000000003.damaged"));
  store.prune(1);
  CHECK(store.recover()->updates == 2);
}

TEST_CASE_FIXTURE(Fixture, "checkpoint: when all are damaged there is none, and the log says so") {
  store.save(1, checkpoint_at(1));
  disk.damage(store.path_of(1) + "/state.json", "[]");
  CHECK_FALSE(store.load_newest());
  CHECK(log().find("no older checkpoint is left") != std::string::npos);
  CHECK_FALSE(store.recover());
  CHECK(store.list() == std::vector<uint64_t>{1});
}

TEST_CASE("checkpoint: a crash at any operation of a save or prune leaves only whole checkpoints") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    Fixture f;
    f.store.save(1, checkpoint_at(1));
    f.store.save(2, checkpoint_at(2));
    f.disk.set_fault({DiskFault::Kind::crash, f.disk.operations() + at, 1});
    uint64_t least = 2;  // what must be there afterwards
    try {
      f.store.save(3, checkpoint_at(3));
      least = 3;
      f.store.save(3, checkpoint_at(4));
      f.store.prune(1);
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

TEST_CASE("checkpoint: a full disk at any operation keeps what was there, and the next save works") {
  for (uint64_t at = 0; at < 16; ++at) {
    Fixture f;
    f.store.save(1, checkpoint_at(1));
    f.disk.set_fault({DiskFault::Kind::refuse, f.disk.operations() + at, 3});
    try {
      f.store.save(1, checkpoint_at(2));
      f.store.save(2, checkpoint_at(2));
    } catch (const IoError& error) {
      CHECK(std::string(error.what()).ends_with("No space left on device"));
    }
    f.disk.clear_fault();
    CHECK(f.store.recover());
    f.store.save(3, checkpoint_at(3));
    CHECK(f.store.load_newest()->updates == 3);
  }
}

TEST_CASE("checkpoint: saved to a real disk, it is read again") {
  test::TempFolder folder;
  CheckpointStore store(posix_disk(), folder / "checkpoints");
  store.save(1, checkpoint_at(1));
  store.save(1, checkpoint_at(2));
  store.save(2, checkpoint_at(2));
  store.prune(1);
  CHECK(store.recover() == checkpoint_at(2));
  CHECK(posix_disk().list(folder / "checkpoints") == std::vector<std::string>{"000000000002"});
}
