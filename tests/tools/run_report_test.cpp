#include "tools/cli/run_report.h"

#include <fcntl.h>

#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/tools/reported_run.h"
#include "tools/cli/finished_run.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("finished_run: a run at its limit with summary and evaluation is finished") {
  test::TempFolder temporary;
  const std::string path = temporary / "run";
  RunFolder folder(posix_disk(), path, "{}");
  RunConfig config;
  config.stop.updates = 4;
  ReplayStart start;
  start.version.number = 4;
  start.env_steps = 9;
  const auto line_after = [&](json summary, const json& change = json::object()) {
    summary.update(change);
    std::ofstream(path + "/summary.json") << summary;
    return finished_line(folder, config, start);
  };
  CHECK(finished_line(folder, config, start).empty());  // no summary
  const json whole = {{"reason", "stop.updates reached"}, {"updates", 4}, {"eval", {{"return_mean", 1.0}}}};
  CHECK(line_after(whole) ==
        path +
            ": this run has reached stop.updates 4 (4 updates, 9 environment steps); to train further, "
            "raise the limit, like --set stop.updates=8");
  config.model.kind = kDecoderKind;  // a token run counts answers
  CHECK(line_after(whole).find(" (4 updates, 9 answers); ") != std::string::npos);
  config.model.kind = "mlp";
  CHECK(line_after(whole, {{"reason", "interrupted"}}).empty());
  CHECK(line_after(whole, {{"updates", 3}}).empty());
  CHECK(line_after(whole, {{"error", "the trainer failed"}}).empty());
  CHECK(line_after(whole, {{"eval", nullptr}}).empty());  // interrupted in the last evaluation
  CHECK(line_after(whole, {{"eval", {{"error", "no episode ended"}}}}).empty());
  CHECK(line_after(whole, {{"eval", {{"return_mean", 1.0}, {"updates", 2}}}}).empty());  // of an earlier policy
  std::ofstream(path + "/summary.json") << "[1]";
  CHECK(finished_line(folder, config, start).empty());

  config.stop.env_steps = 6;
  CHECK(line_after(whole).ends_with("like --set stop.updates=8 --set stop.env_steps=18"));
  std::ofstream(path + "/endpoints.json") << "{}";  // a later start was killed
  CHECK(line_after(whole).empty());
}

TEST_CASE("finished_run: a run that resumes before the update after which it ended has lost a checkpoint") {
  test::TempFolder temporary;
  const std::string path = temporary / "run";
  RunFolder folder(posix_disk(), path, "{}");
  CHECK(missing_checkpoint_line(folder, 4).empty());
  const auto line_of = [&](const std::string& summary, uint64_t updates) {
    std::ofstream(path + "/summary.json") << summary;
    return missing_checkpoint_line(folder, updates);
  };
  CHECK(line_of(R"({"updates": 10})", 4) ==
        path +
            "/summary.json: the run ended after update 10, of which no checkpoint can be used; it resumes from the one "
            "after update 4");
  CHECK(line_of(R"({"updates": 10})", 10).empty());
  CHECK(line_of(R"({"updates": 10})", 12).empty());
  CHECK(line_of(R"({"updates": 10, "checkpoint_error": "the disk is full"})", 4).empty());
  for (const char* damaged : {"[1]", "", "{", R"({"updates": -1})", R"({"updates": "10"})"})
    CHECK(line_of(damaged, 4).empty());
}

TEST_CASE("run_report: a deterministic run that cannot end writes what it kept, and forgets what came after it") {
  ReportedRun f;
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start);
  for (const uint64_t updates : {1, 2}) {
    f.report->record(ReportedRun::at(10 * updates, updates));
    Checkpoint checkpoint;
    checkpoint.version = {0, updates};
    checkpoint.updates = updates;
    f.report->keep(Checkpoint(checkpoint));
  }
  CHECK(f.folder.checkpoints().list().empty());
  for (const uint64_t env_steps : {30, 40}) f.report->record(ReportedRun::at(env_steps, 3));
  REQUIRE(f.report->save_kept() == 2);
  CHECK(f.folder.checkpoints().list() == std::vector<uint64_t>{2});
  const Checkpoint saved = f.folder.checkpoints().load(2);
  CHECK(saved.scalars.at(kMetricsLines) == 1);  // of 10 steps; that of 20 was held back
  CHECK(env_steps_of(saved.extras.at(kMetricsHeld)) == 20);
  RunOutcome outcome;
  outcome.version.number = 2;
  outcome.reason = kInterrupted;
  CHECK(f.report->finish(outcome, 10).empty());
  CHECK(f.summary().at("updates") == 2);
  CHECK(f.summary().at("env_steps") == 20);
  CHECK(f.lines().back().at("env_steps") == 30);  // a resume cuts it off
}

TEST_CASE("run_report: a deterministic run that cannot end and kept nothing says what was there before") {
  ReportedRun f;
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start);
  f.report->record(ReportedRun::at(10, 1));
  CHECK(!f.report->save_kept());
  RunOutcome outcome;
  outcome.reason = kInterrupted;
  CHECK(f.report->finish(outcome, 10).empty());
  CHECK(f.summary().at("updates") == 0);
  CHECK(f.summary().at("env_steps") == 0);
  CHECK(f.folder.checkpoints().list().empty());
}

