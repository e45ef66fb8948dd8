#include "tools/cli/run_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
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

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

TEST_CASE("run_report: without a last evaluation the summary has the newest one, with its update") {
  ReplayStart start;
  start.totals.evaluation = R"({"updates":20,"episodes":100,"return_mean":3.5})";
  ReportedRun f(start);
  RunOutcome interrupted;
  interrupted.version = {0, 70};
  interrupted.reason = "interrupted";
  f.report->finish(interrupted, 1);
  CHECK(f.summary()["eval"]["updates"] == 20);  // an earlier start has made it
  CHECK(f.summary()["eval"]["return_mean"] == 3.5);
  f.report->evaluated(Evaluation{.version = {0, 40}, .episodes = 98, .failed_episodes = 2, .return_mean = 5});
  f.report->evaluated(Evaluation{.version = {0, 60}, .error = "the environment failed"});
  f.report->finish(interrupted, 1);
  CHECK(f.summary()["eval"]["updates"] == 40);
  CHECK(f.summary()["eval"]["return_mean"] == 5);
  CHECK(f.summary()["eval"]["failed_episodes"] == 2);
  interrupted.evaluation = Evaluation{.version = {0, 70}, .episodes = 3, .return_mean = 1, .last = true};
  f.report->finish(interrupted, 1);
  CHECK(f.summary()["eval"]["updates"] == 70);
  interrupted.evaluation = Evaluation{.version = {0, 80}, .last = true, .error = "the environment failed"};
  f.report->finish(interrupted, 1);
  CHECK(f.summary()["eval"]["updates"] == 40);  // one that failed hides no score
  ReportedRun none;
  none.finish();
  CHECK(none.summary()["eval"].is_null());
}

TEST_CASE("run_report: the summary has the newest failed evaluation, and a resumed start finds it there") {
  ReportedRun none;
  none.finish();
  CHECK(none.summary()["failed_evaluations"]["count"] == 0);
  CHECK(none.summary()["failed_evaluations"]["error"].is_null());
  ReplayStart start;
  start.version = {1, 8};
  start.totals.failed_evaluations = {.count = 4, .updates = 6, .episodes = 1, .error = "of an earlier start"};
  ReportedRun f(start);
  f.finish();
  CHECK(f.summary()["failed_evaluations"] == json::parse(to_json(start.totals.failed_evaluations)));
  StatsSnapshot s = f.at(20, 10);
  s.failed_evaluations = {.count = 5, .updates = 10, .error = "of this start"};
  f.report->show(s);
  f.finish();
  CHECK(f.summary()["failed_evaluations"] == json::parse(to_json(s.failed_evaluations)));
}

TEST_CASE("run_report: the summary has totals over all starts, and the figures of the last start") {
  ReplayStart start;
  start.version = {1, 8};
  start.env_steps = 100;
  start.totals.elapsed_seconds = 40;
  start.totals.starts = 1;
  ReportedRun f(start);
  StatsSnapshot last = f.at(160, 10);
  last.elapsed_seconds = 52;
  last.episodes = 9;
  f.report->record(last);
  f.report->show(last);
  f.finish();
  const json summary = f.summary();
  CHECK(summary["wall_seconds"] == 50);
  CHECK(summary["env_steps"] == 160);
  CHECK(summary["updates"] == 10);
  CHECK(summary["starts"] == 2);
  CHECK(summary["mean_env_steps_per_second"] == 160.0 / 52);
  CHECK(summary["last_start"]["wall_seconds"] == 10.0);
  CHECK(summary["last_start"]["env_steps"] == 60);
  CHECK(summary["last_start"]["updates"] == 2);
  CHECK(summary["last_start"]["env_steps_per_wall_second"] == 5);
}

