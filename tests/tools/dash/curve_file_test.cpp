#include "tools/dash/curve_file.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Value = CurveFile::Value;
using Numbers = std::vector<double>;

const std::string kPath = "run/metrics.jsonl";
constexpr uint64_t kAll = 1 << 30;

std::string record(size_t step, double value) {
  return R"({"env_steps":)" + std::to_string(step) + R"(,"learner":{"kl":)" + std::to_string(value) + "}}\n";
}

double value_of(size_t step) { return static_cast<double>(step * 7919 % 1000); }

std::string records(size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; ++i) text += record(i, value_of(i));
  return text;
}

struct Read {
  MemoryDisk disk;
  CurveFile file{"run"};

  explicit Read(const std::string& text) {
    const std::vector<std::string> figures = {"env_steps", "learner.kl"};
    file.want(figures);
    write(text);
    file.read(disk, kAll);
  }
  void write(const std::string& text) { disk.write_atomic(kPath, text); }
  void append(const std::string& text) { disk.open_append(kPath)->append(text); }
  Numbers kl(Value value = Value::mean) const { return file.column("learner.kl", value); }
};

}  // namespace

TEST_CASE("curve_file: a point is a record while there are few, with the numbers of the file") {
  const Read read(R"({"env_steps":1,"learner":{"kl":0.1}}
{"env_steps":2,"learner":{"kl":null}}
{"env_steps":3,"learner":{"kl":1e-5}}
)");
  CHECK(read.file.column("env_steps", Value::mean) == Numbers{1, 2, 3});
  REQUIRE(read.kl().size() == 3);
  CHECK(read.kl()[0] == 0.1);
  CHECK(std::isnan(read.kl()[1]));
  CHECK(read.kl()[2] == 1e-5);
  CHECK(read.file.records() == 3);
}

TEST_CASE("curve_file: an empty file has no points") {
  const Read read("");
  CHECK(read.file.points() == 0);
  CHECK(read.kl().empty());
}

TEST_CASE("curve_file: of many records each point has the mean, the smallest and the largest value of its part") {
  const size_t count = 3 * CurveFile::kMostPoints + 5;
  const Read read(records(0, count));
  const size_t each = 4;  // 2 would be 6,003 points
  REQUIRE(read.file.points() == (count + each - 1) / each);
  CHECK(read.file.records() == count);
  const Numbers mean = read.kl(), low = read.kl(Value::low), high = read.kl(Value::high);
  size_t wrong = 0;
  for (size_t point = 0; point < mean.size(); ++point) {
    double sum = 0, least = INFINITY, most = -INFINITY;
    const size_t end = std::min(count, (point + 1) * each);
    for (size_t i = point * each; i < end; ++i) {
      sum += value_of(i);
      least = std::min(least, value_of(i));
      most = std::max(most, value_of(i));
    }
    const double expected = sum / static_cast<double>(end - point * each);
    wrong += std::abs(mean[point] - expected) > 1e-9 || low[point] != least || high[point] != most;
  }
  CHECK(wrong == 0);
}

TEST_CASE("curve_file: exactly as many records as points are not joined") {
  const Read read(records(0, CurveFile::kMostPoints));
  CHECK(read.file.points() == CurveFile::kMostPoints);
  CHECK(read.kl().back() == value_of(CurveFile::kMostPoints - 1));
}

TEST_CASE("curve_file: what is appended comes as if the file had been read at once") {
  Read read(records(0, 5000));
  const std::string version = read.file.version();
  read.append(records(5000, 9000));
  CHECK(read.file.read(read.disk, kAll) > 0);
  CHECK(read.file.version() != version);
  const Read whole(records(0, 9000));
  CHECK(read.kl() == whole.kl());
  CHECK(read.kl(Value::low) == whole.kl(Value::low));
}

TEST_CASE("curve_file: a file without anything new leaves the points and their version") {
  Read read(records(0, 10));
  const std::string version = read.file.version();
  CHECK(read.file.read(read.disk, kAll) == 0);
  CHECK(read.file.version() == version);
  CHECK(read.file.points() == 10);
}

TEST_CASE("curve_file: the budget bounds what one call reads, and the next calls go on") {
  Read read("");
  const std::string text = records(0, 200000);  // some 8 MiB: more than one block
  read.write(text);
  CHECK(read.file.read(read.disk, 1) < text.size());
  CHECK(read.file.bytes_read() < read.file.bytes());
  while (read.file.read(read.disk, 1) > 0) {
  }
  CHECK(read.file.bytes_read() == text.size());
  CHECK(read.file.records() == 200000);
}

