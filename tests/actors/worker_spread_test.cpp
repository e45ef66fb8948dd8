// The figures that compare workers, of WorkerTable.

#include <cmath>
#include <vector>

#include "actors/worker_table.h"
#include "tests/support/test.h"

using namespace troupe;
using std::chrono::seconds;

namespace {

using Clock = WorkerTable::Clock;

struct Share {
  double busy, credit_wait;
};

// Workers report each second for `length` seconds, with these shares of their time.
RecentFigures spread_of(WorkerTable& table, const std::vector<Share>& shares, int from, int length) {
  for (int second = from; second < from + length; ++second)
    for (size_t worker = 0; worker < shares.size(); ++worker) {
      WorkerReport report;
      report.worker = worker;
      report.busy_us = static_cast<uint64_t>(1e6 * shares[worker].busy * second);
      report.credit_wait_us = static_cast<uint64_t>(1e6 * shares[worker].credit_wait * second);
      CHECK_FALSE(table.add(report, Clock::time_point() + seconds(1000 + second)));
    }
  RecentFigures recent;
  table.fill_spread(recent, Clock::time_point() + seconds(1000 + from + length - 1));
  return recent;
}

}  // namespace

TEST_CASE("worker_table: the busiest worker, and the others in the middle") {
  WorkerTable table(RunConfig{}, 0, 0);
  const RecentFigures recent = spread_of(table, {{0.2, 0.7}, {0.98, 0}, {0.3, 0.6}, {0.4, 0.5}}, 0, 30);
  CHECK(recent.busiest_worker == doctest::Approx(0.98).epsilon(0.01));
  CHECK(recent.other_workers == doctest::Approx(0.3).epsilon(0.01));
  CHECK(recent.others_wait == doctest::Approx(0.6).epsilon(0.01));
}

TEST_CASE("worker_table: a single worker, or one report of each, compares nothing") {
  WorkerTable alone(RunConfig{}, 0, 0), fresh(RunConfig{}, 0, 0);
  CHECK(std::isnan(spread_of(alone, {{0.9, 0}}, 0, 30).busiest_worker));
  CHECK(std::isnan(spread_of(fresh, {{0.9, 0}, {0.1, 0}}, 0, 1).busiest_worker));
}

TEST_CASE("worker_table: a worker that has not reported for some seconds does not count") {
  WorkerTable table(RunConfig{}, 0, 0);
  spread_of(table, {{0.98, 0}, {0.2, 0.5}, {0.3, 0.5}}, 0, 30);
  RecentFigures recent;
  table.fill_spread(recent, Clock::time_point() + seconds(1100));
  CHECK(std::isnan(recent.busiest_worker));
}