TEST_CASE("run_summary: the mean speed is that of `troupe runs`, from the first record with experience on") {
  ReportedRun f;
  for (const auto& [steps, seconds] : {std::pair{0, 1.0}, {100, 5.0}, {300, 9.0}}) {
    StatsSnapshot s = f.at(static_cast<uint64_t>(steps), 1);
    s.elapsed_seconds = seconds;
    f.report->record(s);
    f.report->show(s);
  }
  f.finish();
  CHECK(f.summary()["mean_env_steps_per_second"] == 50);  // 200 steps in 4 s
}

TEST_CASE("run_report: the summary has the updates that were undone, and the shares of the verdicts") {
  ReportedRun f;
  f.report->undone(7);
  const auto report = [&](double seconds, std::optional<Resource> resource) {
    StatsSnapshot s = f.at(static_cast<uint64_t>(10 * seconds), 1);
    s.elapsed_seconds = seconds;
    if (resource) s.told_bottleneck = Bottleneck{.what = "x", .why = "y", .advice = "z", .resource = *resource};
    f.report->show(s);
  };
  report(0, std::nullopt);
  report(2, std::nullopt);
  report(5, Resource::env_stepping);
  report(10, Resource::trainer);
  f.finish();
  const json summary = f.summary();
  CHECK(summary["undone_updates"] == 7);
  CHECK(summary["last_start"]["verdicts"] == json::parse(R"({"env_stepping": 0.3, "trainer": 0.5, "unknown": 0.2})"));
  CHECK(summary["last_start"]["bottleneck"] ==
        json::parse(R"({"what": "x", "share": 0.5, "resource": "trainer", "why": "y", "advice": "z"})"));
}

TEST_CASE("run_report: the points of a run too short for two reports tell its verdict") {
  ReportedRun f;
  const auto point = [&](double seconds, Resource resource) {
    StatsSnapshot s = f.at(static_cast<uint64_t>(10 * seconds), 1);
    s.elapsed_seconds = seconds;
    s.told_bottleneck = Bottleneck{.what = "x", .resource = resource};
    return s;
  };
  f.report->record(point(0.5, Resource::unknown));
  f.report->record(point(1, Resource::trainer));
  f.report->show(point(1.5, Resource::trainer));
  f.report->record(point(1.2, Resource::lag_cap));  // the disk was slow
  f.finish();
  CHECK(f.summary()["last_start"]["verdicts"] == json::parse(R"({"trainer": 1.0})"));
}

TEST_CASE("verdict_times: a line names the two verdicts that were told for longest") {
  VerdictTimes times;
  CHECK(times.text().empty());
  CHECK(times.shares().empty());
  const auto add = [&](double seconds, Resource resource) {
    StatsSnapshot s;
    s.elapsed_seconds = seconds;
    s.told_bottleneck = Bottleneck{.what = "the " + std::string(name_of(resource)), .resource = resource};
    times.add(s);
  };
  add(0, Resource::trainer);
  CHECK(times.text().empty());  // of no time at all
  add(4, Resource::unknown);
  CHECK(times.text().empty());
  add(10, Resource::trainer);
  add(18, Resource::env_stepping);
  add(20, Resource::lag_cap);
  CHECK(times.text() == "the env_stepping 40 % of the time, the trainer 30 %");
  add(60, Resource::none);
  CHECK(times.text() == "the env_stepping 13 % of the time, the trainer 10 %");
}

TEST_CASE("verdict_times: the line has the advice of the first verdict, as it was told last") {
  VerdictTimes times;
  StatsSnapshot s;
  for (const double seconds : {1.0, 2.0, 3.0}) {
    s.elapsed_seconds = seconds;
    s.told_bottleneck = Bottleneck{.what = "processors (other programs)",
                                   .advice = "more machines " + std::to_string(static_cast<int>(seconds)),
                                   .resource = Resource::oversubscribed};
    times.add(s);
  }
  CHECK(times.text() == "processors (other programs) 100 % of the time; more machines 3");
}

