#include "actors/stats_core.h"

#include <cmath>

#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "tests/actors/stats_reports.h"
#include "tests/runtime/base/computing.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("stats_core: a failed evaluation does not replace the last successful one, and has no point") {
  StatsCore stats(config_of(16), false, kStart);
  CHECK(stats.add(Evaluation{.version = {0, 1}, .error = "the environment failed"}, kStart).empty());
  CHECK(!stats.take_view(kStart).evaluation);
  CHECK(!stats.add(Evaluation{.version = {0, 3}, .episodes = 10, .return_mean = 21}, kStart).empty());
  stats.add(Evaluation{.version = {0, 5}, .episodes = 1, .return_mean = -4, .error = "the environment failed"}, kStart);
  const StatsSnapshot s = stats.take_view(kStart);
  REQUIRE(s.evaluation);
  CHECK(s.evaluation->updates == 3);
  CHECK(s.evaluation->episodes == 10);
  CHECK(s.evaluation->return_mean == 21);
  stats.add(Evaluation{.version = {0, 7}, .episodes = 10, .return_mean = 22}, kStart);
  CHECK(stats.take_view(kStart).evaluation->updates == 7);
}

TEST_CASE("stats_core: failed evaluations are counted over all starts, and the newest one of this start is reported") {
  RunConfig config = config_of(100);
  for (const bool deterministic : {false, true}) {
    config.deterministic = deterministic;
    StatsCore first(config, false, kStart);
    CHECK(first.take_view(kStart).failed_evaluations.count == 0);
    first.add(Evaluation{.version = {0, 2}, .error = "no row"}, kStart);
    first.add(Evaluation{.version = {0, 4}, .episodes = 3, .failed_episodes = 1, .error = "no time"}, kStart);
    first.add(Evaluation{.version = {0, 6}, .episodes = 10, .return_mean = 1}, kStart);
    const FailedEvaluations failed = first.take_point(kStart).failed_evaluations;
    CHECK(to_json(failed) == to_json(FailedEvaluations{
                                 .count = 2, .updates = 4, .episodes = 3, .failed_episodes = 1, .error = "no time"}));
    ReplayStart start;
    start.totals = first.totals(kStart);
    StatsCore second(config, false, kStart, start);
    if (deterministic) second.load(first.save(kStart), kStart);
    // A run that was resumed does not tell again of what it told before; a deterministic one repeats its figures.
    const FailedEvaluations before = second.take_view(kStart).failed_evaluations;
    CHECK(before.count == 2);
    CHECK(before.error == (deterministic ? "no time" : ""));
    CHECK(to_json(second.totals(kStart).failed_evaluations) == to_json(failed));
    second.add(Evaluation{.version = {0, 8}, .error = "again"}, kStart);
    CHECK(second.take_view(kStart).failed_evaluations.count == 3);
    CHECK(second.totals(kStart).failed_evaluations.updates == 8);
  }
}

TEST_CASE("stats_core: an evaluation is one point, at the update that was evaluated, also after saving and loading") {
  RunConfig config = config_of(100);
  config.evaluation.every_updates = 2;
  config.deterministic = true;
  StatsCore first(config, false, kStart), second(config, false, kStart);
  const auto make = [](StatsCore& core, uint64_t number) {
    ReplayReport report = after(100 * number);
    report.update = update_with(number, {{"kl", 0.1 * static_cast<double>(number)}});
    core.add(report, kStart);
  };
  for (uint64_t number = 1; number <= 5; ++number) make(first, number);
  CHECK(!first.take_point(kStart).evaluation);
  second.load(first.save(kStart), kStart);
  for (StatsCore* core : {&first, &second}) {
    for (const uint64_t updates : {2, 4}) {
      const Evaluation evaluation{.version = {0, updates},
                                  .episodes = 10,
                                  .failed_episodes = 3,
                                  .return_mean = 20.0 + static_cast<double>(updates)};
      const auto scalars = scalars_of(core->add(evaluation, kStart));
      CHECK(scalars.at("updates") == updates);
      CHECK(scalars.at("eval/updates") == updates);
      CHECK(scalars.at("env_steps") == 100 * updates);
      CHECK(scalars.at("eval/env_steps") == 100 * updates);
      CHECK(scalars.at("eval/failed_episodes") == 3);
      CHECK(scalars.at("eval/return_mean") == 20 + updates);
      CHECK(scalars.at("learner/kl") == doctest::Approx(0.1 * static_cast<double>(updates)));
    }
    make(*core, 6);
    CHECK(!core->take_point(kStart).evaluation);
    core->end(kStart);
    core->add(Evaluation{.version = {0, 6}, .episodes = 10, .return_mean = 30, .last = true}, kStart);
    REQUIRE(core->take_point(kStart).evaluation);
    CHECK(core->take_point(kStart).evaluation->updates == 6);
  }
}

