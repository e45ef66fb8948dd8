#include "tools/cli/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

// The signals that are reported when some arrive before and others after the end of the command.
std::vector<int> reported_signals(const std::vector<int>& before, const std::vector<int>& after) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::vector<int> reported;
  {
    StopSignals signals;
    signals.begin([&](int signal) {
      reported.push_back(signal);
      return "";
    });
    for (const int signal : before) kill(getpid(), signal);
    if (!before.empty()) CHECK(signals.wait());
    signals.end();
    for (const int signal : after) kill(getpid(), signal);
  }  // all signals were handled
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return reported;
}

}  // namespace

TEST_CASE("stop signals: a wait for the end may have a limit") {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  {
    StopSignals signals;
    signals.begin({});
    signals.wait_for_end(std::chrono::milliseconds(1));  // would wait for ever
    CHECK(!signals.asked());
    signals.end();
    signals.wait_for_end(std::chrono::hours(1));
  }
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
}

TEST_CASE("stop signals: the first is reported, and none after the end of the command") {
  CHECK(reported_signals({SIGTERM}, {SIGINT}) == std::vector<int>{SIGTERM});
  CHECK(reported_signals({}, {SIGTERM}).empty());
  CHECK(reported_signals({}, {SIGINT, SIGUSR1}).empty());
}
