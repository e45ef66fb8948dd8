// What requests for curves leave in memory, and the versions of the answers.

#include <cmath>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tools/dash/curve_file.h"
#include "tools/dash/dash_data.h"

using namespace troupe;
using nlohmann::json;

namespace {

using Value = CurveFile::Value;

const std::string kPath = "run/metrics.jsonl";
const Words kKl = {"env_steps", "updates", "learner.kl"};
constexpr uint64_t kAll = 1 << 30;

std::string record(int step, const std::string& figures) {
  return R"({"env_steps":)" + std::to_string(step) + R"(,"updates":)" + std::to_string(step) + ',' + figures + "}\n";
}

std::string records(int count) {
  std::string text;
  for (int i = 1; i <= count; ++i) text += record(i, R"("learner":{"kl":0.5})");
  return text;
}

Words invented(int first) {
  Words names;
  for (int i = 0; i < 100; ++i) names.push_back("no.such.figure." + std::to_string(first + i));
  return names;
}

// A folder with runs, each of 10 records.
struct Served {
  test::TempFolder folder;

  explicit Served(const Words& names) {
    for (const std::string& name : names) {
      std::filesystem::create_directories(folder / name);
      posix_disk().write_atomic(folder / name + "/config.json", R"({"name":"cartpole","env":{"id":"cartpole"}})");
      posix_disk().write_atomic(folder / name + "/metrics.jsonl", records(10));
      posix_disk().write_atomic(folder / name + "/summary.json", R"({"reason":"stop.updates","env_steps":10})");
    }
  }
  void append(const std::string& name, const std::string& text) const {
    posix_disk().open_append(folder / name + "/metrics.jsonl")->append(text);
  }
  std::string target(const std::string& name, const std::string& figure) const {
    return "/data/curves?y=" + figure + "&run=" + (folder / name);
  }
};

json curves(DashData& data, const std::string& target) {
  const HttpData reply = data.answer(target);
  CAPTURE(reply.body);
  REQUIRE(reply.status == "200 OK");
  return json::parse(reply.body);
}

std::string with_version(const std::string& target, const json& reply) {
  return target + "&version=" + reply["version"].get<std::string>();
}

}  // namespace

TEST_CASE("curve_file: figures that no record has are not kept, and leave the columns of others") {
  MemoryDisk disk;
  disk.write_atomic(kPath, records(10));
  CurveFile file("run");
  for (int i = 0; i < 10; ++i) {
    Words wanted = kKl;
    for (const std::string& name : invented(100 * i)) wanted.push_back(name);
    file.want(wanted);
    file.read(disk, kAll);
  }
  CHECK(file.figures() == 3);
  CHECK(file.column("learner.kl", Value::mean) == std::vector<double>(10, 0.5));
  CHECK(std::isnan(file.column("no.such.figure.0", Value::mean).at(0)));
}

TEST_CASE("curve_file: figures that no record has are no reason to read the file again") {
  MemoryDisk disk;
  disk.write_atomic(kPath, records(10));
  CurveFile file("run");
  file.want(kKl);
  file.read(disk, kAll);
  file.want(invented(0));
  CHECK(file.read(disk, kAll) == 0);
  CHECK(file.records() == 10);
}

TEST_CASE("curve_file: figures that are asked of a file without records are not kept") {
  MemoryDisk disk;
  disk.write_atomic(kPath, "");
  CurveFile file("run");
  for (int i = 0; i < 10; ++i) {
    file.want(invented(100 * i));
    file.read(disk, kAll);
  }
  CHECK(file.figures() == 2);
  disk.remove(kPath);
  for (int i = 0; i < 10; ++i) file.want(invented(100 * i));
  CHECK(file.figures() <= 102);
}

TEST_CASE("curve_file: a figure that has no number keeps no points in memory") {
  MemoryDisk disk;
  disk.write_atomic(kPath, record(1, R"("learner":{"kl":null})") + record(2, R"("learner":{"kl":null})"));
  CurveFile file("run");
  const Words only_place = {"env_steps", "updates"};
  file.want(only_place);
  file.read(disk, kAll);
  const size_t before = file.bytes_kept();
  file.want(kKl);
  file.read(disk, kAll);
  CHECK(file.bytes_kept() == before);
  CHECK(std::isnan(file.column("learner.kl", Value::mean).at(1)));
}

TEST_CASE("curve_file: a figure whose first number comes late has no value before it") {
  MemoryDisk disk;
  disk.write_atomic(kPath, record(1, R"("learner":{"kl":null})") + record(2, R"("learner":{"kl":3})") +
                               record(3, R"("learner":{"kl":4})"));
  CurveFile file("run");
  file.want(kKl);
  file.read(disk, kAll);
  const std::vector<double> kl = file.column("learner.kl", Value::mean);
  REQUIRE(kl.size() == 3);
  CHECK(std::isnan(kl[0]));
  CHECK(kl[1] == 3);
  CHECK(kl[2] == 4);
}

TEST_CASE("dash_data: a figure that comes with a later record is in the next answer, with all of its points") {
  const Served served({"a"});
  DashData data({served.folder.path()});
  const std::string target = served.target("a", "lag.p95");
  const json before = curves(data, target);
  CHECK(before["y"].empty());
  served.append("a", record(11, R"("lag":{"p95":4})"));
  const json after = curves(data, with_version(target, before));
  REQUIRE(after.contains("y"));
  CHECK(after["points"] == 11);
  CHECK(after["y"]["lag.p95"]["mean"][9] == nullptr);
  CHECK(after["y"]["lag.p95"]["mean"][10] == 4);
  CHECK_FALSE(curves(data, with_version(target, after)).contains("y"));
}

TEST_CASE("dash_data: another process answers a version of this one with the curves") {
  const Served served({"a"});
  DashData data({served.folder.path()});
  const std::string target = served.target("a", "learner.kl");
  const json reply = curves(data, target);
  CHECK_FALSE(curves(data, with_version(target, reply)).contains("y"));
  DashData restarted({served.folder.path()});
  CHECK(curves(restarted, with_version(target, reply)).contains("y"));
}

TEST_CASE("dash_data: beyond the limit the curves that were asked for the longest ago are dropped, and read again") {
  const Served served({"a", "b", "c"});
  DashData data({served.folder.path()}, /*most_kept=*/1);
  const json first = curves(data, served.target("a", "learner.kl"));
  curves(data, served.target("b", "learner.kl"));
  curves(data, served.target("c", "learner.kl"));
  CHECK(data.files_kept() == 1);
  const json again = curves(data, served.target("a", "learner.kl"));
  CHECK(again["y"] == first["y"]);
  CHECK(again["version"] == first["version"]);
}
