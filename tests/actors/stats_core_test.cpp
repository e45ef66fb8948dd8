#include "actors/stats_core.h"

#include <cmath>
#include <functional>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Clock = StatsCore::Clock;

const Clock::time_point kStart{};

Episodes episodes(std::initializer_list<float> returns) {
  const auto count = static_cast<int64_t>(returns.size());
  return {Array::of<float>({count}, returns), Array(DType::i32, {count}), Array(DType::u8, {count})};
}

// The report of replay after rollouts with `steps` samples in total.
ReplayReport after(uint64_t steps) {
  ReplayReport report;
  report.ledger.produced = report.ledger.waiting = report.env_steps = steps;
  report.workers = report.workers_total = 1;
  return report;
}

UpdateMessage update_with(uint64_t number, std::map<std::string, double> metrics) {
  UpdateMessage update;
  update.version = {0, number};
  update.report = std::make_shared<const UpdateReport>(UpdateReport{1, 0, 1, std::move(metrics)});
  return update;
}

RunConfig config_of(int64_t super_batch) {
  RunConfig config;
  config.trainer.super_batch = super_batch;
  return config;
}

// The number of points of a run with rollouts of `rollout` samples and `total` samples.
int points_of(const RunConfig& config, uint64_t rollout, uint64_t total) {
  CurvePoints points(config, 0);
  int count = 0;
  for (uint64_t produced = rollout; produced <= total; produced += rollout) count += points.take_due(produced);
  return count;
}

}  // namespace

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

