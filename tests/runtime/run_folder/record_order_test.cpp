#include "runtime/run_folder/record_order.h"

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_records.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

const std::vector<RecordPlace> kOrdered = {{0, 0}, {10, 1}, {10, 2}, {20, 2}};

// The evaluation of update 1 ends when the records of 20 and 30 steps are written already.
const std::string kLate = R"({"env_steps":10,"updates":1,"eval":null,"line":0})"
                          "\n"
                          R"({"env_steps":20,"updates":1,"eval":null,"line":1})"
                          "\n"
                          R"({"env_steps":30,"updates":2,"eval":null,"line":2})"
                          "\n"
                          R"({"env_steps":10,"updates":1,"eval":{"return_mean":5},"line":3})"
                          "\n";

MemoryDisk disk_with(const std::string& lines) {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", lines);
  return disk;
}

}  // namespace

TEST_CASE("record_order: records are in the order of their steps, then of their updates, then of the file") {
  const std::vector<RecordPlace> places = {{0, 0}, {0, 0}, {30, 3}, {20, 2}, {20, 1}, {20, 2}};
  CHECK(in_order(places) == std::vector<size_t>{0, 1, 4, 3, 5, 2});
  CHECK(in_order({}).empty());
}

TEST_CASE("record_order: a record comes after all others at its place") {
  CHECK(records_before(kOrdered, {10, 1}) == 2);
  CHECK(records_before(kOrdered, {10, 3}) == 3);
  CHECK(records_before(kOrdered, {0, 0}) == 1);
  CHECK(records_before(kOrdered, {40, 4}) == 4);
  CHECK(records_before({}, {1, 1}) == 0);
}

TEST_CASE("record_order: a number that is missing is that of the other record") {
  CHECK(record_place(NAN, NAN, {10, 2}) == RecordPlace{10, 2});
  CHECK(record_place(20, NAN, {10, 2}) == RecordPlace{20, 2});
  CHECK(record_place(20, 3, {10, 2}) == RecordPlace{20, 3});
}

TEST_CASE("scan_record: a record has its place, and what it lacks is that of the record before it") {
  RecordPlace place{10, 2};
  std::vector<std::string> paths;
  const OnScalar on_scalar = [&](std::string_view path, std::string_view) { paths.emplace_back(path); };
  CHECK(scan_record(R"({"env_steps":20,"lag":{"updates":7}})", place, on_scalar));
  CHECK(place == RecordPlace{20, 2});
  CHECK(paths == std::vector<std::string>{"env_steps", "lag.updates"});
  CHECK(scan_record(R"({"env_steps":null,"updates":3})", place, on_scalar));
  CHECK(place == RecordPlace{20, 3});
}

TEST_CASE("scan_record: a torn line has no place") {
  RecordPlace place{10, 2};
  CHECK(!scan_record(R"({"env_steps":20,"updates":3,"la)", place, [](std::string_view, std::string_view) {}));
  CHECK(place == RecordPlace{10, 2});
}

TEST_CASE("read_figures: the record of an evaluation is at the update that was evaluated") {
  const FigureColumns columns =
      read_figures(disk_with(kLate), "run", std::vector<std::string>{"line", "eval.return_mean"});
  CHECK(columns.values.size() == 2);
  CHECK(columns.values[0] == std::vector<double>{0, 3, 1, 2});
  CHECK(columns.values[1][1] == 5);
}

TEST_CASE("read_last_records: the record of an evaluation that ended late is not the last one") {
  const LastRecords records = read_last_records(disk_with(kLate), "run", true);
  CHECK(records.last.at("line") == 2);
  CHECK(records.evaluated.at("line") == 3);
  CHECK(read_last_records(disk_with(kLate), "run", false).last.at("line") == 2);
}