TEST_CASE("curve_file: a file that was cut and written again is read from its beginning") {
  Read read(records(0, 100));
  read.write(records(0, 50) + record(50, 0.5) + records(60, 200));
  read.file.read(read.disk, kAll);
  CHECK(read.file.records() == 191);
  CHECK(read.kl()[50] == 0.5);
  read.write(records(0, 3));
  read.file.read(read.disk, kAll);
  CHECK(read.file.records() == 3);
}

TEST_CASE("curve_file: a last line that is not complete waits for its rest") {
  Read read(records(0, 2) + R"({"env_steps":2,"learn)");
  CHECK(read.file.records() == 2);
  CHECK(read.file.skipped() == 0);
  read.append("er\":{\"kl\":7}}\n");
  read.file.read(read.disk, kAll);
  CHECK(read.kl() == Numbers{value_of(0), value_of(1), 7});
}

TEST_CASE("curve_file: a line that is no record is left out and counted") {
  const Read read(record(0, 1) + "{\"env_steps\":1,\"lea\n" + record(2, 3));
  CHECK(read.file.skipped() == 1);
  CHECK(read.kl() == Numbers{1, 3});
}

TEST_CASE("curve_file: a figure that is wanted later has all of its points") {
  Read read(R"({"env_steps":1,"lag":{"p95":4}})"
            "\n");
  const std::vector<std::string> more = {"lag.p95"};
  read.file.want(more);
  read.file.read(read.disk, kAll);
  CHECK(read.file.column("lag.p95", Value::mean) == Numbers{4});
  CHECK(read.file.column("env_steps", Value::mean) == Numbers{1});
}

TEST_CASE("curve_file: a missing file is an error, and the points so far stay") {
  Read read(records(0, 4));
  read.disk.remove(kPath);
  CHECK_THROWS_AS(read.file.read(read.disk, kAll), IoError);
  CHECK(read.file.points() == 4);
}

TEST_CASE("curve_file: the record of an evaluation that ended late is a point at its own steps") {
  Read read(record(10, 1) + record(20, 2) + record(30, 3) + record(20, 7));
  CHECK(read.file.column("env_steps", Value::mean) == Numbers{10, 20, 20, 30});
  CHECK(read.kl() == Numbers{1, 2, 7, 3});
  read.append(record(40, 4) + record(5, 0));
  read.file.read(read.disk, kAll);
  CHECK(read.file.column("env_steps", Value::mean) == Numbers{5, 10, 20, 20, 30, 40});
  CHECK(read.kl() == Numbers{0, 1, 2, 7, 3, 4});
  CHECK(read.file.records() == 6);
}

TEST_CASE("curve_file: records of equal steps are in the order of their updates") {
  const std::vector<std::string> figures = {"lag.p95"};
  const auto line = [](int updates, int lag) {
    return R"({"env_steps":10,"updates":)" + std::to_string(updates) + R"(,"lag":{"p95":)" + std::to_string(lag) +
           "}}\n";
  };
  Read read(line(3, 1) + line(2, 2) + line(3, 4));
  read.file.want(figures);
  read.file.read(read.disk, kAll);
  CHECK(read.file.column("updates", Value::mean) == Numbers{2, 3, 3});
  CHECK(read.file.column("lag.p95", Value::mean) == Numbers{2, 1, 4});
}

TEST_CASE("curve_file: where points have several records, a late one is in the point of its steps") {
  const size_t count = 2 * CurveFile::kMostPoints;
  Read read(records(0, count));
  REQUIRE(read.file.points() == CurveFile::kMostPoints);
  read.append(record(5, 5000));  // the point of the steps 4 and 5
  read.file.read(read.disk, kAll);
  CHECK(read.file.points() == CurveFile::kMostPoints);
  CHECK(read.kl(Value::high)[2] == 5000);
  CHECK(read.kl(Value::high)[3] < 5000);
  CHECK(read.kl()[2] == doctest::Approx((value_of(4) + value_of(5) + 5000) / 3));
  CHECK(read.file.records() == count + 1);
}

TEST_CASE("curve_file: late records leave the steps of the points in order however many there are") {
  std::string text;
  for (size_t i = 0; i < 3 * CurveFile::kMostPoints; ++i) {
    text += record(10 * i, 1);
    if (i % 7 == 6) text += record(10 * (i - 4), 2);
  }
  const Read read(text);
  const Numbers steps = read.file.column("env_steps", Value::mean);
  CHECK(read.file.points() <= CurveFile::kMostPoints);
  CHECK(std::ranges::is_sorted(steps));
}
