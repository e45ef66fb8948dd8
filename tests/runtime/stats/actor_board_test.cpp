#include "runtime/stats/actor_board.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

const ActorBoard::Clock::time_point kStart{1h};

}  // namespace

TEST_CASE("actor_board: without an actor there are no figures") { CHECK(ActorBoard().figures(kStart).empty()); }

TEST_CASE("actor_board: the time in handlers adds up over the actors of a kind, with the handler that runs now") {
  ActorBoard board;
  const auto first = board.add("worker"), second = board.add("worker"), other = board.add("trainer");
  first->end_handler(kStart, kStart + 2s);
  second->begin_handler(kStart + 1s);
  auto figures = board.figures(kStart + 4s);
  CHECK(figures.at("worker").actors == 2);
  CHECK(figures.at("worker").busy_us == 5'000'000);
  CHECK(figures.at("trainer").busy_us == 0);
  second->end_handler(kStart + 1s, kStart + 5s);
  figures = board.figures(kStart + 9s);
  CHECK(figures.at("worker").busy_us == 6'000'000);
}

TEST_CASE("actor_board: waits in handlers add up over the actors of a kind, also of those that have ended") {
  ActorBoard board;
  const auto now = [] { return ActorBoard::Clock::now(); };
  auto first = board.add("grader");
  const auto second = board.add("grader");
  const auto other = board.add("trainer");
  for (const auto& actor : {first, second}) {
    const auto begun = now();
    const CountBlocked count(actor->blocked());
    {
      const Blocked blocked;
      while (now() - begun < 2ms) continue;
    }
    actor->end_handler(begun, now());
  }
  CHECK(board.figures(now()).at("trainer").blocked_us == 0);
  const auto figures = board.figures(now()).at("grader");
  CHECK(figures.blocked_us >= 3900);
  CHECK(figures.blocked_us <= figures.busy_us);
  first.reset();
  CHECK(board.figures(now()).at("grader").blocked_us == figures.blocked_us);
}

TEST_CASE("actor_board: no more is blocked than is busy") {
  ActorBoard board;
  const auto actor = board.add("recorder");
  const CountBlocked count(actor->blocked());
  const Blocked blocked;
  CHECK(board.figures(ActorBoard::Clock::now() + 1s).at("recorder").blocked_us == 0);  // in no handler
}

TEST_CASE("actor_board: actors that have ended count no more, but their time does") {
  ActorBoard board;
  auto first = board.add("worker");
  const auto second = board.add("worker");
  first->end_handler(kStart, kStart + 2s);
  first.reset();
  CHECK(board.figures(kStart).at("worker").actors == 1);
  CHECK(board.figures(kStart).at("worker").busy_us == 2'000'000);
}

TEST_CASE("actor_board: a probe waits from its arrival until its turn comes, and the newest one counts") {
  ActorBoard board;
  const auto actor = board.add("replay"), other = board.add("replay");
  const auto oldest_at = [&](std::chrono::seconds time) {
    return board.figures(kStart + time).at("replay").oldest_seconds;
  };
  CHECK(oldest_at(0s) == 0);
  actor->expect_probe(kStart + 1s);
  CHECK(oldest_at(1s) == 0);
  CHECK(oldest_at(4s) == 3);  // its turn has not come
  actor->take_probe(kStart + 6s);
  actor->expect_probe(kStart + 7s);
  CHECK(oldest_at(7s) == 5);
  actor->take_probe(kStart + 7s);
  actor->expect_probe(kStart + 8s);
  CHECK(oldest_at(8s) == 0);
  other->expect_probe(kStart + 2s);
  CHECK(oldest_at(10s) == 8);  // the longest of both
}

TEST_CASE("actor_board: a probe that comes a little early has not waited") {
  ActorBoard board;
  const auto actor = board.add("replay");
  actor->expect_probe(kStart + 1s);
  actor->take_probe(kStart);
  CHECK(board.figures(kStart).at("replay").oldest_seconds == 0);
}