TEST_CASE("curve_points: a short run has a point per update, a long one fewer than 700 points") {
  const RunConfig config = config_of(1000);
  for (const uint64_t updates : {1, 2, 7, 50, 64})
    for (const uint64_t rollout : {1, 10, 333, 999, 1000}) {
      const uint64_t total = (updates * 1000 + rollout - 1) / rollout * rollout;
      CHECK(points_of(config, rollout, total) == static_cast<int>(updates));
    }
  CHECK(points_of(config, 1000, 244'000) > 120);
  CHECK(points_of(config, 1000, 100'000'000) < 700);
  CHECK(points_of(config, 5000, 50'000) == 10);  // at most one per rollout
}

TEST_CASE("curve_points: with reuse an update needs fewer new samples, so points come after fewer samples") {
  RunConfig config = config_of(1000);
  config.replay.mode = "reuse";
  config.replay.max_reuse = 4;
  CHECK(points_of(config, 250, 12'500) == 50);  // 50 updates of 250 new samples each
}

TEST_CASE("curve_points: a resumed run continues from its last point") {
  CurvePoints points(config_of(1000), 5500);
  CHECK_FALSE(points.take_due(5900));
  CHECK(points.take_due(6000));
  CHECK_FALSE(points.take_due(6000));
}

TEST_CASE("learner_figures: a report has means, last values, sums, minima or maxima since the last one") {
  LearnerFigures figures;
  figures.add({{"kl", 0.1},
               {"policy_lr", 3e-4},
               {"skipped_steps", 1},
               {"rollout_weight_max", 5},
               {"ratio_min", 0.5},
               {"ess", NAN}});
  figures.add({{"kl", 0.3},
               {"policy_lr", 1e-4},
               {"skipped_steps", 2},
               {"rollout_weight_max", 2},
               {"ratio_min", 0.7},
               {"ess", NAN}});
  const auto taken = figures.take();
  CHECK(taken.at("kl") == doctest::Approx(0.2));
  CHECK(taken.at("policy_lr") == 1e-4);
  CHECK(taken.at("skipped_steps") == 3);
  CHECK(taken.at("rollout_weight_max") == 5);
  CHECK(taken.at("ratio_min") == 0.5);
  CHECK(std::isnan(taken.at("ess")));
  CHECK(figures.take().at("kl") == taken.at("kl"));  // there was no update in between
  figures.add({{"kl", 0.0}, {"ess", INFINITY}});
  figures.add({{"kl", 0.5}, {"ess", 0.9}});
  CHECK(figures.take() == std::map<std::string, double>{{"kl", 0.25}, {"ess", 0.9}});
}

TEST_CASE("episode_window: it holds the newest episodes, also after saving and loading") {
  EpisodeWindow window(3), copy(3), shorter(2);
  CHECK(std::isnan(window.summary().return_mean));
  window.add(episodes({1, 2}));
  Episodes with_parts = episodes({3, 6});
  with_parts.parts = {{"form", Array::of<float>({2}, {1, 4})}, {"length", Array::of<float>({2}, {NAN, 8})}};
  window.add(with_parts);
  CHECK(window.summary().return_mean == (2.0 + 3.0 + 6.0) / 3);
  CHECK(window.part_means() == std::map<std::string, double>{{"form", 2.5}, {"length", 8}});
  copy.load(window.save());
  CHECK(copy.part_means() == window.part_means());
  CHECK(copy.summary().return_mean == window.summary().return_mean);
  window.add(with_parts);
  shorter.load(window.save());
  CHECK(shorter.summary().return_mean == 4.5);
  CHECK(shorter.part_means() == std::map<std::string, double>{{"form", 2.5}, {"length", 8}});
  CHECK_THROWS_WITH(copy.load("x"), doctest::Contains("stats.window"));
}

TEST_CASE("stats: workers that were launched and that replay does not know start their environments") {
  StatsCore core(config_of(100), false, kStart);
  const auto starting = [&] { return core.take_view(kStart).workers_starting; };
  CHECK(starting() == 0);
  core.add(LaunchedWorkers{2});
  CHECK(starting() == 2);
  core.add(after(100), kStart);  // one is up
  CHECK(starting() == 1);
  core.add(LaunchedWorkers{0});
  CHECK(starting() == 0);
  core.add(LaunchedWorkers{3});
  ReplayReport last = after(200);
  last.training_ended = true;
  core.add(last, kStart);
  CHECK(starting() == 0);
}

TEST_CASE("stats: steps, ledger, returns, workers and updates of a report are consistent") {
  StatsCore core(config_of(100), false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes({5, 7})};
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

TEST_CASE("stats: the last error is the newest error of any worker") {
  StatsCore core(config_of(100), false, kStart);
  const auto report = [&](uint64_t worker, uint64_t failures, const std::string& error) {
    WorkerReport message;
    message.worker = worker;
    message.env_failures = failures;
    message.last_error = error;
    core.add(message, kStart);
  };
  report(9, 1, "of nine");
  report(1, 1, "of one");
  report(9, 1, "of nine");  // no new failure
  CHECK(core.take_view(kStart).last_error == "of one");
  report(9, 2, "of nine");
  CHECK(core.take_view(kStart).last_error == "of nine");
  CHECK(core.take_view(kStart).env_failures == std::map<std::string, uint64_t>{{config_of(1).env.id, 3}});
}

TEST_CASE("stats: failures of a token run have the name of its task") {
  RunConfig config = config_of(100);
  config.model.kind = "decoder";
  config.task.name = "sort";
  StatsCore core(config, false, kStart);
  WorkerReport report;
  report.env_failures = 2;
  core.add(report, kStart);
  CHECK(core.take_view(kStart).env_failures == std::map<std::string, uint64_t>{{"sort", 2}});
}

TEST_CASE("stats: memory of joined workers and of their children is the sum of the newest reports") {
  StatsCore core(config_of(100), false, kStart);
  const auto report = [&](uint64_t worker, uint64_t bytes, std::chrono::seconds after_start) {
    WorkerReport message;
    message.worker = worker;
    message.rss_bytes = bytes;
    message.environment_bytes = 10 * bytes;
    message.verifier_bytes = 100 * bytes;
    core.add(message, kStart + after_start);
  };
  report(1, 1, std::chrono::seconds(0));
  report(1, 2, std::chrono::seconds(1));
  report(2, 3, std::chrono::seconds(1));
  StatsSnapshot view = core.take_view(kStart + std::chrono::seconds(1));
  CHECK(view.worker_bytes == 5);
  CHECK(view.environment_bytes == 50);
  CHECK(view.verifier_bytes == 500);
  report(2, 3, std::chrono::seconds(60));
  CHECK(core.take_view(kStart + std::chrono::seconds(60)).worker_bytes == 3);  // worker 1 is silent
}

TEST_CASE("stats: figures of verifiers are the sums of all workers, also of those that are gone") {
  RunConfig config = config_of(100);
  StatsCore without(config, false, kStart);
  config.task.verifier = "py:module:function";
  StatsCore core(config, false, kStart);
  auto now = kStart;
  WorkerReport report;
  const uint64_t kWorkers = WorkerTable::kMost + 2 * WorkerTable::kApart;
  for (report.worker = 0; report.worker < kWorkers; ++report.worker, now += std::chrono::seconds(1))
    for (const uint64_t calls : {1, 2}) {
      report.verifier = {calls, 0, 0, 4 * calls, 1'000'000 * calls, 500'000 * calls};
      core.add(report, now);
    }
  without.add(report, now);
  CHECK_FALSE(without.take_view(now).verifier.has_value());
  const std::optional<VerifierFigures> sum = core.take_view(now).verifier;
  REQUIRE(sum.has_value());
  CHECK(sum->calls == 2 * kWorkers);
  CHECK(sum->scored == 8 * kWorkers);
  CHECK(sum->busy_us == 2'000'000 * kWorkers);
  CHECK(sum->wait_us == 1'000'000 * kWorkers);
  report.verifier.busy_us = uint64_t{1} << 54;
  CHECK(core.add(report, now) == "a figure of its verifier of 18014398509481984");
}

TEST_CASE("stats: a worker report with impossible counts is dropped, and sums stay at most 2^53") {
  StatsCore core(config_of(100), false, kStart);
  const auto dropped = [&](const std::function<void(WorkerReport&)>& change) {
    WorkerReport report;
    report.worker = 7;
    report.env_failures = report.retries = 3;
    change(report);
    return core.add(report, kStart).has_value();
  };
  CHECK_FALSE(dropped([](WorkerReport&) {}));
  for (const uint64_t count : {uint64_t{1} << 54, ~uint64_t{0}}) {
    CHECK(dropped([&](WorkerReport& r) { r.env_failures = count; }));
    CHECK(dropped([&](WorkerReport& r) { r.retries = count; }));
    CHECK(dropped([&](WorkerReport& r) { r.quarantined = count; }));
  }
  CHECK(core.totals(kStart).env_failures == 3);
  for (uint64_t worker = 0; worker < 9'000; ++worker) {
    WorkerReport report;
    report.worker = worker;
    report.env_failures = report.retries = uint64_t{1} << 40;
    CHECK_FALSE(core.add(report, kStart));
  }
  CHECK(core.totals(kStart).env_failures == uint64_t{1} << 53);
  CHECK(core.totals(kStart).request_retries == uint64_t{1} << 53);
}

TEST_CASE("stats: an error is kept as printable text of bounded length") {
  StatsCore core(config_of(100), false, kStart);
  WorkerReport report;
  report.env_failures = 1;
  report.last_error = "\x1b[31m" + std::string(1'000'000, 'x');
  core.add(report, kStart);
  const std::string error = core.take_view(kStart).last_error;
  CHECK(error.size() < 400);
  CHECK(error.starts_with("\\x1b[31mxxx"));
}

TEST_CASE("stats: the counts of workers that are gone are kept in bounded memory") {
  StatsCore core(config_of(100), false, kStart);
  WorkerReport report;
  report.env_failures = 2;
  report.retries = 3;
  auto now = kStart;
  const uint64_t kWorkers = 5 * WorkerTable::kApart;
  for (report.worker = 0; report.worker < kWorkers; ++report.worker, now += std::chrono::seconds(1))
    core.add(report, now);
  CHECK(core.totals(now).env_failures == 2 * kWorkers);
  CHECK(core.totals(now).request_retries == 3 * kWorkers);
  CHECK(core.save(now).size() < 2 * WorkerTable::kApart * 100);
  // A worker reports again after a long silence.
  --report.worker;
  report.env_failures = 5;
  core.add(report, now + std::chrono::hours(1));
  CHECK(core.totals(now).env_failures == 2 * kWorkers + 3);
  // Too many workers report at a time.
  size_t refused = 0;
  for (report.worker = kWorkers; report.worker < kWorkers + 2 * WorkerTable::kMost; ++report.worker)
    refused += core.add(report, now + std::chrono::hours(1)).has_value();
  CHECK(refused >= WorkerTable::kMost);
}

TEST_CASE("stats: a worker that reports again after a long silence and many other workers counts once") {
  StatsCore core(config_of(100), false, kStart);
  WorkerReport report;
  report.env_failures = 2;
  report.retries = 3;
  auto now = kStart;
  for (report.worker = 0; report.worker < 3 * WorkerTable::kApart; ++report.worker, now += std::chrono::seconds(1))
    core.add(report, now);
  const uint64_t failures = core.totals(now).env_failures;
  for (report.worker = 0; report.worker < 10; ++report.worker) {  // of these only the counts were kept
    report.env_failures = 5;
    CHECK_FALSE(core.add(report, now));
  }
  CHECK(core.totals(now).env_failures == failures + 10 * 3);
  CHECK(core.totals(now).request_retries == 3 * 3 * WorkerTable::kApart);
}

TEST_CASE("stats: with very many silent workers some counts are closed, and no worker counts twice") {
  StatsCore core(config_of(100), false, kStart);
  WorkerReport report;
  report.env_failures = 1;
  auto now = kStart;
  const uint64_t kWorkers = WorkerTable::kMost + 2 * WorkerTable::kApart;
  for (report.worker = 0; report.worker < kWorkers; ++report.worker, now += std::chrono::seconds(1))
    core.add(report, now);
  report.worker = 0;
  CHECK_FALSE(core.add(report, now));  // worker 0 reports again
  CHECK(core.totals(now).env_failures == kWorkers);
  report.env_failures = 4;
  CHECK_FALSE(core.add(report, now));
  CHECK(core.totals(now).env_failures == kWorkers + 3);
  // Worker 0 becomes silent and reports again.
  for (report.worker = kWorkers, report.env_failures = 0; report.worker < kWorkers + 100; ++report.worker)
    core.add(report, now += std::chrono::seconds(1));
  report.worker = 0;
  report.env_failures = 5;
  CHECK_FALSE(core.add(report, now));
  CHECK(core.totals(now).env_failures == kWorkers + 4);
}

TEST_CASE("stats: a worker that had no counts yet counts fully after the counts of higher numbers were closed") {
  StatsCore core(config_of(100), false, kStart);
  WorkerReport report, quiet;
  report.env_failures = 1;
  auto now = kStart;
  const uint64_t kWorkers = WorkerTable::kMost + 2 * WorkerTable::kApart;
  for (report.worker = 1; report.worker < kWorkers; ++report.worker, now += std::chrono::seconds(1)) {
    core.add(report, now);
    if (report.worker < kWorkers - 1200) CHECK_FALSE(core.add(quiet, now));
  }
  CHECK_FALSE(core.add(quiet, now));
  quiet.env_failures = 2;
  CHECK_FALSE(core.add(quiet, now));
  CHECK(core.totals(now).env_failures == kWorkers - 1 + 2);
}

TEST_CASE("stats: the batches and rows of receivers that are gone are kept, in a limited number of entries") {
  StatsCore core(config_of(100), false, kStart);
  InferenceReport report;
  report.rows = 7;
  report.full = 2;
  const auto join = [&](InferenceIndex inference_index) {
    report.inference_index = inference_index;
    core.add(report);
    core.add(Applied{inference_index, {0, 0}});
  };
  for (InferenceIndex inference_index = 0; inference_index < 5000; ++inference_index) {
    join(inference_index);
    core.add(ReceiverGone{inference_index});
  }
  join(5000);
  join(0);  // gone long ago: a late report is ignored
  const StatsSnapshot view = core.take_view(kStart);
  CHECK(view.inference_up == 1);
  CHECK(view.batches_full == 2 * 5001);
  CHECK(view.rows_served.size() == ReceiverTable::kGone + 2);
  CHECK(view.rows_served.at(ReceiverTable::kEarlier) == 7 * (5000 - ReceiverTable::kGone));
  for (InferenceIndex inference_index = 6000; inference_index < 9000; ++inference_index)
    join(inference_index);  // these receivers stay
  CHECK(core.take_view(kStart).rows_served.size() <= ReceiverTable::kMost + 1);
}

TEST_CASE("stats: what new weights cost is summed over inference actors, without its time in a deterministic run") {
  for (const bool deterministic : {false, true}) {
    RunConfig config = config_of(100);
    config.deterministic = deterministic;
    StatsCore core(config, false, kStart);
    for (const InferenceIndex inference_index : {0, 1}) {
      InferenceReport report;
      report.inference_index = inference_index;
      report.mixed_answers = 3;
      report.recomputed = 40;
      report.waited_steps = 5;
      report.weights_wait_us = 250'000;
      report.histories = 60;
      report.reused = 50;
      core.add(report);
      core.add(report);  // counts are cumulative
    }
    const StatsSnapshot view = core.take_view(kStart);
    CHECK(view.mixed_answers == 6);
    CHECK(view.recomputed_tokens == 80);
    CHECK(view.weights_waited_steps == 10);
    CHECK(view.history_tokens == 120);
    CHECK(view.reused_tokens == 100);
    CHECK((view.weights_waited_seconds == 0.5) == !deterministic);
  }
}

TEST_CASE("stats: inference_up counts the inference actors that have weights and are not gone") {
  StatsCore core(config_of(100), false, kStart);
  const auto up = [&] { return core.take_view(kStart).inference_up; };
  CHECK(up() == 0);
  CHECK(core.take_view(kStart).inference_own == 1);
  core.add(InferenceReport{});  // it has no weights yet
  CHECK(up() == 0);
  core.add(Applied{0, {0, 0}});
  core.add(Applied{1, {0, 0}});
  CHECK(up() == 2);
  core.add(ReceiverGone{0});
  CHECK(up() == 1);
}

TEST_CASE("stats: totals and the window of episodes continue after a resume") {
  StatsCore first(config_of(100), false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes({5, 7})};
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
      report.episodes = {episodes({each, each + 0.1f, each, each - 0.1f})};
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

TEST_CASE("stats: a window or alarms of another version of the program begin anew, and the run goes on") {
  const RunConfig config = config_of(100);
  StatsCore first(config, false, kStart);
  ReplayReport report = after(100);
  report.episodes = {episodes({7})};
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
  core.add(Applied{3, {0, 0}});
  core.end(kStart);
  for (uint64_t number = 1; number < 5; ++number) {
    core.add(update_with(number, {}), kStart);
    core.take_view(kStart);
    CHECK(core.take_alarm_lines().empty());
  }
  CHECK(core.take_view(kStart).training_ended);
}

TEST_CASE("stats: the state of a deterministic run is the same after saving and loading") {
  RunConfig config = config_of(100);
  config.deterministic = true;
  StatsCore core(config, false, kStart), copy(config, false, kStart);
  ReplayReport report = after(250);
  report.episodes = {episodes({5, 7})};
  report.lags = {{{1, 100}}};
  report.update = update_with(1, {{"kl", 0.5}});
  core.add(report, kStart);
  CHECK(core.take_point_due());
  copy.load(core.save(kStart), kStart);
  CHECK(copy.save(kStart) == core.save(kStart));
  CHECK(to_json(copy.take_point(kStart)) == to_json(core.take_point(kStart)));
  CHECK_FALSE(copy.take_point_due());
}
