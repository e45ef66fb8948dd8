#include "runtime/run_folder/checkpoint.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runtime/base/crc32c.h"
#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/runtime/run_folder/stored_checkpoints.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: a loaded checkpoint equals the saved one bit for bit") {
  store.save(checkpoint_at(150));
  CHECK(store.load(150) == checkpoint_at(150));
  CHECK(store.path_of(150) == "run/checkpoints/000000000150");
  CHECK(disk.list("run/checkpoints/000000000150") ==
        std::vector<std::string>{"extras.safetensors", "model.safetensors", "optimizer.safetensors", "state.json"});
}

TEST_CASE_FIXTURE(StoredCheckpoints,
                  "checkpoint: NaN among the scalars is kept, and a checkpoint without tensors can be saved") {
  Checkpoint empty;
  empty.scalars["x"] = NAN;
  store.save(empty);
  CHECK(std::isnan(store.load(0).scalars.at("x")));
  CHECK(store.load(0).model.empty());
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: a folder that does not exist has no checkpoints") {
  CHECK(store.list().empty());
  CHECK_FALSE(store.load_newest());
  CHECK_FALSE(store.recover());
  store.prune(1, 9);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: the newest has the largest number, also above 12 digits") {
  for (uint64_t step : {uint64_t{10}, uint64_t{9}, uint64_t{2'000'000'000'000}}) store.save(checkpoint_at(step));
  disk.write_atomic("run/checkpoints/notes.txt", "mine");
  CHECK(store.list() == std::vector<uint64_t>{9, 10, 2'000'000'000'000});
  CHECK(store.load_newest()->updates == 2'000'000'000'000);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: saving a number again replaces it") {
  Checkpoint other = checkpoint_at(1);
  other.env_steps = 7;
  store.save(checkpoint_at(1));
  store.save(other);
  CHECK(store.load(1) == other);
  CHECK(disk.list("run/checkpoints").size() == 1);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: prune keeps the newest, and 0 keeps all") {
  for (uint64_t step = 1; step <= 4; ++step) store.save(checkpoint_at(step));
  store.prune(0, 4);
  CHECK(store.list().size() == 4);
  store.prune(2, 4);
  CHECK(store.list() == std::vector<uint64_t>{3, 4});
  CHECK(disk.list("run/checkpoints").size() == 2);
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: one of a run with other settings is not used") {
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

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: settings of an older version are upgraded before they are compared") {
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

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: one of format 1, without settings, is compared by its seed") {
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

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: a file that is larger than the model needs is refused") {
  store.save(checkpoint_at(1));
  store.expect_weights(8);
  CHECK_NOTHROW(store.load(1));
  Checkpoint large = checkpoint_at(2);
  large.model["w"] = Array(DType::u8, {static_cast<int64_t>(kMaxSafetensorsHeader) + 100});
  store.save(large);
  CHECK(io_error_of([&] { store.load(2); }).find("expected at most 4194336 for this run's model") != std::string::npos);
  CHECK(store.load_newest()->updates == 1);
}

TEST_CASE_FIXTURE(StoredCheckpoints,
                  "checkpoint: one that is asked for and damaged is renamed, and a whole one is loaded") {
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

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: scalar_of gives a scalar, and nothing where there is none") {
  Checkpoint checkpoint = checkpoint_at(1);
  checkpoint.scalars = {{"a", 2.5}};
  store.save(checkpoint);
  CHECK(store.scalar_of(1, "a") == 2.5);
  CHECK_FALSE(store.scalar_of(1, "b"));
  CHECK_FALSE(store.scalar_of(2, "a"));
  disk.damage(store.path_of(1) + "/state.json", "{");
  CHECK_FALSE(store.scalar_of(1, "a"));
}

TEST_CASE_FIXTURE(StoredCheckpoints, "checkpoint: weights_checksum identifies the weights without reading them") {
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

TEST_CASE_FIXTURE(StoredCheckpoints,
                  "checkpoint: the error about an invalid entry of state.json has its name and value") {
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

TEST_CASE("checkpoint: a crash at any operation of a save or prune leaves only complete checkpoints") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    StoredCheckpoints f;
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
    StoredCheckpoints f;
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
    StoredCheckpoints f;
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
