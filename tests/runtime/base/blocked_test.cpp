#include "runtime/base/blocked.h"

#include <unistd.h>

#include <thread>

#include "runtime/base/child_connection.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using namespace std::chrono_literals;

namespace {

using Clock = BlockedTime::Clock;

void pass(Clock::duration time) {
  const auto begun = Clock::now();
  while (Clock::now() - begun < time) continue;
}

std::chrono::nanoseconds of(const BlockedTime& time) { return Clock::duration(time.ticks(Clock::now())); }

}  // namespace

TEST_CASE("blocked: a wait counts where its thread says, and the time around it does not") {
  BlockedTime time;
  const CountBlocked count(time);
  pass(2ms);
  CHECK(of(time) == 0ns);
  const auto begun = Clock::now();
  {
    const Blocked blocked;
    pass(2ms);
    CHECK(of(time) >= 2ms);  // while it goes on
  }
  const auto most = Clock::now() - begun;
  const auto waited = of(time);
  CHECK(waited >= 2ms);
  CHECK(waited <= most);
  pass(2ms);
  CHECK(of(time) == waited);
}

TEST_CASE("blocked: a wait within another counts once") {
  BlockedTime time;
  const CountBlocked count(time);
  const auto begun = Clock::now();
  {
    const Blocked outer;
    {
      const Blocked inner;
      pass(2ms);
    }
    pass(2ms);
  }
  const auto most = Clock::now() - begun;
  CHECK(of(time) >= 4ms);
  CHECK(of(time) <= most);
}

TEST_CASE("blocked: after the inner of two who count on a thread, the outer one counts again") {
  BlockedTime outer, inner;
  const CountBlocked count(outer);
  {
    const CountBlocked other(inner);
    const Blocked blocked;
    pass(1ms);
  }
  CHECK(of(outer) == 0ns);
  const auto before = of(inner);
  CHECK(before >= 1ms);
  {
    const Blocked blocked;
    pass(1ms);
  }
  CHECK(of(outer) >= 1ms);
  CHECK(of(inner) == before);
}

TEST_CASE("blocked: a wait of another thread, and of a thread that counts nowhere, does not count") {
  BlockedTime time;
  {
    const Blocked nowhere;
  }
  const CountBlocked count(time);
  std::jthread([] {
    const Blocked blocked;
    pass(1ms);
  }).join();
  CHECK(of(time) == 0ns);
}

TEST_CASE("blocked: waiting for a child process counts") {
  BlockedTime time;
  const CountBlocked count(time);
  ChildConnection child("test", ChildKind::environment, {"/bin/sh", "-c", "read line <&3; echo answer >&3"});
  const auto before = of(time);
  REQUIRE(child.send("line\n", Deadline(10s)) == ChildConnection::Io::done);
  char answer[7];
  REQUIRE(child.receive(answer, sizeof answer, Deadline(10s)) == ChildConnection::Io::done);
  CHECK(of(time) > before);
}

TEST_CASE("blocked: writing a file to the disk counts") {
  const TempFolder folder;
  BlockedTime time;
  const CountBlocked count(time);
  posix_disk().write_atomic(folder.path() + "/file", std::string_view("bytes"));
  CHECK(of(time) > 0ns);
}
