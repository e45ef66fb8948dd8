#include "actors/joined_actors.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

const JoinedActors::Clock::time_point kStart{1h};

// Of a process with so many workers, which were busy and blocked for so many seconds since it began.
ProcessReport workers(uint64_t count, uint64_t busy, uint64_t blocked, uint64_t oldest_us = 0) {
  return {{{"worker", count, 1'000'000 * busy, 1'000'000 * blocked, oldest_us}}};
}

// The table after two reports of process "a", the second one 4 s after the first.
struct TwoReports {
  TwoReports(const ProcessReport& first, const ProcessReport& second) {
    CHECK_FALSE(table.add("a", first, kStart));
    table.times(kStart);
    CHECK_FALSE(table.add("a", second, kStart + 4s));
    times = table.times(kStart + 4s);
  }
  JoinedActors table;
  std::optional<ActorTimes> times;
};

}  // namespace

TEST_CASE("joined_actors: without a report there are no times") { CHECK_FALSE(JoinedActors().times(kStart)); }

TEST_CASE("joined_actors: the first report of a process has the oldest message and no shares") {
  JoinedActors table;
  CHECK_FALSE(table.add("a", workers(1, 50, 40, 250'000), kStart));
  const auto times = table.times(kStart + 1s);
  REQUIRE(times);
  CHECK(times->oldest_seconds.at("worker") == 0.25);
  CHECK(times->busy.empty());
}

TEST_CASE("joined_actors: shares are of the time between reports, on average over the actors of a kind") {
  const TwoReports two(workers(2, 100, 10), workers(2, 106, 12));
  REQUIRE(two.times);
  CHECK(two.times->busy.at("worker") == doctest::Approx(0.75));  // 6 of 8 s
  CHECK(two.times->blocked.at("worker") == doctest::Approx(0.25));
  CHECK(two.times->waiting.at("worker") == doctest::Approx(0.25));
}

TEST_CASE("joined_actors: the actors of a kind count together, in whichever process they are") {
  JoinedActors table;
  for (const int second : {0, 4}) {
    const auto now = kStart + std::chrono::seconds(second);
    CHECK_FALSE(table.add("a", workers(1, second, 0, 1000), now));
    CHECK_FALSE(table.add("b", workers(3, 0, 0, 2000), now));
    table.times(now);
  }
  const auto times = table.times(kStart + 4s);
  REQUIRE(times);
  CHECK(times->busy.at("worker") == doctest::Approx(0.25));  // 4 of 16 s
  CHECK(times->oldest_seconds.at("worker") == doctest::Approx(0.002));
}

TEST_CASE("joined_actors: several actors of a process may report, which changes nothing") {
  JoinedActors table;
  for (const int second : {0, 4})
    for (const auto later : {0ms, 1ms, 2ms})
      CHECK_FALSE(table.add("a", workers(2, second, 0), kStart + std::chrono::seconds(second) + later));
  table.times(kStart);
  for (const auto later : {0ms, 1ms}) CHECK_FALSE(table.add("a", workers(2, 8, 0), kStart + 8s + later));
  const auto times = table.times(kStart + 8s + 1ms);
  REQUIRE(times);
  CHECK(times->busy.at("worker") == doctest::Approx(0.5).epsilon(0.001));
}

TEST_CASE("joined_actors: no actor is busy for longer than has passed, nor blocked for longer than it is busy") {
  const TwoReports two(workers(1, 0, 0), workers(1, 1'000'000, 2'000'000));
  REQUIRE(two.times);
  CHECK(two.times->busy.at("worker") == 1);
  CHECK(two.times->blocked.at("worker") == 1);
  CHECK(two.times->waiting.at("worker") == 0);
}

TEST_CASE("joined_actors: times that fall count as none") {
  const TwoReports two(workers(1, 50, 20), workers(1, 40, 10));
  REQUIRE(two.times);
  CHECK(two.times->busy.at("worker") == 0);
  CHECK(two.times->blocked.at("worker") == 0);
}

TEST_CASE("joined_actors: a process that is silent is forgotten, and its actors with it") {
  JoinedActors table;
  CHECK_FALSE(table.add("a", workers(1, 0, 0), kStart));
  CHECK(table.times(kStart + 10s));
  CHECK_FALSE(table.times(kStart + 11s));
}

TEST_CASE("joined_actors: reports about actors that no process has are dropped") {
  JoinedActors table;
  CHECK(table.add("a", {{{"trainer", 1, 0, 0, 0}}}, kStart));
  CHECK(table.add("a", {{{"worker", 0, 0, 0, 0}}}, kStart));
  CHECK(table.add("a", {{{"worker", uint64_t{1} << 60, 0, 0, 0}}}, kStart));
  CHECK(table.add("a", {{{"worker", 1, 0, 0, 0}, {"worker", 1, 0, 0, 0}}}, kStart));
  CHECK_FALSE(table.times(kStart));
}

TEST_CASE("joined_actors: the number of processes is limited, and a silent one makes room") {
  JoinedActors table;
  for (int i = 0; i < 4096; ++i) CHECK_FALSE(table.add(std::to_string(i), workers(1, 0, 0), kStart));
  CHECK(table.add("more", workers(1, 0, 0), kStart + 1s));
  CHECK_FALSE(table.add("7", workers(1, 1, 0), kStart + 1s));
  CHECK_FALSE(table.add("more", workers(1, 0, 0), kStart + 11s));
}

TEST_CASE("joined_actors: a report has the figures of the board") {
  ActorBoard board;
  const auto actor = board.add("inference");
  const auto begun = ActorBoard::Clock::now() - 3s;
  actor->end_handler(begun, begun + 2s);
  actor->expect_probe(begun);
  const ProcessReport report = report_of(board);
  REQUIRE(report.actors.size() == 1);
  CHECK(report.actors[0].kind == "inference");
  CHECK(report.actors[0].actors == 1);
  CHECK(report.actors[0].busy_us == 2'000'000);
  CHECK(report.actors[0].blocked_us == 0);
  CHECK(report.actors[0].oldest_us >= 3'000'000);
}
