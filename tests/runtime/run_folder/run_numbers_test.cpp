// The numbers by which the starts of a run, and runs, are told apart: take_epoch() and run_identity().

#include <limits>
#include <string>

#include "runtime/base/errors.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/run_folder/run_metrics.h"
#include "runtime/run_folder/start_files.h"
#include "runtime/run_folder/undone_updates.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kConfig = R"({"seed": 1})";

struct Fixture {
  MemoryDisk disk;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "run_identity: every start of a run has the same, another run another one") {
  const std::string id = run_identity(disk, "run");
  CHECK(id.size() == 16);
  CHECK(run_identity(disk, "run") == id);
  CHECK(run_identity(disk, "other") != id);
  disk.write_atomic("run/run_id", "damaged");
  const std::string next = run_identity(disk, "run");
  CHECK(next != id);
  CHECK(run_identity(disk, "run") == next);
}

TEST_CASE_FIXTURE(Fixture, "take_epoch: every start gets a new epoch, with and without a checkpoint") {
  RunFolder run(disk, "run", kConfig);
  CHECK(take_epoch(disk, "run", 0) == 0);
  CHECK(take_epoch(disk, "run", 0) == 1);  // the first start wrote no checkpoint
  CHECK(take_epoch(disk, "run", 1) == 2);  // the second one did
  CHECK(take_epoch(disk, "run", 7) == 7);  // the file has a lower epoch than the checkpoint, as after a loss
  CHECK(take_epoch(disk, "run", 3) == 8);
}

TEST_CASE_FIXTURE(Fixture,
                  "take_epoch: a start whose epoch cannot be written is refused, and the next epoch is still new") {
  RunFolder run(disk, "run", kConfig);
  CHECK(take_epoch(disk, "run", 0) == 0);
  const uint64_t before = disk.operations();
  CHECK(take_epoch(disk, "run", 0) == 1);
  const uint64_t writes = disk.operations() - before;
  REQUIRE(writes > 0);
  for (const auto kind : {DiskFault::Kind::refuse, DiskFault::Kind::crash})
    for (uint64_t i = 0; i < writes; ++i) {
      const uint32_t last = static_cast<uint32_t>(std::stoul(disk.read("run/epoch")));
      disk.set_fault({kind, disk.operations() + i, 1});
      CHECK(config_error_of([&] { take_epoch(disk, "run", 0); }).find("run/epoch") == 0);
      disk.clear_fault();
      CHECK(take_epoch(disk, "run", 0) > last);
    }
}

TEST_CASE_FIXTURE(Fixture, "take_epoch: an epoch file with other contents is refused") {
  RunFolder run(disk, "run", kConfig);
  for (const char* text : {"", "x\n", "3", "3\n4\n", "-1\n", "4294967295\n", "99999999999\n"}) {
    CAPTURE(text);
    disk.write_atomic("run/epoch", std::string(text));
    CHECK(config_error_of([&] {
            take_epoch(disk, "run", 0);
          }).find("run/epoch: does not contain an integer from 0 to 4294967294; ") == 0);
  }
}

TEST_CASE_FIXTURE(Fixture, "undone_updates: they add up over the starts, and nothing is kept where there are none") {
  CHECK(read_undone_updates(disk, "run") == 0);
  CHECK(add_undone_updates(disk, "run", 0, "line") == 0);
  CHECK_FALSE(disk.exists("run/undone_updates"));
  CHECK(add_undone_updates(disk, "run", 5, "line 1") == 5);
  CHECK(add_undone_updates(disk, "run", 3, "line 2") == 8);
  CHECK(read_undone_updates(disk, "run") == 8);
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
  CHECK(add_undone_updates(disk, "run", kMost, "line 3") == kMost);
  disk.write_atomic("run/undone_updates", std::string("7\n"));  // of a version without hashes
  CHECK(add_undone_updates(disk, "run", 3, "line 3") == 10);
}

TEST_CASE_FIXTURE(Fixture, "undone_updates: a start that is killed before it removes the records counts them once") {
  CHECK(add_undone_updates(disk, "run", 5, "line 1") == 5);
  CHECK(add_undone_updates(disk, "run", 5, "line 1") == 5);
  CHECK(add_undone_updates(disk, "run", 5, "line 2") == 10);
}

TEST_CASE_FIXTURE(Fixture, "undone_updates: they are counted before the records are removed") {
  disk.write_atomic("run/metrics.jsonl",
                    std::string("{\"updates\":4,\"env_steps\":4}\n{\"updates\":9,\"env_steps\":9}\n"));
  RunMetrics metrics(disk, "run");
  const auto begin = [&] { metrics.begin(0, true, RunMetrics::ResumePoint{.updates = 4, .env_steps = 4}, "{}"); };
  uint64_t killed = 0;
  for (uint64_t at = 0; disk.read("run/metrics.jsonl", 100).find("\"updates\":9") != std::string::npos; ++at) {
    disk.set_fault({DiskFault::Kind::crash, disk.operations() + at, 1});
    try {
      begin();
    } catch (const IoError&) {
      ++killed;
    }
    disk.clear_fault();
  }
  CHECK(killed > 1);
  CHECK(read_undone_updates(disk, "run") == 5);
}

TEST_CASE_FIXTURE(Fixture, "undone_updates: a damaged file counts as none, and a disk that refuses holds no start") {
  for (const char* damaged :
       {"", "x", "-1\n", "5", "5\n\n", "5 \n", "5 0123456789abcde\n", "99999999999999999999999\n"}) {
    disk.write_atomic("run/undone_updates", damaged);
    CHECK(read_undone_updates(disk, "run") == 0);
  }
  CHECK(add_undone_updates(disk, "run", 2, "line") == 2);
  disk.set_fault({DiskFault::Kind::refuse, disk.operations(), 1000});
  add_undone_updates(disk, "run", 1, "another line");
  disk.clear_fault();
  CHECK(read_undone_updates(disk, "run") == 2);
}
