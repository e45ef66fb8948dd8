#include "actors/machine_use.h"

#include "tests/runtime/base/computing.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

const Rate::Clock::time_point kStart{1h};

// Of the time before it.
double run_share(MachineUse& use, Rate::Clock::duration after) {
  BusyShares shares;
  use.fill(shares, kStart + after, 10s);
  return shares.run;
}

// Lets a process compute, which takes longer than the time between two counts. Returns the least share of it.
double share_of_computing(Computing& process) {
  const uint64_t before = machine_ticks().total;
  process.compute();
  return static_cast<double>(most_of_it()) / static_cast<double>(machine_ticks().total - before);
}

}  // namespace

TEST_CASE("machine_use: a process of this machine that the run has not started is the run's once it has joined") {
  Computing other(/*orphan=*/true);
  MachineUse alone, with_worker, with_rank;
  with_worker.heard(other.id(), kStart);
  with_rank.set_ranks({other.id()});
  for (MachineUse* use : {&alone, &with_worker, &with_rank}) run_share(*use, 0s);
  const double computing = share_of_computing(other);
  CHECK(run_share(alone, 1s) < 0.5 * computing);
  CHECK(run_share(with_worker, 1s) > 0.5 * computing);
  CHECK(run_share(with_rank, 1s) > 0.5 * computing);
}

TEST_CASE(
    "machine_use: a process that has told nothing for a minute is no longer the run's, and a rank when it is lost") {
  Computing other(/*orphan=*/true);
  MachineUse with_worker, with_rank;
  with_worker.heard(other.id(), kStart);
  with_rank.set_ranks({other.id()});
  for (MachineUse* use : {&with_worker, &with_rank}) run_share(*use, 0s);
  double computing = share_of_computing(other);
  CHECK(run_share(with_worker, 2min) < 0.5 * computing);
  CHECK(run_share(with_rank, 2min) > 0.5 * computing);
  with_rank.set_ranks({});
  computing = share_of_computing(other);
  CHECK(run_share(with_worker, 3min) < 0.5 * computing);
  CHECK(run_share(with_rank, 3min) < 0.5 * computing);
}
