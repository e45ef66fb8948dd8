#include "runtime/run_folder/alarm_records.h"

#include <string>

#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("alarms_in_records: all that records have, each with its worst level, also those that are over") {
  MemoryDisk disk;
  CHECK(alarms_in_records(disk, "run").empty());
  disk.write_atomic("run/metrics.jsonl",
                    "{\"env_steps\":1,\"alarms\":{\"kl\":1},\"last_error\":\"\\\"alarms\\\":{\\\"no\\\":2}\"}\n"
                    "{\"env_steps\":2,\"alarms\":{\"kl\":2,\"lag\":1}}\n{\"env_steps\":3,\"alarms\":{\"kl\":1}}\n"
                    "{\"env_steps\": 4, \"alarms\": {\"spaced\": "
                    "1}}\n{\"env_steps\":4,\"alarms\":{}}\n{\"env_steps\":5,\"alarms\":{\"torn\":");
  CHECK(alarms_in_records(disk, "run") ==
        AlarmLevels{{"kl", AlarmLevel::error}, {"lag", AlarmLevel::warning}, {"spaced", AlarmLevel::warning}});
}

TEST_CASE("alarms_in_records: objects at the ends of the blocks that are read are found") {
  MemoryDisk disk;
  std::string text;
  for (int i = 0; i < 40'000; ++i)
    text += "{\"alarms\":{\"a" + std::to_string(i) + "\":1},\"x\":\"" + std::string(13, 'x') + "\"}\n";
  disk.write_atomic("run/metrics.jsonl", text);
  CHECK(text.size() > 1 << 20);
  CHECK(alarms_in_records(disk, "run").size() == 40'000);
}

TEST_CASE("alarms_in: those of one record, by their levels") {
  const Record record = {{"alarm", 2}, {"alarms.kl", 2}, {"alarms.lag", 1}, {"alarmsx", 1}};
  CHECK(alarms_in(record) == AlarmLevels{{"kl", AlarmLevel::error}, {"lag", AlarmLevel::warning}});
}
