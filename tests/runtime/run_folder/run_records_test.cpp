#include "runtime/run_folder/run_records.h"

#include <cmath>

#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/line_file.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

MemoryDisk disk_with(const std::string& lines) {
  MemoryDisk disk;
  disk.write_atomic("run/metrics.jsonl", lines);
  return disk;
}

const std::string kLines = R"({"env_steps":0,"lag":{"p50":null},"eval":null})"
                           "\n"
                           R"({"env_steps":10,"lag":{"p50":1.5},"eval":{"return_mean":7.0},"new":3})"
                           "\n"
                           R"({"lag":{"p50":2},"env_steps":20,"eval":null})"
                           "\n";

std::vector<std::string> lines_in(const MemoryDisk& disk) {
  std::vector<std::string> lines;
  for_each_line(disk, "run/metrics.jsonl", [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

}  // namespace

TEST_CASE("for_each_line: lines of any length come whole, also a last one without a line break") {
  const std::string longer_than_a_block(3 << 20, 'x');
  const MemoryDisk disk = disk_with("a\n\n" + longer_than_a_block + "\nlast");
  CHECK(lines_in(disk) == std::vector<std::string>{"a", "", longer_than_a_block, "last"});
}

TEST_CASE("read_figures: a column for each figure, in the order of the records, NaN where there is no number") {
  const FigureColumns columns =
      read_figures(disk_with(kLines), "run", std::vector<std::string>{"env_steps", "lag.p50", "new", "no_such"});
  CHECK(columns.values[0] == std::vector<double>{0, 10, 20});
  CHECK(std::isnan(columns.values[1][0]));
  CHECK(columns.values[1][1] == 1.5);
  CHECK(columns.values[1][2] == 2);
  CHECK(std::isnan(columns.values[2][2]));
  CHECK(columns.values[2][1] == 3);
  CHECK(std::isnan(columns.values[3][1]));
  CHECK(columns.skipped == 0);
}

TEST_CASE("read_figures: torn and damaged lines are left out and counted") {
  const FigureColumns columns = read_figures(disk_with(kLines + "\x01\x02 damaged\n" + R"({"env_steps":30,"lag":{"p5)"),
                                             "run", std::vector<std::string>{"env_steps"});
  CHECK(columns.values[0] == std::vector<double>{0, 10, 20});
  CHECK(columns.skipped == 2);
}

TEST_CASE("read_figures: a missing file is an error, an empty one has no records") {
  MemoryDisk disk;
  CHECK_THROWS_AS(read_figures(disk, "run", {}), IoError);
  CHECK(read_figures(disk_with(""), "run", std::vector<std::string>{"env_steps"}).values[0].empty());
}

TEST_CASE("read_last_records: the last whole record, and the last one with an evaluation if it is asked for") {
  const MemoryDisk disk = disk_with(kLines + R"({"env_steps":30)");
  const LastRecords records = read_last_records(disk, "run", true);
  CHECK(records.last.at("env_steps") == 20);
  CHECK(records.evaluated.at("eval.return_mean") == 7);
  CHECK(read_last_records(disk, "run", false).evaluated.empty());
  CHECK(read_last_records(disk_with("damaged\n"), "run", true).last.empty());
}

TEST_CASE("read_last_records: the last evaluation is found behind any number of records without one") {
  std::string lines = kLines;
  const std::string padding(4000, 'x');
  for (int i = 0; i < 600; ++i)  // 2.4 MB
    lines += "{\"env_steps\":" + std::to_string(30 + i) + ",\"eval\":null,\"text\":\"" + padding + "\"}\n";
  LastRecords records = read_last_records(disk_with(lines), "run", true);
  CHECK(records.last.at("env_steps") == 629);
  CHECK(records.evaluated.at("env_steps") == 10);
  // What looks like one in a damaged line is none.
  records = read_last_records(disk_with(lines + "\"eval\":{ damaged\n" + lines.substr(kLines.size())), "run", true);
  CHECK(records.evaluated.at("env_steps") == 10);
  CHECK(read_last_records(disk_with(lines.substr(kLines.size())), "run", true).evaluated.empty());
}

TEST_CASE("position_before: finds a text across the blocks that are read, and none before the limit") {
  MemoryDisk disk;
  const uint64_t size = (uint64_t{3} << 20) + 5;
  std::string text(size, '.');
  const std::vector<uint64_t> places = {0, (2 << 20) + 2, (2 << 20) + 5, size - 4};
  for (const uint64_t at : places) {
    CAPTURE(at);
    std::string with = text;
    with.replace(at, 4, "eval");
    disk.write_atomic("file", with);
    const auto file = disk.open_read("file");
    CHECK(position_before(*file, size, "eval", size) == at);
    CHECK(position_before(*file, at + 3, "eval", size) == std::nullopt);
    CHECK(position_before(*file, size, "eval", size - at) == at);
    CHECK(position_before(*file, size, "eval", size - at - 1) == std::nullopt);
  }
}
