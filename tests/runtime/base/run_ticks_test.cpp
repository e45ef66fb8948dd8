#include "runtime/base/run_ticks.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "runtime/base/process_stats.h"
#include "tests/runtime/base/computed_time.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("run_ticks: the time that this process computes is counted") {
  const uint64_t before = run_ticks().used;
  compute();
  CHECK(run_ticks().used - before >= most_of_it());
}

TEST_CASE("run_ticks: the time of a child is counted while it runs and after its end") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const uint64_t before = run_ticks().used;
  const pid_t child = fork();
  if (child == 0) {
    compute();
    if (write(ends[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  REQUIRE(child > 0);
  char told = 0;
  REQUIRE(read(ends[0], &told, 1) == 1);
  const uint64_t running = run_ticks().used;
  CHECK(running - before >= most_of_it());
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(run_ticks().used - before >= most_of_it());
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("run_ticks: they are ticks as those of the machine, which has no fewer") {
  const uint64_t before = run_ticks().used, all_before = machine_ticks().busy;
  compute();
  const uint64_t own = run_ticks().used - before, all = machine_ticks().busy - all_before;
  CHECK(own <= all + 5);  // the two are read one after the other
}

TEST_CASE("run_ticks: threads that share one processor wait for it") {
  cpu_set_t all, one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const uint64_t before = run_ticks().waited;
  uint64_t after = 0;
  const auto compute_twice = [] { compute(), compute(); };  // of the time of both threads
  std::thread other(compute_twice);
  compute();
  after = run_ticks().waited;  // while the other thread still exists
  other.join();
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
  // Both computed for as long as this one, so one waited at any time.
  CHECK(after - before >= most_of_it());
}