TEST_CASE("verdict_times: a report without times, of the warm-up or after training counts for no verdict") {
  VerdictTimes times;
  StatsSnapshot s;
  s.elapsed_seconds = 1;
  times.add(s);
  s.elapsed_seconds = kUnknown;
  times.add(s);
  s.elapsed_seconds = 2;
  times.add(s);
  s.elapsed_seconds = 3;
  s.training_ended = true;
  times.add(s);
  s.elapsed_seconds = 4;
  s.training_ended = false;
  s.warmup.emplace();
  times.add(s);
  CHECK(times.shares().empty());
}

TEST_CASE("run_report: if the summary cannot be written, that is reported, and the closing lines are printed") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  ReportedRun f({}, nullptr, console);
  f.report->record(f.at(10, 1));
  f.disk.set_fault({.first = f.disk.operations(), .count = 1000});
  const std::string refused = f.finish();
  CHECK(refused.find("summary.json") != std::string::npos);
  std::ostringstream shown;
  shown << std::ifstream(folder / "out").rdbuf();
  CHECK(shown.str().find("Run folder: run") != std::string::npos);
  f.disk.clear_fault();
  CHECK(f.finish() == "");
  close(file);
}

TEST_CASE("run_report: the end says how many samples no count includes, if there can be any") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  for (const uint64_t uncounted : {0, 1, 2048}) {
    ReplayStart start;
    start.uncounted = uncounted;
    ReportedRun f(start, nullptr, console);
    f.finish();
    CHECK(f.summary()["uncounted_at_most"] == uncounted);
  }
  std::stringstream shown;
  shown << std::ifstream(folder / "out").rdbuf();
  const std::string text = shown.str();
  CHECK(text.find("uncounted") != std::string::npos);
  CHECK(text.find("uncounted") == text.find("uncounted: at most 1 sample that killed workers made\n"));
  CHECK(text.find("\nuncounted: at most 2,048 samples that killed workers made\n") != std::string::npos);
  close(file);
}

TEST_CASE("run_report: the seconds of the summary end with the training, not with the last evaluation") {
  for (const bool deterministic : {false, true}) {
    ReportedRun f;
    f.config.deterministic = deterministic;
    f.report.emplace(f.folder, nullptr, f.config, f.start);
    CHECK_FALSE(f.report->training_ended());
    StatsSnapshot ended = f.at(300, 2);
    ended.elapsed_seconds = 3;
    ended.training_ended = true;
    const auto before = Clock::now();
    f.report->show(ended);
    const auto shown = Clock::now();
    CHECK(f.report->training_ended());
    f.report->record(ended);
    const auto recorded = Clock::now();
    f.finish(60);
    const json summary = f.summary();
    const double after = summary["seconds_after_training"], wall = summary["wall_seconds"];
    CHECK(after >= seconds_between(shown, recorded));
    CHECK(after <= seconds_between(before, Clock::now()));
    CHECK(wall + after == doctest::Approx(60));
    CHECK(summary["last_start"]["wall_seconds"] == wall);
    CHECK(summary["mean_env_steps_per_second"] == doctest::Approx(deterministic ? 300 / wall : 100));
  }
}

TEST_CASE("run_report: an early end of the warm-up says why, and with a verifier what is right") {
  const auto line = [](uint64_t step, const std::string& verifier) {
    const test::TempFolder folder;
    const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    Output console(file);
    ReportedRun f({}, nullptr, console);
    f.config.warmup.pass_at_1 = 0.3;
    f.config.task.verifier = verifier;
    f.report.emplace(f.folder, nullptr, f.config, f.start, nullptr, console);
    StatsSnapshot s;
    s.warmup = WarmupState{.step = step, .of = 100, .pass_at_1 = 1, .seconds = 0.5, .complete = true};
    f.report->show(s);
    close(file);
    std::string text;
    std::ifstream out(folder / "out");
    std::getline(out, text);
    return text;
  };
  const std::string why = "; ended early, because warmup.pass_at_1 is 0.30";
  CHECK(line(100, "py:m:f") == "warm-up: 100 steps on demonstrations in 0.5 s, pass@1 1.00");
  CHECK(line(5, "") == "warm-up: 5 steps on demonstrations in 0.5 s, pass@1 1.00" + why);
  CHECK(line(5, "py:m:f")
            .ends_with(why + " (right is a reward of at least 1, unless the verifier says which answers are right)"));
}

