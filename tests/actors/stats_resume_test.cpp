#include "actors/stats_core.h"

#include <cmath>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("stats: totals and the window of episodes continue after a resume") {
  StatsCore first(config_of(100), false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes_with({5, 7})};
  first.add(report, kStart);
  WorkerReport worker;
  worker.env_failures = 2;
  worker.retries = 3;
  first.add(worker, kStart);
  ReplayStart start;
  start.env_steps = 100;
  start.totals = first.totals(kStart + std::chrono::seconds(10));
  CHECK(start.totals.starts == 1);
  StatsCore second(config_of(100), false, kStart, start);
  CHECK_FALSE(second.has_new_steps());
  second.add(worker, kStart);
  const StatsSnapshot view = second.take_view(kStart + std::chrono::seconds(5));
  CHECK(view.elapsed_seconds == 15);
  CHECK(view.episodes == 2);
  CHECK(view.return_mean == 6);
  CHECK(view.env_failures.begin()->second == 4);
  CHECK(view.request_retries == 6);
  CHECK(second.totals(kStart).starts == 2);
}

TEST_CASE("stats: after a resume the alarms compare with what the run had reached before") {
  RunConfig config = config_of(100);
  config.stats.window = 4;
  const auto play = [](StatsCore& core, uint64_t from, uint64_t to, double mean) {
    for (uint64_t number = from; number < to; ++number) {
      ReplayReport report = after(100 * number);
      const auto each = static_cast<float>(mean);
      report.episodes = {episodes_with({each, each + 0.1f, each, each - 0.1f})};
      report.update = update_with(number, {});
      core.add(report, kStart);
    }
  };
  StatsCore first(config, false, kStart);
  play(first, 1, 5, 10);
  play(first, 5, 20, 200);
  ReplayStart start;
  start.totals = first.totals(kStart);
  StatsCore second(config, false, kStart, start);
  play(second, 20, 40, 20);
  CHECK(second.take_view(kStart).alarms.contains("return_collapse"));
  StatsCore other(config, false, kStart);  // which has not seen the 200
  play(other, 20, 40, 20);
  CHECK(other.take_view(kStart).alarms.empty());
}

TEST_CASE("stats: a window or alarms of another version of the program begin anew, and the run goes on") {
  const RunConfig config = config_of(100);
  StatsCore first(config, false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes_with({7})};
  first.add(report, kStart);
  for (const bool window : {false, true}) {
    ReplayStart start;
    start.totals = first.totals(kStart);
    (window ? start.totals.window : start.totals.alarms) = "x";
    StatsCore second(config, false, kStart, start);
    const StatsSnapshot view = second.take_view(kStart);
    CHECK(view.episodes == 1);
    if (window)
      CHECK(std::isnan(view.return_mean));
    else
      CHECK(view.return_mean == 7);
    CHECK(view.alarms.empty());
  }
}

TEST_CASE("stats: alarms of another version of the program are left out with a warning") {
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  ReplayStart start;
  start.totals.alarms = "of another version";
  start.totals.episodes = 7;
  StatsCore core(config_of(100), false, kStart, start);
  close_log();
  CHECK(core.take_view(kStart).episodes == 7);
  CHECK(core.take_view(kStart).alarms.empty());
  const std::string log = disk.read("log");
  CHECK_MESSAGE(log.find("alarms: its saved state of 18 bytes is not of this program: the alarms compare with this ") !=
                    std::string::npos,
                log);
}

TEST_CASE("stats: with stop.seconds the progress continues after a resume") {
  RunConfig config = config_of(100);
  config.stop.env_steps = 0;
  config.stop.seconds = 20;
  ReplayStart start;
  start.totals.elapsed_seconds = 10;
  start.time_progress = 0.5;
  StatsCore second(config, false, kStart, start);
  CHECK(second.take_view(kStart).progress == 0.5);
  const StatsSnapshot view = second.take_view(kStart + std::chrono::seconds(10));
  CHECK(view.progress == 0.75);
  CHECK(view.eta_seconds == 10);
}

TEST_CASE("stats: tokens and answers per second are of one time, so that their quotient is the mean length") {
  using std::chrono::seconds;
  RunConfig config = config_of(100);
  config.model.kind = kDecoderKind;
  const auto reported = [&](uint64_t answers) {
    ReplayReport report = after(1000 + answers);
    report.tokens.produced = {.samples = answers, .tokens = 20 * answers};
    return report;
  };
  ReplayStart start;
  start.env_steps = 1000;
  start.ledger.produced = 1000;
  start.totals.answer_tokens = 7000;
  StatsCore core(config, false, kStart, start);
  core.begin_training(kStart + seconds(1));
  core.add(reported(8), kStart + seconds(4));  // the first answers come long after the start
  for (const int second : {4, 5, 9, 13, 30}) {
    const StatsSnapshot s = core.take_view(kStart + seconds(second));
    CHECK(s.answer_tokens_per_second == doctest::Approx(20 * s.env_steps_per_second));
    CHECK(s.answers.tokens == 7160);
  }
  core.add(reported(28), kStart + seconds(35));
  const StatsSnapshot s = core.take_view(kStart + seconds(35));
  CHECK(s.env_steps_per_second > 0);
  CHECK(s.answer_tokens_per_second == doctest::Approx(20 * s.env_steps_per_second));
}

TEST_CASE("stats: tokens of answers are counted over all starts") {
  RunConfig config = config_of(100);
  config.model.kind = kDecoderKind;
  StatsCore first(config, false, kStart);
  ReplayReport report = after(4);
  report.tokens.produced = {.samples = 4, .tokens = 30};
  report.tokens.trained = {.samples = 2, .tokens = 20};
  report.tokens.masked = 5;
  first.add(report, kStart);
  ReplayStart start;
  start.totals = first.totals(kStart);
  StatsCore second(config, false, kStart, start);
  second.add(report, kStart);
  const AnswerFigures answers = second.take_view(kStart).answers;
  CHECK(answers.tokens == 60);
  CHECK(answers.trained_tokens == 30);
}

TEST_CASE("stats: the state of a deterministic run is the same after saving and loading") {
  RunConfig config = config_of(100);
  config.deterministic = true;
  StatsCore core(config, false, kStart), copy(config, false, kStart);
  ReplayReport report = after(250);
  report.episodes = {episodes_with({5, 7})};
  report.lags = {{{1, 100}}};
  report.update = update_with(1, {{"kl", 0.5}});
  core.add(report, kStart);
  CHECK(core.take_point_due());
  copy.load(core.save(kStart), kStart);
  CHECK(copy.save(kStart) == core.save(kStart));
  CHECK(to_json(copy.take_point(kStart)) == to_json(core.take_point(kStart)));
  CHECK_FALSE(copy.take_point_due());
}
