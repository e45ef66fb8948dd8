#include "runtime/base/joined_ticks.h"

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "runtime/base/process_stats.h"
#include "tests/runtime/base/computing.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

uint64_t used(JoinedTicks& joined) {
  std::set<pid_t> counted;
  return joined.ticks(counted).used;
}

}  // namespace

TEST_CASE("joined_ticks: a process counts from when it joins until it leaves, and what it used stays") {
  Computing other(/*orphan=*/true);
  JoinedTicks joined;
  CHECK(used(joined) == 0);
  other.compute();
  joined.count({other.id()});
  CHECK(used(joined) == 0);  // what it did before is not the run's
  other.compute();
  const uint64_t member = used(joined);
  CHECK(member >= most_of_it());
  CHECK(member <= ticks_in(kComputed) + 5);
  joined.count({});
  other.compute();
  CHECK(used(joined) == member);
  joined.count({other.id()});
  CHECK(used(joined) == member);
  other.compute();
  const uint64_t again = used(joined);
  CHECK(again >= member + most_of_it());
  other.end();
  CHECK(used(joined) >= again);
}

TEST_CASE("is_of_this_program: processes are told apart by the name of their program") {
  const Computing child(/*orphan=*/false), orphan(/*orphan=*/true);
  CHECK(is_of_this_program(getpid()));
  CHECK(is_of_this_program(child.id()));
  CHECK(is_of_this_program(orphan.id()));
  const pid_t other = fork();
  if (other == 0) {
    prctl(PR_SET_NAME, "another");
    for (;;) pause();
  }
  while (is_of_this_program(other)) sched_yield();  // until it has the other name
  kill(other, SIGKILL);
  REQUIRE(waitpid(other, nullptr, 0) == other);
  CHECK_FALSE(is_of_this_program(other));  // it is gone
}

TEST_CASE("joined_ticks: a process that the run has started counts once, with the run") {
  Computing child(/*orphan=*/false), other(/*orphan=*/true);
  JoinedTicks joined;
  joined.count({child.id(), other.id()});
  const auto beside_run = [&] {
    std::set<pid_t> counted;
    ticks_of(getpid(), counted);
    CHECK(counted.contains(child.id()));
    const uint64_t ticks = joined.ticks(counted).used;
    CHECK(counted.contains(other.id()));
    return ticks;
  };
  CHECK(beside_run() == 0);
  child.compute();
  CHECK(beside_run() == 0);
  other.compute();
  CHECK(beside_run() >= most_of_it());
}