TEST_CASE("run_report: a verifier's failures are told in answers and in whole calls") {
  const auto line = [](uint64_t failed_calls, uint64_t failed_answers, uint64_t failed_replies = 0) {
    const test::TempFolder folder;
    const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    Output console(file);
    ReportedRun f({}, nullptr, console);
    StatsSnapshot s = f.at(100, 2);
    s.verifier = VerifierFigures{.calls = 16'214, .failed_calls = failed_calls, .failed_replies = failed_replies};
    s.ledger.verifier_failed = failed_answers;
    f.report->show(s);
    f.finish();
    close(file);
    std::ifstream out(folder / "out");
    for (std::string text; std::getline(out, text);)
      if (text.starts_with("verifier: ") || text.starts_with("replies: ")) return text;
    return std::string();
  };
  CHECK(line(0, 0) == "");
  CHECK(line(0, 30'476) ==
        "verifier: it failed on 30,476 answers, without a score; 0 of 16,214 calls failed as a whole");
  CHECK(line(2, 0) == "verifier: 2 of 16,214 calls failed, and were repeated");
  const std::string replies =
      "replies: those to 72 answers failed, which have no score; 0 of 16,214 calls failed as a whole";
  CHECK(line(0, 72, 72) == replies);
  CHECK(line(0, 0, 72) == replies);  // the run ended before it counted these answers
  CHECK(line(0, 80, 72) ==
        "verifier: it failed on 80 answers, without a score, 72 of them because the reply failed; 0 of 16,214 calls "
        "failed as a whole");
}

TEST_CASE("run_report: the peak memory is told beside what the run was expected to take, if that is known") {
  const auto told = [](uint64_t expected) {
    const test::TempFolder folder;
    const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    Output console(file);
    ReportedRun f({}, nullptr, console);
    f.report->expect_memory(expected);
    f.finish();
    close(file);
    std::ifstream out(folder / "out");
    for (std::string text; std::getline(out, text);)
      if (text.starts_with("peak memory ")) return text;
    return std::string();
  };
  CHECK(told(0) == "");
  CHECK(told(297'000'000).ends_with(" MB, estimated 297 MB"));
}

TEST_CASE("run_report: evaluations during a run are printed, and logged") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  ReportedRun f({}, nullptr, console);
  open_log(f.disk.open_append("log"), {.to_stderr = false});
  Evaluation evaluation{.version = {0, 25}, .episodes = 20, .return_mean = 3, .return_std = 1};
  f.report->evaluated(evaluation);
  evaluation.error = "why";
  f.report->evaluated(evaluation);
  evaluation.error.clear();
  evaluation.last = true;  // the end of the run says it
  f.report->evaluated(evaluation);
  close_log();
  close(file);
  const std::string line = "after 25 updates: evaluation: return 3.00 +- 1.00 over 20 episodes";
  std::ifstream out(folder / "out");
  const std::string text{std::istreambuf_iterator<char>(out), {}};
  CHECK(text == line + '\n');
  CHECK(f.disk.read("log").find(line) != std::string::npos);
}

TEST_CASE("run_report: an evaluation that was stopped is said, and lines fit the columns of their reader") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  setenv("TROUPE_COLUMNS", "80", 1);
  ReportedRun f({}, nullptr, console);
  StatsSnapshot ended = f.at(123'456'789, 2);
  ended.training_ended = true;
  f.report->show(ended);
  unsetenv("TROUPE_COLUMNS");
  f.report->show(ended);
  f.finish();
  std::vector<std::string> lines;
  std::ifstream out(folder / "out");
  for (std::string line; std::getline(out, line);) lines.push_back(line);
  REQUIRE(lines.size() == 5);
  CHECK(lines[0].size() < 80);
  CHECK(lines[1].size() > 80);
  CHECK(lines[3] == "evaluation: stopped before its end, so there is no result; the same command starts it again");
  close(file);
}