TEST_CASE("stats: steps, ledger, returns, workers and updates of a report are consistent") {
  StatsCore core(config_of(100), false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes_with({5, 7})};
  report.update = update_with(1, {{"kl", 0.5}});
  core.add(report, kStart);
  REQUIRE(core.take_point_due());
  const StatsSnapshot point = core.take_point(kStart);
  CHECK(point.env_steps == 100);
  CHECK(point.ledger.produced == 100);
  CHECK(point.return_mean == 6);
  CHECK(point.updates == 1);
  CHECK(point.workers_up == 1);
  CHECK(point.workers_total == 1);
  CHECK(point.learner.at("kl") == 0.5);
  CHECK_FALSE(core.has_new_steps());
  CHECK_FALSE(core.take_point_due());
}

TEST_CASE("stats: the ranks that are up are those that the trainer counts; a deterministic run has none") {
  RunConfig config = config_of(100);
  config.trainer.ranks = 4;
  StatsCore core(config, false, kStart);
  CHECK(core.take_view(kStart).ranks_up == 1);
  CHECK(core.take_view(kStart).ranks_total == 4);
  CHECK(core.take_view(kStart).waits_for_ranks);
  core.add(RanksMessage{3});
  CHECK(core.take_view(kStart).ranks_up == 3);
  CHECK(core.take_view(kStart).waits_for_ranks);
  core.add(RanksMessage{2, true});
  CHECK(core.take_view(kStart).ranks_up == 2);
  CHECK_FALSE(core.take_view(kStart).waits_for_ranks);
  CHECK(core.take_view(kStart).ranks_here == 1);
  config.deterministic = true;
  const StatsSnapshot deterministic = StatsCore(config, false, kStart).take_view(kStart);
  CHECK(deterministic.ranks_up == 0);
  CHECK_FALSE(deterministic.waits_for_ranks);
  const StatsSnapshot alone = StatsCore(config_of(100), false, kStart).take_view(kStart);
  CHECK(alone.ranks_up == 1);
  CHECK(alone.ranks_total == 1);
  CHECK_FALSE(alone.waits_for_ranks);
}

TEST_CASE("stats: ranks of this machine are told apart from those of others, with the processors that they may use") {
  const Computing rank(/*orphan=*/false);
  RunConfig config = config_of(100);
  config.trainer.ranks = 4;
  config.trainer.threads = 3;
  const auto told = [&] {
    StatsCore core(config, false, kStart);
    core.add(RanksMessage{4, true, {rank.id(), /*of another machine*/ INT32_MAX}});
    return core.take_view(kStart);
  };
  CHECK(told().ranks_here == 2);
  CHECK(told().rank_threads == 3);
  CHECK(told().rank_processors == processors());
  config.trainer.device = "cuda:0";
  CHECK(told().rank_processors == 0);
}

TEST_CASE("stats: points and views compute their means separately") {
  StatsCore core(config_of(100), false, kStart);
  core.add(update_with(1, {{"kl", 1}}), kStart);
  CHECK(core.take_point(kStart).learner.at("kl") == 1);
  core.add(update_with(2, {{"kl", 2}}), kStart);
  CHECK(core.take_point(kStart).learner.at("kl") == 2);
  CHECK(core.take_view(kStart).learner.at("kl") == 1.5);
}

