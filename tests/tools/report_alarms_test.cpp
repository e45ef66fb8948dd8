// What RunReport does with alarms: those about the files of the run, which it raises itself, and alarms.json.
#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/alarm_file.h"
#include "tests/support/test.h"
#include "tests/tools/reported_run.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A run whose disk refuses all from the point with 10 environment steps on, until it is cleared.
struct FullDisk {
  explicit FullDisk(bool deterministic = false) {
    open_log(run.folder.open_log_file(), {.to_stderr = false});
    run.config.deterministic = deterministic;
    run.report.emplace(run.folder, nullptr, run.config, run.start);
    run.report->on_alarm([this](const RaisedAlarm& raised) { told.push_back(raised); });
    run.folder.begin_alarms(std::nullopt);
    run.report->record(run.at(10));
    run.report->show(run.at(10, 1));
    run.disk.set_fault({DiskFault::Kind::refuse, run.disk.operations(), 1000});
    run.report->record(run.at(20));
  }
  ~FullDisk() { close_log(); }
  bool logged(const std::string& text) const { return run.disk.read("run/log.txt").find(text) != std::string::npos; }

  ReportedRun run;
  std::vector<RaisedAlarm> told;
};

StatsSnapshot with_alarm(StatsSnapshot snapshot, const std::string& name) {
  snapshot.alarms[name] = {AlarmLevel::warning, 1, "because"};
  return snapshot;
}

std::vector<std::string> names_in_file(const ReportedRun& run) {
  std::vector<std::string> names;
  const std::optional<std::vector<PastAlarm>> alarms = read_alarms(run.disk, "run");
  for (const PastAlarm& each : alarms.value()) names.push_back(each.name);
  return names;
}

}  // namespace

TEST_CASE("run_report: a point that the disk refuses raises an alarm with the error, once") {
  FullDisk f;
  for (int i = 0; i < 3; ++i) f.run.report->show(f.run.at(20, 2));
  REQUIRE(f.told.size() == 1);
  CHECK(f.told[0].name == "disk_fails");
  CHECK(f.told[0].alarm.level == AlarmLevel::error);
  CHECK(f.told[0].alarm.since_update == 2);
  CHECK(
      f.told[0].alarm.text.starts_with("run/metrics.jsonl: cannot write: No space left on device (and 2 other "
                                       "files): free some space, or"));
}

TEST_CASE("run_report: the alarm about the disk is in the lines that can be written, and over when all can be") {
  FullDisk f;
  f.run.report->show(f.run.at(20, 2));
  f.run.disk.clear_fault();
  f.run.report->record(f.run.at(30));
  for (int i = 0; i < 8; ++i) f.run.report->show(f.run.at(30, 3));
  f.run.report->record(f.run.at(40));
  f.run.report->record(f.run.at(50));
  CHECK(f.told.size() == 1);
  CHECK(f.logged("log.txt: cannot write: No space left on device"));
  CHECK(f.logged("recorder: alarm disk_fails is over at update 3\n"));
  const std::vector<json> lines = f.run.lines();
  REQUIRE(lines.size() == 3);
  CHECK(lines[1]["env_steps"] == 30);
  CHECK(lines[1]["alarms"] == json{{"disk_fails", 2}});
  CHECK(lines[2]["alarms"] == json::object());
}

TEST_CASE("run_report: a checkpoint that the disk refuses raises the alarm, until another one can be written") {
  FullDisk f;
  f.run.disk.clear_fault();
  f.run.report->record(f.run.at(30));
  f.run.disk.set_fault({DiskFault::Kind::refuse, f.run.disk.operations(), 1});
  CHECK_THROWS_AS(f.run.report->save({}), IoError);
  for (int i = 0; i < 9; ++i) f.run.report->show(f.run.at(30, 3));
  REQUIRE(f.told.size() == 1);
  CHECK(f.told[0].alarm.text.starts_with("run/checkpoints/"));
  CHECK_FALSE(f.logged("alarm disk_fails is over"));
  f.run.report->save({});
  for (int i = 0; i < 9; ++i) f.run.report->show(f.run.at(30, 3));
  CHECK(f.logged("alarm disk_fails is over"));
}

TEST_CASE("run_report: the alarm about the disk is in no line of a deterministic run, but told") {
  FullDisk f(/*deterministic=*/true);
  f.run.report->show(f.run.at(20, 2));
  CHECK(f.told.size() == 1);
  f.run.disk.clear_fault();
  f.run.report->record(f.run.at(30));
  f.run.report->record(f.run.at(40));
  CHECK(f.run.lines().back()["alarms"] == json::object());
}

TEST_CASE("run_report: the summary counts the points and the lines of the log that the disk refused") {
  FullDisk f;
  log_info("env", "failed");
  f.run.disk.clear_fault();
  f.run.finish();
  CHECK(f.run.summary()["lost_writes"] == 2);
  CHECK(f.run.summary()["lost_log_lines"] == 3);
  CHECK(f.logged("train: disk: it refused 2 writes to the run folder and 3 lines of log.txt, which are lost\n"));
}

TEST_CASE("run_report: alarms.json has the alarms of a run that has not ended") {
  ReportedRun f;
  f.report->keep_alarms(with_alarm(f.at(10, 1), "kl_high"));
  CHECK(names_in_file(f) == std::vector<std::string>{"kl_high"});
}

TEST_CASE("run_report: alarms.json has the alarm about the disk, as soon as the disk takes it") {
  FullDisk f;
  const auto report = [&](uint64_t updates) {
    const StatsSnapshot snapshot = with_alarm(f.run.at(20, updates), "kl_high");
    f.run.report->show(snapshot);
    f.run.report->keep_alarms(snapshot);
  };
  report(2);
  report(3);
  CHECK(names_in_file(f.run).empty());
  f.run.disk.clear_fault();
  report(4);
  CHECK(names_in_file(f.run) == std::vector<std::string>{"disk_fails", "kl_high"});
}

TEST_CASE("run_report: an alarms.json that the disk refuses raises the alarm about the disk") {
  ReportedRun f;
  f.disk.set_fault({DiskFault::Kind::refuse, f.disk.operations(), 2});
  f.report->keep_alarms(with_alarm(f.at(10, 1), "kl_high"));
  std::vector<RaisedAlarm> told;
  f.report->on_alarm([&](const RaisedAlarm& raised) { told.push_back(raised); });
  f.report->show(f.at(10, 1));
  REQUIRE(told.size() == 1);
  CHECK(told[0].alarm.text.starts_with("run/alarms.json: "));
}