TEST_CASE("run_report: a resume that fails before its first update keeps the summary") {
  ReplayStart start;
  start.version = {1, 8};
  ReportedRun f(start);
  RunOutcome failed;
  failed.error = "the environment is gone";
  f.report->finish(failed, 1);
  CHECK(f.summary()["updates"] == 8);  // there was no summary to keep
  CHECK(f.summary()["error"] == "the environment is gone");
  f.finish();
  const json whole = f.summary();
  CHECK(whole["updates"] == 10);
  f.report->finish(failed, 1);
  CHECK(f.summary() == whole);
  f.report->record(ReportedRun::at(500, 9));
  f.report->finish(failed, 1);
  CHECK(f.summary()["updates"] == 9);  // it has made an update
  CHECK(f.summary()["error"] == "the environment is gone");
}

TEST_CASE("run_report: the summary has the last recorded counts, or those at the resume if nothing was recorded") {
  ReplayStart start;
  start.version = {1, 8};
  start.env_steps = 100;
  start.ledger.produced = start.ledger.trained = 100;
  start.totals.env_failures = 3;
  ReportedRun f(start);
  f.finish();
  CHECK(f.summary()["env_steps"] == 100);
  CHECK(f.summary()["ledger"]["trained"] == 100);
  CHECK(f.summary()["last_start"]["env_steps"] == 0);
  CHECK(f.summary()["env_failures"] == json{{f.config.env.id, 3}});
  RunConfig tokens;
  tokens.model.kind = "decoder";
  RunReport report(f.folder, nullptr, tokens, start);
  RunOutcome outcome;
  outcome.reason = "stop.updates reached";
  report.finish(outcome, 10);
  CHECK(f.summary()["env_failures"] == json{{"reverse", 3}});
  ReportedRun recorded(start);
  recorded.report->record(recorded.at(160, 10));
  recorded.finish();
  CHECK(recorded.summary()["env_steps"] == 160);
}

TEST_CASE("run_report: the speed of a deterministic run does not contain the time of its warm-up") {
  ReportedRun f;
  f.config.deterministic = true;
  const auto speed = [&](bool warms_up) {
    f.report.emplace(f.folder, nullptr, f.config, f.start);
    StatsSnapshot s;
    s.warmup = WarmupState{.step = 2, .of = 2, .complete = true};
    if (warms_up) f.report->show(s);
    f.report->show(f.at(100, 1));
    f.finish(/*wall_seconds=*/1000);
    return f.summary()["mean_env_steps_per_second"].get<double>();
  };
  CHECK(speed(false) == 0.1);
  CHECK(speed(true) > 0.1);
  CHECK(f.summary()["warmup"]["seconds"].is_null());
}

TEST_CASE("run_report: a checkpoint records how many lines of metrics there are at least") {
  ReportedRun f;
  f.report->record(f.at(10));
  f.report->record(f.at(20));
  f.report->save({});
  CHECK(f.folder.checkpoints().load(0).scalars.at(kMetricsAtLeast) == 1);
}

TEST_CASE("run_report: one line for each number of steps, with the newest figures, written when the next comes") {
  ReportedRun f;
  f.report->record(f.at(0));
  f.report->record(f.at(10, 1));
  CHECK(f.lines().empty());
  f.report->record(f.at(10, 2));
  f.report->record(f.at(20, 3));
  REQUIRE(f.lines().size() == 1);
  CHECK(f.lines()[0]["updates"] == 2);
}

TEST_CASE("run_report: the points of a warm-up are lines and events of their own, each once, also after a resume") {
  MemoryDisk disk;
  const RunConfig config;
  const auto record = [](RunReport& report, uint64_t first, uint64_t last) {
    for (uint64_t step = first; step <= last; ++step) {
      StatsSnapshot s;
      s.warmup = WarmupState{.step = step, .of = 9, .checked = 2, .pass_at_1 = 0.25, .loss = 0.5};
      report.record_warmup(s);
    }
  };
  {
    RunFolder folder(disk, "run", "{}");
    folder.begin_metrics(1.0, std::nullopt);
    RunReport report(folder, nullptr, config, {});
    record(report, 1, 3);
    Checkpoint checkpoint;
    checkpoint.scalars[kWarmupSteps] = 2;
    report.save(checkpoint);
    CHECK(folder.checkpoints().load(0).scalars.at(kMetricsAtLeast) == 2);  // a resume cuts off the third
  }
  RunFolder folder(disk, "run", "{}");
  RunFolder::ResumePoint resume;
  resume.warmup_steps = 2;
  folder.begin_metrics(2.0, resume);
  RunReport report(folder, nullptr, config, {});
  record(report, 2, 4);
  std::istringstream text(disk.read("run/metrics.jsonl"));
  std::vector<uint64_t> steps;
  for (std::string line; std::getline(text, line);) {
    const json point = json::parse(line);
    CHECK(point["updates"] == 0);
    CHECK(point["env_steps"] == 0);
    CHECK(point["warmup"]["loss"] == 0.5);
    CHECK(point["warmup"]["pass_at_1"] == 0.25);
    steps.push_back(point["warmup"]["step"]);
  }
  CHECK(steps == std::vector<uint64_t>{1, 2, 3, 4});
  const auto values = [&](const std::string& tag) {
    size_t count = 0;
    for (const std::string& name : disk.list("run")) {
      if (name.find("tfevents") == std::string::npos) continue;
      const std::string events = disk.read("run/" + name);
      for (size_t at = 0; (at = events.find(tag, at)) != std::string::npos; ++at) ++count;
    }
    return count;
  };
  CHECK(values("warmup/loss") == 5);
  CHECK(values("warmup/pass_at_1") == 1);  // of the step that was checked
}

