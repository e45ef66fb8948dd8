#include "tools/cli/stop_signals.h"

#include <unistd.h>

#include <csignal>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

namespace {

// The messages for these signals, which arrive before and after the end of the command.
std::vector<int> told(const std::vector<int>& before, const std::vector<int>& after) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  std::vector<int> heard;
  {
    StopSignals signals;
    signals.begin([&](int signal) {
      heard.push_back(signal);
      return "";
    });
    for (const int signal : before) kill(getpid(), signal);
    if (!before.empty()) CHECK(signals.wait());
    signals.end();
    for (const int signal : after) kill(getpid(), signal);
  }  // all of them were handled
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  return heard;
}

}  // namespace

TEST_CASE("stop signals: the first is reported, and none after the end of the command") {
  CHECK(told({SIGTERM}, {SIGINT}) == std::vector<int>{SIGTERM});
  CHECK(told({}, {SIGTERM}).empty());
  CHECK(told({}, {SIGINT, SIGUSR1}).empty());
}
