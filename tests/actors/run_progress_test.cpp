#include "actors/run_progress.h"

#include <cmath>

#include "runtime/stats/unknown.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

StopConfig seconds_only(double seconds) {
  StopConfig stop;
  stop.env_steps = 0;
  stop.seconds = seconds;
  return stop;
}

}  // namespace

TEST_CASE("run_progress: the limit that is nearest counts, limits that are not set are ignored") {
  StopConfig stop;
  stop.env_steps = 100;
  stop.updates = 10;
  CHECK(run_progress(stop, 20, 1, 0) == 0.2);
  CHECK(run_progress(stop, 20, 4, 0) == 0.4);
  CHECK(run_progress(stop, 20, 4, 0.7) == 0.7);
  CHECK(run_progress(stop, 300, 4, 0.7) == 1);
  CHECK(run_progress(seconds_only(8), 300, 4, 0.25) == 0.25);
  CHECK(time_progress(stop, 1e6, {}) == 0);
}

TEST_CASE(
    "run_progress: what is left takes as long as the pace since the start says, and is unknown without progress") {
  CHECK(seconds_left(0.25, 0, 10) == 30);
  CHECK(seconds_left(0.75, 0.5, 10) == 10);
  CHECK(seconds_left(1, 0.5, 10) == 0);
  CHECK(std::isnan(seconds_left(0.5, 0.5, 10)));
  CHECK(std::isnan(seconds_left(0.4, 0.5, 10)));
  CHECK(std::isnan(seconds_left(kUnknown, 0, 10)));
}

TEST_CASE("run_progress: a run starts where the start before has ended") {
  StopConfig stop;
  stop.env_steps = 100;
  ReplayStart start;
  CHECK(progress_at_start(stop, start) == 0);
  start.env_steps = 40;
  CHECK(progress_at_start(stop, start) == 0.4);
  stop.updates = 10;
  start.version = {0, 5};
  CHECK(progress_at_start(stop, start) == 0.5);
}

TEST_CASE("run_progress: in a new run the progress of time goes from 0 to 1 within stop.seconds") {
  const StopConfig stop = seconds_only(8);
  CHECK(time_progress(stop, 0, {}) == 0);
  CHECK(time_progress(stop, 2, {}) == 0.25);
  CHECK(time_progress(stop, 8, {}) == 1);
  CHECK(time_progress(stop, 9, {}) == 1);
}

TEST_CASE("run_progress: after a resume the progress of time continues from its last value and ends at 1") {
  const StopConfig stop = seconds_only(8);
  ReplayStart start;
  start.totals.elapsed_seconds = 4;
  start.time_progress = 0.5;
  CHECK(time_progress(stop, 0, start) == 0.5);
  CHECK(time_progress(stop, 4, start) == 0.75);
  CHECK(time_progress(stop, 8, start) == 1);
}

TEST_CASE("run_progress: if the time was used up, a resume continues from the share of the time so far") {
  const StopConfig stop = seconds_only(10);
  ReplayStart start;
  start.totals.elapsed_seconds = 30;
  start.time_progress = 1;
  CHECK(time_progress(stop, 0, start) == 0.75);
  CHECK(time_progress(stop, 10, start) == 1);
}
