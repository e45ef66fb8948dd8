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
#include "tools/cli/finished_run.h"

using namespace troupe;
using nlohmann::json;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

struct Fixture {
  explicit Fixture(const ReplayStart& from = {}, const std::string* held = nullptr, Output& console = standard_output())
      : start(from) {
    folder.begin_metrics(1.0, std::nullopt);
    report.emplace(folder, nullptr, config, start, held, console);
  }
  std::vector<json> lines() const {
    std::vector<json> result;
    if (!disk.exists("run/metrics.jsonl")) return result;
    std::istringstream text(disk.read("run/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) result.push_back(json::parse(line));
    return result;
  }
  json summary() const { return json::parse(disk.read("run/summary.json")); }
  static StatsSnapshot at(uint64_t env_steps, uint64_t updates = 0) {
    StatsSnapshot s;
    s.env_steps = env_steps;
    s.updates = updates;
    return s;
  }
  std::string finish(double wall_seconds = 10) {
    RunOutcome outcome;
    outcome.version = {0, start.version.number + 2};
    outcome.reason = "stop.updates reached";
    return report->finish(outcome, wall_seconds);
  }

  MemoryDisk disk;
  RunConfig config;
  ReplayStart start;
  RunFolder folder{disk, "run", "{}"};
  std::optional<RunReport> report;
};

}  // namespace

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
  Fixture f;
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start);
  for (const uint64_t updates : {1, 2}) {
    f.report->record(Fixture::at(10 * updates, updates));
    Checkpoint checkpoint;
    checkpoint.version = {0, updates};
    checkpoint.updates = updates;
    f.report->keep(Checkpoint(checkpoint));
  }
  CHECK(f.folder.checkpoints().list().empty());
  for (const uint64_t env_steps : {30, 40}) f.report->record(Fixture::at(env_steps, 3));
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
  Fixture f;
  f.config.deterministic = true;
  f.report.emplace(f.folder, nullptr, f.config, f.start);
  f.report->record(Fixture::at(10, 1));
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
  Fixture f(start);
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
  f.report->record(Fixture::at(500, 9));
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
  Fixture f(start);
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
  Fixture recorded(start);
  recorded.report->record(recorded.at(160, 10));
  recorded.finish();
  CHECK(recorded.summary()["env_steps"] == 160);
}

TEST_CASE("run_report: the speed of a deterministic run does not contain the time of its warm-up") {
  Fixture f;
  f.config.deterministic = true;
  const auto speed = [&](bool warms_up) {
    f.report.emplace(f.folder, nullptr, f.config, f.start);
    StatsSnapshot s;
    s.warmup = WarmupState{.step = 2, .of = 2, .complete = true};
    if (warms_up) f.report->show(s);
    f.report->show(f.at(100, 1));
    f.finish(/*wall_seconds=*/1000);
    return f.summary()["env_steps_per_second"].get<double>();
  };
  CHECK(speed(false) == 0.1);
  CHECK(speed(true) > 0.1);
  CHECK(f.summary()["warmup"]["seconds"].is_null());
}

TEST_CASE("run_report: a checkpoint records how many lines of metrics there are at least") {
  Fixture f;
  f.report->record(f.at(10));
  f.report->record(f.at(20));
  f.report->save({});
  CHECK(f.folder.checkpoints().load(0).scalars.at(kMetricsAtLeast) == 1);
}

TEST_CASE("run_report: one line for each number of steps, with the newest figures, written when the next comes") {
  Fixture f;
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
  Fixture f;
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
  Fixture f;
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

TEST_CASE("run_report: without a last evaluation the summary has the newest one, with its update") {
  ReplayStart start;
  start.totals.evaluation = R"({"updates":20,"episodes":100,"return_mean":3.5})";
  Fixture f(start);
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
  Fixture none;
  none.finish();
  CHECK(none.summary()["eval"].is_null());
}

TEST_CASE("run_report: the summary has the newest failed evaluation, and a resumed start finds it there") {
  Fixture none;
  none.finish();
  CHECK(none.summary()["failed_evaluations"]["count"] == 0);
  CHECK(none.summary()["failed_evaluations"]["error"].is_null());
  ReplayStart start;
  start.version = {1, 8};
  start.totals.failed_evaluations = {.count = 4, .updates = 6, .episodes = 1, .error = "of an earlier start"};
  Fixture f(start);
  f.finish();
  CHECK(f.summary()["failed_evaluations"] == json::parse(to_json(start.totals.failed_evaluations)));
  StatsSnapshot s = f.at(20, 10);
  s.failed_evaluations = {.count = 5, .updates = 10, .error = "of this start"};
  f.report->show(s);
  f.finish();
  CHECK(f.summary()["failed_evaluations"] == json::parse(to_json(s.failed_evaluations)));
}

TEST_CASE("run_report: a run without a step leaves no line, and a resumed one none for the steps it starts from") {
  Fixture none;
  none.report->record(none.at(0));
  none.finish();
  CHECK(none.lines().empty());
  ReplayStart start;
  start.env_steps = 50;
  Fixture resumed(start);
  resumed.report->record(resumed.at(50));
  resumed.finish();
  CHECK(resumed.lines().empty());
}

TEST_CASE("run_report: the summary has totals over all starts, and the figures of the last start") {
  ReplayStart start;
  start.version = {1, 8};
  start.env_steps = 100;
  start.totals.elapsed_seconds = 40;
  start.totals.starts = 1;
  Fixture f(start);
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
  CHECK(summary["env_steps_per_second"] == 5);
  CHECK(summary["last_start"] == json::parse(R"({"wall_seconds": 10.0, "env_steps": 60, "updates": 2})"));
}

TEST_CASE("run_report: a deterministic checkpoint includes the line that is not written yet") {
  Fixture f;
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

TEST_CASE("run_report: if the summary cannot be written, that is reported, and the closing lines are printed") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  Fixture f({}, nullptr, console);
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
    Fixture f(start, nullptr, console);
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
    Fixture f;
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
    CHECK(summary["env_steps_per_second"] == doctest::Approx(deterministic ? 300 / wall : 100));
  }
}

TEST_CASE("run_report: an early end of the warm-up says why, and with a verifier what is right") {
  const auto line = [](uint64_t step, const std::string& verifier) {
    const test::TempFolder folder;
    const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    Output console(file);
    Fixture f({}, nullptr, console);
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
  const auto line = [](uint64_t failed_calls, uint64_t failed_answers) {
    const test::TempFolder folder;
    const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
    Output console(file);
    Fixture f({}, nullptr, console);
    StatsSnapshot s = f.at(100, 2);
    s.verifier = VerifierFigures{.calls = 16'214, .failed_calls = failed_calls};
    s.ledger.verifier_failed = failed_answers;
    f.report->show(s);
    f.finish();
    close(file);
    std::ifstream out(folder / "out");
    for (std::string text; std::getline(out, text);)
      if (text.starts_with("verifier: ")) return text;
    return std::string();
  };
  CHECK(line(0, 0) == "");
  CHECK(line(0, 30'476) ==
        "verifier: it failed on 30,476 answers, without a score; 0 of 16,214 calls failed as a whole");
  CHECK(line(2, 0) == "verifier: 2 of 16,214 calls failed, and were repeated");
}

TEST_CASE("run_report: evaluations during a run are printed, and logged") {
  const test::TempFolder folder;
  const int file = open((folder / "out").c_str(), O_WRONLY | O_CREAT, 0600);
  Output console(file);
  Fixture f({}, nullptr, console);
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
  Fixture f({}, nullptr, console);
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
