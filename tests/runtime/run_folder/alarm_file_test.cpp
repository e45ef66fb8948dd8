#include "runtime/run_folder/alarm_file.h"

#include <optional>
#include <string>
#include <vector>

#include "tests/runtime/run_folder/run_folder_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Standing = std::map<std::string, Alarm>;

Alarm warning(uint64_t since) { return {AlarmLevel::warning, since, "because"}; }

struct AlarmFileFixture : RunFolderFixture {
  std::vector<PastAlarm> read() const { return read_alarms(disk, "run").value(); }
  // What a start leaves that has noted this alarm at update 12 and was killed.
  void leave_killed(const std::string& name, uint64_t since) {
    AlarmFile file(disk, "run");
    file.begin(std::nullopt);
    file.note(12, {}, {{name, warning(since)}});
  }
};

}  // namespace

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: a run without alarms has a file that says so") {
  CHECK_FALSE(read_alarms(disk, "run"));
  AlarmFile(disk, "run").begin(std::nullopt);
  CHECK(read().empty());
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: an alarm is in the file at once, with its level, text and update") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  file.note(12, {}, {{"kl_extreme", {AlarmLevel::error, 11, "learner.kl is 3: lower it"}}});
  CHECK(read() == std::vector<PastAlarm>{{.name = "kl_extreme",
                                          .level = AlarmLevel::error,
                                          .text = "learner.kl is 3: lower it",
                                          .since = 11,
                                          .until = {},
                                          .standing = true}});
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: an alarm that is over keeps the update of the report that says so") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  file.note(12, {}, {{"a", warning(11)}});
  file.note(20, {}, {});
  REQUIRE(read().size() == 1);
  CHECK_FALSE(read()[0].standing);
  CHECK(read()[0].until == 20);
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: an alarm that came and went between two reports is there too") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  file.note(20, {{"a", warning(12)}, {"a", warning(18)}}, {{"a", warning(18)}});
  REQUIRE(read().size() == 2);
  CHECK_FALSE(read()[0].standing);
  CHECK(read()[1].standing);
  CHECK(read()[1].since == 18);
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: a report that says nothing new writes nothing") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  file.note(12, {{"a", warning(11)}}, {{"a", warning(11)}});
  const uint64_t before = disk.operations();
  file.note(13, {}, {{"a", warning(11)}});
  CHECK(disk.operations() == before);
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: of one alarm the newest hundred times are kept") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  for (uint64_t i = 1; i <= AlarmFile::kMostOfOne + 5; ++i) {
    file.note(2 * i, {}, {{"a", warning(2 * i)}, {"b", warning(1)}});
    file.note(2 * i + 1, {}, {{"b", warning(1)}});
  }
  CHECK(read().size() == AlarmFile::kMostOfOne + 1);
  CHECK(read()[0].name == "b");
  CHECK(read()[1].since == 12);
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: a run that is resumed keeps the earlier ones, and adds to them") {
  leave_killed("a", 4);
  AlarmFile file(disk, "run");
  file.begin(AlarmFile::Resume{.updates = 10});
  CHECK(read()[0].standing);
  file.note(13, {}, {{"b", warning(13)}});
  REQUIRE(read().size() == 2);
  CHECK(read()[0].name == "a");
  CHECK(read()[0].until == 13);
  CHECK(read()[1].name == "b");
}

TEST_CASE_FIXTURE(AlarmFileFixture,
                  "alarm_file: an alarm after the update that a run is resumed from is kept as over") {
  leave_killed("a", 11);
  AlarmFile(disk, "run").begin(AlarmFile::Resume{.updates = 10});
  REQUIRE(read().size() == 1);
  CHECK_FALSE(read()[0].standing);
  CHECK_FALSE(read()[0].until);
}

TEST_CASE_FIXTURE(AlarmFileFixture,
                  "alarm_file: a deterministic run that is killed and resumed writes the same bytes") {
  const auto note = [](AlarmFile& file, uint64_t from, uint64_t to) {
    for (uint64_t updates = from; updates <= to; updates += 5) {
      Standing standing;
      if (updates >= 5 && updates < 15) standing["a"] = warning(4);
      if (updates >= 20) standing["b"] = warning(17);
      file.note(updates, {}, standing);
    }
  };
  AlarmFile whole(disk, "whole");
  whole.begin(std::nullopt);
  note(whole, 5, 25);
  for (const uint64_t killed : {10, 15, 20}) {
    AlarmFile before(disk, "run");
    before.begin(std::nullopt);
    note(before, 5, killed);
    AlarmFile after(disk, "run");
    after.begin(AlarmFile::Resume{.updates = 8, .as_before = true});
    note(after, 10, 25);
    CHECK_MESSAGE(disk.read("run/alarms.json") == disk.read("whole/alarms.json"), killed);
  }
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: a run that begins anew has no alarms of the one before") {
  leave_killed("a", 4);
  AlarmFile(disk, "run").begin(std::nullopt);
  CHECK(read().empty());
}

TEST_CASE_FIXTURE(AlarmFileFixture,
                  "alarm_file: a run of a version without the file goes on with those of its records") {
  disk.write_atomic("run/metrics.jsonl", "{\"alarms\":{\"kl\":2}}\n");
  AlarmFile(disk, "run").begin(AlarmFile::Resume{.updates = 10});
  CHECK(read() ==
        std::vector<PastAlarm>{{.name = "kl", .level = AlarmLevel::error, .text = {}, .since = {}, .until = {}}});
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: a damaged file is replaced by what the records say, with a warning") {
  for (const char* damaged : {"", "{", "[]", "{}", "{\"alarms\": 1}"}) {
    disk.write_atomic("run/metrics.jsonl", "{\"alarms\":{\"kl\":2}}\n");
    disk.write_atomic("run/alarms.json", damaged);
    CHECK_MESSAGE(!read_alarms(disk, "run"), damaged);
    AlarmFile(disk, "run").begin(AlarmFile::Resume{.updates = 10});
    CHECK_MESSAGE(read().size() == 1, damaged);
  }
  CHECK(log().find("run/alarms.json: is damaged; the alarms are those of the records\n") != std::string::npos);
}

TEST_CASE_FIXTURE(AlarmFileFixture, "alarm_file: entries that are none are left out") {
  disk.write_atomic("run/alarms.json", R"({"alarms": [1, {}, {"alarm": 2}, {"alarm": "a", "since_update": -1}]})");
  CHECK(read() == std::vector<PastAlarm>{{.name = "a", .text = {}, .since = {}, .until = {}}});
}

TEST_CASE_FIXTURE(AlarmFileFixture,
                  "alarm_file: a full disk ends nothing, and the alarm is written once there is room") {
  AlarmFile file(disk, "run");
  file.begin(std::nullopt);
  disk.set_fault({.kind = DiskFault::Kind::refuse, .first = disk.operations(), .count = 100});
  file.note(12, {}, {{"a", warning(11)}});
  CHECK(read().empty());
  CHECK(file.lost().error.find("run/alarms.json") == 0);
  disk.clear_fault();
  file.note(13, {}, {{"a", warning(11)}});
  CHECK(read().size() == 1);
  CHECK(file.lost().error.empty());
}
