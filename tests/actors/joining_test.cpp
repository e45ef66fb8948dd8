#include "actors/joining.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct Driven {
  Joining joining;
  std::chrono::steady_clock::time_point now{1h};

  // The pause after a membership of this length.
  std::chrono::milliseconds lost_after(std::chrono::milliseconds membership) {
    joining.found_run = true;
    joining.member_since = now;
    now += membership;
    return pause();
  }
  std::chrono::milliseconds pause() {
    const auto pause = next_pause(joining, now);
    REQUIRE(pause);
    now += *pause;
    return *pause;
  }
};

}  // namespace

TEST_CASE("joining: a worker that ends soon after each join pauses for longer each time") {
  Driven host;
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3000ms, 3000ms}) CHECK(host.lost_after(50ms) == pause);
  CHECK(host.lost_after(9s) == 3000ms);
  CHECK(host.lost_after(29s) == 3000ms);  // less than ten times its pause
  CHECK(host.lost_after(30s) == 100ms);
  CHECK(host.lost_after(1h) == 100ms);
}

TEST_CASE("joining: an attempt ends with the patience, which begins with the first one") {
  Driven host;
  host.joining.run.patience = {.at_start = 7s, .after_loss = 20s};
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);
  host.now += 5s;  // nobody answered
  CHECK(host.pause() == 100ms);
  CHECK(attempt_deadline(host.joining, host.now) == 1900ms);
  host.now += 1900ms;
  CHECK_FALSE(next_pause(host.joining, host.now));
  CHECK(attempt_deadline(host.joining, host.now) == kLeastJoinDeadline);
  CHECK(host.lost_after(1s) == 200ms);
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);
  host.joining = {.run = {.patience = {0s, 0s}}};
  CHECK(attempt_deadline(host.joining, host.now) == kJoinDeadline);  // of the only one
}

TEST_CASE("joining: patience begins anew with each loss, whatever the pause") {
  Driven host;
  for (int i = 0; i < 1000; ++i) host.lost_after(50ms);  // longer than the patience in all
  const auto lost_at = host.now;
  host.lost_after(50ms);
  while (next_pause(host.joining, host.now)) host.now += 3s;
  CHECK(host.now - lost_at >= host.joining.run.patience.after_loss);
  CHECK(host.now - lost_at < host.joining.run.patience.after_loss + 10s);
}
