#include "actors/stats_core.h"

#include <functional>

#include "runtime/base/log.h"
#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

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
    core.add(Applied{inference_index, {0, 0}}, kStart);
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
  core.add(Applied{0, {0, 0}}, kStart);
  core.add(Applied{1, {0, 0}}, kStart);
  CHECK(up() == 2);
  core.add(ReceiverGone{0});
  CHECK(up() == 1);
}

TEST_CASE("stats: the transfer of weights does not count those that an inference actor begins with") {
  using std::chrono::seconds;
  StatsCore core(config_of(100), false, kStart);
  core.add(Applied{0, {0, 0}}, kStart);
  core.add(update_with(1, {}), kStart + seconds(1));
  core.add(Applied{0, {0, 1}}, kStart + seconds(3));
  core.add(Applied{7, {0, 1}}, kStart + seconds(9));  // it has just joined
  CHECK(core.take_view(kStart + seconds(9)).stages.transfer == 2);
  core.add(update_with(2, {}), kStart + seconds(10));
  core.add(Applied{7, {0, 2}}, kStart + seconds(11));
  CHECK(core.take_view(kStart + seconds(11)).stages.transfer == 1.5);
}

TEST_CASE("stats: the shares of workers are of the time that their reports are about, and unknown before") {
  StatsCore core(config_of(100), false, kStart);
  const auto at = [](int ms) { return kStart + std::chrono::milliseconds(ms); };
  const auto report = [&](uint64_t worker, uint64_t busy_ms, int ms) {
    WorkerReport message;
    message.worker = worker;
    message.busy_us = 1000 * busy_ms;
    message.action_wait_us = 1000 * busy_ms / 4;
    core.add(message, at(ms));
  };
  core.add(after(100), kStart);
  CHECK(std::isnan(core.take_view(at(0)).busy.workers));
  report(1, 500, 1000);  // nothing is known of the time before it
  CHECK(std::isnan(core.take_view(at(1000)).busy.workers));
  report(1, 1300, 2000);
  CHECK(core.take_view(at(2100)).busy.workers == doctest::Approx(0.8));
  // A report that comes late is about a longer time, and a worker that is silent does not count.
  report(1, 3300, 4500);
  const BusyShares busy = core.take_view(at(4600)).busy;
  CHECK(busy.workers == doctest::Approx(2800.0 / 3500));
  CHECK(busy.action_wait == doctest::Approx(700.0 / 3500));
  report(2, 0, 4700);
  report(2, 0, 6700);
  CHECK(core.take_view(at(6800)).busy.workers == doctest::Approx(2800.0 / 5500));
}

TEST_CASE("stats: the share of inference actors is unknown before their first report") {
  StatsCore core(config_of(100), false, kStart);
  const auto at = [](int seconds) { return kStart + std::chrono::seconds(seconds); };
  core.add(Applied{0, {0, 0}}, kStart);
  core.take_view(at(0));
  CHECK(std::isnan(core.take_view(at(1)).busy.inference));
  InferenceReport report;
  report.busy_us = 900'000;
  core.add(report);
  CHECK(std::isnan(core.take_view(at(2)).busy.inference));
  report.busy_us = 1'400'000;
  core.add(report);
  CHECK(core.take_view(at(3)).busy.inference == doctest::Approx(0.5));
}
