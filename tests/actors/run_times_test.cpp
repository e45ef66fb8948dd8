#include "actors/run_times.h"

#include <cmath>

#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunHistograms histograms_of(RunTimes& times) {
  StatsSnapshot s;
  times.fill(s, kStart);
  return s.histograms;
}

WorkerReport with_steps(std::initializer_list<double> seconds) {
  Histogram steps;
  for (const double each : seconds) steps.add(each);
  WorkerReport report;
  report.times.step_seconds = steps.counts();
  return report;
}

InferenceReport with_batches() {
  InferenceReport report;
  report.batch_rows = Array::of<int32_t>({3}, {4, 4, 16});
  report.latency_us = Array::of<float>({3}, {1000, 2000, 500'000});
  return report;
}

}  // namespace

TEST_CASE("run_times: the times of workers add up over their reports") {
  RunTimes times;
  CHECK_FALSE(times.add(with_steps({0.25, 0.5})));
  CHECK_FALSE(times.add(with_steps({})));
  CHECK_FALSE(times.add(with_steps({2})));
  const Histogram steps = histograms_of(times).step_seconds;
  CHECK(steps.count() == 3);
  CHECK(steps.sum() == 2.75);
  CHECK(steps.count_up_to(0.5) == 2);
}

TEST_CASE("run_times: times that no worker can have measured are refused") {
  RunTimes times;
  WorkerReport report = with_steps({1});
  report.times.step_seconds.sum = std::nan("");
  CHECK(times.add(report) == "its times are impossible");
  report = with_steps({});
  report.times.answer_seconds.buckets = {{60'000, 1}};
  CHECK(times.add(report) == "its times are impossible");
  CHECK(histograms_of(times).step_seconds.count() == 0);
}

TEST_CASE("run_times: batches in rows and seconds, lags in samples, updates in seconds") {
  RunTimes times;
  times.add(with_batches());
  ReplayReport replay;
  replay.lags = {{{0, 10}, {2, 5}}, {{2, 1}}};
  times.add(replay);
  UpdateMessage update = update_with(1, {});
  update.update_seconds = 0.125;
  times.add(update, kStart);
  const RunHistograms h = histograms_of(times);
  CHECK(h.batch_rows.count() == 3);
  CHECK(h.batch_rows.sum() == 24);
  CHECK(h.inference_seconds.sum() == doctest::Approx(0.503));
  CHECK(h.lag.count() == 16);
  CHECK(h.lag.count_up_to(1) == 10);
  CHECK(h.lag.sum() == 12);
  CHECK(h.update_seconds.sum() == 0.125);
}

TEST_CASE("run_times: a deterministic run keeps lags and batch sizes when it is saved, and reports no times") {
  RunConfig config = config_of(100);
  config.deterministic = true;
  StatsCore first(config, false, kStart), second(config, false, kStart);
  first.add(with_batches());
  ReplayReport replay = after(100);
  replay.lags = {{{1, 10}}};
  first.add(replay, kStart);
  CHECK_FALSE(first.add(with_steps({1}), kStart));
  second.load(first.save(kStart), kStart);
  for (StatsCore* core : {&first, &second}) {
    const RunHistograms h = core->take_view(kStart).histograms;
    CHECK(h.lag.count() == 10);
    CHECK(h.batch_rows.sum() == 24);
    CHECK(h.inference_seconds.count() == 0);
    CHECK(h.step_seconds.count() == 0);
  }
}

TEST_CASE("run_times: the stages of an update are means over the updates of the last 10 s, and add up to its time") {
  RunTimes times;
  const auto update = [&](double forward, double seconds, Clock::time_point now) {
    UpdateMessage message = update_with(1, {});
    UpdateReport report = *message.report;
    report.stages = {
        .draw = 7, .prepare = 0.25, .forward = forward, .backward = 1, .optimizer = 0.25, .exchange = 0.25};
    message.report = std::make_shared<const UpdateReport>(report);
    message.update_seconds = seconds;
    times.add(message, now);
  };
  const auto stages_at = [&](Clock::time_point now) {
    StatsSnapshot s;
    times.fill(s, now);
    return s.stages;
  };
  CHECK_FALSE(stages_at(kStart).update);
  update(1, 4, kStart);
  update(2, 4, kStart + std::chrono::seconds(1));
  const UpdateStages both = stages_at(kStart + std::chrono::seconds(2)).update.value();
  CHECK(both.forward == 1.5);
  CHECK(both.draw == 7);
  CHECK(both.exchange == 0.25);
  CHECK(both.of_trainer() == 4);
  CHECK(stages_at(kStart + std::chrono::seconds(60)).update.value().forward == 2);  // the last one
  update(3, 1, kStart + std::chrono::seconds(61));  // of another clock: its stages take longer than it
  CHECK(stages_at(kStart + std::chrono::seconds(61)).update.value().publish == 0);
}

TEST_CASE("run_times: the transfer of weights takes from the end of their update until they are in use") {
  using std::chrono::seconds;
  RunTimes times;
  const auto transfer_at = [&](int second) {
    StatsSnapshot s;
    times.fill(s, kStart + seconds(second));
    return s.stages.transfer;
  };
  times.add(Applied{0, {0, 4}}, kStart);  // the weights that this start began with
  CHECK(std::isnan(transfer_at(0)));
  times.add(update_with(5, {}), kStart + seconds(1));
  times.add(Applied{0, {0, 5}}, kStart + seconds(2));
  times.add(Applied{1, {0, 5}}, kStart + seconds(4));
  CHECK(transfer_at(4) == 2);
  times.add(Applied{0, {0, 4}}, kStart + seconds(4));  // of before this start
  times.add(Applied{1, {0, 6}}, kStart + seconds(4));  // faster than the message about the update
  CHECK(transfer_at(4) == doctest::Approx(4.0 / 3));
  CHECK(transfer_at(60) == 0);  // the last one
}

TEST_CASE("run_times: the mean time of an environment step is that of the last 10 s") {
  RunTimes times;
  const auto mean_at = [&](int second) {
    StatsSnapshot s;
    times.fill(s, kStart + std::chrono::seconds(second));
    return s.stages.env_step;
  };
  CHECK(std::isnan(mean_at(0)));
  CHECK_FALSE(times.add(with_steps({1, 1, 1, 1})));
  CHECK(mean_at(1) == doctest::Approx(1));
  CHECK_FALSE(times.add(with_steps({0.25, 0.5})));
  CHECK(mean_at(20) == doctest::Approx(0.375));
  CHECK(std::isnan(mean_at(40)));  // none since
}

TEST_CASE("run_times: actors are busy for a share of the last 10 s, on average over those of a kind") {
  RunTimes times;
  const auto actors_at = [&](int second, uint64_t busy_us) {
    StatsSnapshot s;
    times.fill_actors(s, {{"worker", {2, busy_us, 0, 0.5}}}, kStart + std::chrono::seconds(second));
    return s.actors.value();
  };
  CHECK(actors_at(0, 0).busy.empty());  // of no time at all
  const ActorTimes times_of = actors_at(10, 5'000'000);
  CHECK(times_of.busy.at("worker") == 0.25);
  CHECK(times_of.oldest_seconds.at("worker") == 0.5);
  CHECK(actors_at(20, 90'000'000).busy.at("worker") == 1);
}

TEST_CASE("run_times: actors wait for messages for the rest of the time, and are blocked for a part of the busy one") {
  RunTimes times;
  const auto actors_at = [&](int second, uint64_t busy_us, uint64_t blocked_us) {
    StatsSnapshot s;
    times.fill_actors(s, {{"grader", {2, busy_us, blocked_us, 0}}}, kStart + std::chrono::seconds(second));
    return s.actors.value();
  };
  const ActorTimes none = actors_at(0, 0, 0);
  CHECK(none.blocked.empty());  // of no time at all
  CHECK(none.waiting.empty());
  ActorTimes times_of = actors_at(10, 15'000'000, 5'000'000);
  CHECK(times_of.busy.at("grader") == 0.75);
  CHECK(times_of.blocked.at("grader") == 0.25);
  CHECK(times_of.waiting.at("grader") == 0.25);
  times_of = actors_at(20, 90'000'000, 90'000'000);
  CHECK(times_of.blocked.at("grader") == 1);
  CHECK(times_of.waiting.at("grader") == 0);
  times_of = actors_at(30, 90'000'000, 90'000'000);
  CHECK(times_of.blocked.at("grader") == 0);
  CHECK(times_of.waiting.at("grader") == 1);
}