TEST_CASE("stats: lag percentiles are over the newest super-batches only") {
  StatsCore core(config_of(100), false, kStart);
  const auto batches = [&](size_t count, uint64_t lag) {
    ReplayReport report = after(100);
    report.lags.assign(count, LagCounts{{lag, 100}});
    core.add(report, kStart);
  };
  batches(10'000, 0);
  batches(StatsCore::kLagBatches / 2 + 1, 7);
  StatsSnapshot view = core.take_view(kStart);
  CHECK(view.lag_p50 == 7);
  CHECK(view.lag_max == 7);
  batches(StatsCore::kLagBatches, 1);
  view = core.take_view(kStart);
  CHECK(view.lag_max == 1);
}

TEST_CASE("stats: a token run has an alarm about values only with a critic") {
  for (const char* critic : {"none", "shared", "separate"}) {
    RunConfig config = config_of(100);
    config.model.kind = "decoder";
    config.model.critic = critic;
    StatsCore core(config, false, kStart);
    for (uint64_t number = 1; number < 260; ++number) {
      ReplayReport report = after(1500 * number);
      report.update = update_with(number, {{"explained_variance", -1}, {"return_mean", 0.5}, {"return_std", 0.5}});
      core.add(report, kStart);
    }
    const std::map<std::string, Alarm> alarms = core.take_view(kStart).alarms;
    CHECK(alarms.contains("value_useless") == (config.model.critic != "none"));
    if (alarms.contains("value_useless"))
      CHECK(alarms.at("value_useless").text.ends_with("(trainer.value_only_updates)"));
  }
}

TEST_CASE("stats: where the environment reports no success, nothing counts as solved") {
  for (const bool reports_success : {false, true}) {
    RunConfig config = config_of(100);
    config.stats.window = 2;
    StatsCore core(config, reports_success, kStart);
    for (uint64_t number = 1; number <= 20; ++number) {
      ReplayReport report = after(100 * number);
      report.episodes = {episodes_with({1, 1})};
      report.episodes.front().success = Array::of<uint8_t>({2}, {1, 1});
      report.update = update_with(number, {{"advantage_std", 0.0}});
      core.add(report, kStart);
    }
    CHECK(core.take_view(kStart).alarms.contains("no_signal") == !reports_success);
  }
}

TEST_CASE("stats: with stop.seconds progress and remaining time count from the start of training") {
  RunConfig config = config_of(100);
  config.stop.env_steps = 0;
  config.stop.seconds = 2;
  StatsCore core(config, false, kStart);
  core.begin_training(kStart + std::chrono::seconds(5));
  CHECK(core.take_view(kStart + std::chrono::seconds(5)).progress == 0);
  const StatsSnapshot view = core.take_view(kStart + std::chrono::milliseconds(5500));
  CHECK(view.progress == 0.25);
  CHECK(view.eta_seconds == 1.5);
  CHECK(view.elapsed_seconds == 5.5);
  CHECK(core.take_view(kStart + std::chrono::seconds(7)).progress == 1);
}

TEST_CASE("stats: nobody knows how long a run takes whose ranks have not come") {
  RunConfig config = config_of(100);
  config.trainer.shards = config.trainer.ranks = 2;
  StatsCore core(config, false, kStart);
  core.begin_training(kStart);
  core.add(after(50), kStart + std::chrono::seconds(1));  // samples that wait for the first update
  CHECK_FALSE(std::isfinite(core.take_view(kStart + std::chrono::seconds(100)).eta_seconds));
  core.add(RanksMessage{2, true});
  CHECK(std::isfinite(core.take_view(kStart + std::chrono::seconds(101)).eta_seconds));
}

TEST_CASE("stats: times and rates are those of the training, however long the last evaluation takes") {
  using std::chrono::seconds;
  StatsCore core(config_of(100), false, kStart);
  for (uint64_t second = 0; second <= 3; ++second) {
    core.add(after(1000 * second), kStart + seconds(second));
    core.take_view(kStart + seconds(second));
  }
  CHECK(core.take_view(kStart + seconds(3)).eta_seconds > 0);
  ReplayReport last = after(3000);
  last.training_ended = true;
  core.add(last, kStart + seconds(3));
  for (const int64_t later : {3, 4, 60, 3600}) {
    core.add(Evaluation{.version = {0, 1}, .episodes = 10, .return_mean = 21}, kStart + seconds(later));
    for (const StatsSnapshot& s : {core.take_view(kStart + seconds(later)), core.take_point(kStart + seconds(later))}) {
      CHECK(s.elapsed_seconds == 3);
      CHECK(s.env_steps_per_second == 1000);
      CHECK_FALSE(std::isfinite(s.eta_seconds));  // nothing is left to train, however far from its limit the run is
    }
    CHECK(core.totals(kStart + seconds(later)).elapsed_seconds == 3);
  }
}

TEST_CASE("stats: the verdict counts what happened in the last minute, and nothing of the starts before") {
  using std::chrono::seconds;
  ReplayStart start;
  start.ledger.produced = 1000;
  start.ledger.dropped_stale = 900;
  start.totals.env_failures = 50;
  StatsCore core(config_of(100), false, kStart, start);
  const auto report = [&](int64_t second, uint64_t produced, uint64_t dropped,
                          std::optional<UpdateMessage> update = {}) {
    ReplayReport message = after(produced);
    message.ledger.dropped_stale = dropped;
    message.update = std::move(update);
    core.add(message, kStart + seconds(second));
    return core.take_view(kStart + seconds(second)).recent;
  };
  const RecentFigures fresh = report(1, 1500, 900);
  CHECK(fresh.produced == 500);
  CHECK(fresh.dropped_stale == 0);
  CHECK(fresh.env_failures == 0);
  CHECK(std::isnan(fresh.trainer_wait));
  UpdateMessage slow = update_with(1, {}), fast = update_with(2, {});
  slow.wait_seconds = 30;
  slow.update_seconds = 5;
  fast.wait_seconds = 1;
  fast.evaluation_wait_seconds = 0.5;
  fast.update_seconds = 3;
  CHECK(report(40, 2000, 1000, slow).dropped_stale == 100);
  const RecentFigures later = report(60, 2000, 1000, fast);
  CHECK(later.trainer_wait == 0.25);  // the slow update is older than the time of three
  CHECK(later.evaluation_wait == 0.125);
  CHECK(later.longest_update == 5);
  CHECK(later.since_update == 0);
  const RecentFigures after_a_minute = report(110, 4000, 1000);
  CHECK(after_a_minute.produced == 2000);
  CHECK(after_a_minute.dropped_stale == 0);
  CHECK(after_a_minute.since_update == 50);
}

TEST_CASE("stats: the trainer is busy in a warm-up, and the shares begin anew after it") {
  RunConfig config = config_of(100);
  config.model.kind = kDecoderKind;
  StatsCore stats(config, false, kStart);
  const auto at = [](int seconds) { return kStart + std::chrono::seconds(seconds); };
  stats.add(WarmupState{.of = 100, .seconds = 50});  // of an earlier start
  CHECK(std::isnan(stats.take_view(at(0)).busy.trainer));
  for (int i = 1; i <= 6; ++i) {
    stats.add(WarmupState{.step = static_cast<uint64_t>(i), .of = 100, .seconds = 50.0 + i});
    CHECK(stats.take_view(at(i)).busy.trainer == doctest::Approx(1));
  }
  stats.begin_training(at(6));
  stats.end_warmup();
  UpdateMessage update = update_with(1, {});
  update.update_seconds = 1;
  stats.add(update, at(8));
  CHECK(std::isnan(stats.take_view(at(8)).busy.trainer));
  update.version.number = 2;
  stats.add(update, at(10));
  CHECK(stats.take_view(at(10)).busy.trainer == doctest::Approx(1.0 / 2));
}

TEST_CASE("stats: after the end of training there is no alarm") {
  StatsCore core(config_of(100), false, kStart);
  core.add(Applied{3, {0, 0}}, kStart);
  core.end(kStart);
  for (uint64_t number = 1; number < 5; ++number) {
    core.add(update_with(number, {}), kStart);
    core.take_view(kStart);
    CHECK(core.take_alarm_lines().empty());
  }
  CHECK(core.take_view(kStart).training_ended);
}