TEST_CASE("run_report: the last line has the last evaluation, even if there was no step since") {
  ReportedRun f;
  f.report->record(f.at(10));
  f.report->record(f.at(20));
  StatsSnapshot last = f.at(20);
  last.evaluation = EvaluationResult{2, 100, 499, 1, 499, kUnknown};
  f.report->record(last);
  f.report->show(last);
  f.finish();
  REQUIRE(f.lines().size() == 2);
  CHECK(f.lines()[0]["eval"].is_null());
  CHECK(f.lines()[1]["eval"]["return_mean"] == 499);
  CHECK(f.summary()["env_steps"] == 20);
}

TEST_CASE("run_report: an evaluation is a line of its own and one value of TensorBoard, at the update evaluated") {
  ReportedRun f;
  const auto evaluation = [&](uint64_t updates, bool last = false) {
    StatsSnapshot s = f.at(10 * updates, updates);
    s.evaluation = EvaluationResult{.updates = updates, .episodes = 5, .return_mean = 1};
    return Evaluation{.version = {0, updates}, .last = last, .point = to_json(s)};
  };
  for (uint64_t updates = 1; updates <= 4; ++updates) f.report->record(f.at(10 * updates, updates));
  f.report->evaluated(evaluation(2));
  f.report->evaluated(Evaluation{.version = {0, 3}, .error = "the environment failed"});
  f.report->record(f.at(50, 5));
  f.report->evaluated(evaluation(5, /*last=*/true));
  f.finish();  // no point came after the last evaluation
  std::vector<std::pair<uint64_t, bool>> lines;
  for (const json& line : f.lines()) lines.emplace_back(line["updates"], line["eval"].is_object());
  CHECK(lines == std::vector<std::pair<uint64_t, bool>>{
                     {1, false}, {2, false}, {3, false}, {2, true}, {4, false}, {5, false}, {5, true}});
  std::string events;
  for (const std::string& name : f.disk.list("run"))
    if (name.find("tfevents") != std::string::npos) events += f.disk.read("run/" + name);
  size_t values = 0;
  for (size_t at = 0; (at = events.find("eval/return_mean", at)) != std::string::npos; ++at) ++values;
  CHECK(values == 2);
}

TEST_CASE("run_report: a run without a step leaves no line, and a resumed one none for the steps it starts from") {
  ReportedRun none;
  none.report->record(none.at(0));
  none.finish();
  CHECK(none.lines().empty());
  ReplayStart start;
  start.env_steps = 50;
  ReportedRun resumed(start);
  resumed.report->record(resumed.at(50));
  resumed.finish();
  CHECK(resumed.lines().empty());
}

TEST_CASE("run_report: a deterministic checkpoint includes the line that is not written yet") {
  ReportedRun f;
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start);
  f.report->record(f.at(10));
  f.report->record(f.at(20));
  Checkpoint checkpoint;
  checkpoint.updates = checkpoint.version.number = 1;
  f.report->save(checkpoint);
  const Checkpoint saved = f.folder.checkpoints().load(1);
  CHECK(saved.scalars.at(kMetricsLines) == 1);
  CHECK(env_steps_of(saved.extras.at(kMetricsHeld)) == 20);
}

TEST_CASE("run_report: a line that a checkpoint held is written after the resume, also for TensorBoard") {
  const auto point = [](uint64_t env_steps, uint64_t produced) {
    StatsSnapshot s = ReportedRun::at(env_steps);
    s.ledger.produced = produced;
    return s;
  };
  const std::string held = to_json(point(20, 1234));
  ReportedRun f({}, &held);
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start, &held);
  f.report->record(point(30, 5678));
  f.finish();
  REQUIRE(f.lines().size() == 2);
  CHECK(f.lines()[0] == json::parse(held));
  std::string events;
  for (const std::string& name : f.disk.list("run"))
    if (name.find("tfevents") != std::string::npos) events += f.disk.read("run/" + name);
  const auto times = [&](float value) {  // the tag is followed by the key of the value and its four bytes
    std::string wanted = "ledger/produced\x15";
    wanted.append(reinterpret_cast<const char*>(&value), sizeof value);
    size_t count = 0;
    for (size_t at = 0; (at = events.find(wanted, at)) != std::string::npos; ++at) ++count;
    return count;
  };
  CHECK(times(1234) == 1);
  CHECK(times(5678) == 1);
}
