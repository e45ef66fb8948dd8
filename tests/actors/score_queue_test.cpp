#include "actors/score_queue.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

TEST_CASE("score_queue: the oldest request goes to a scorer that is free, and the time of waiting counts") {
  const ScoreQueue::Time start{};
  ScoreQueue queue;
  for (const uint64_t id : {1, 2, 3}) queue.add({.id = id, .group = 0, .prompt = {}, .answers = {}}, start + id * 1s);
  CHECK_FALSE(queue.next(start + 4s).has_value());
  CHECK(queue.waited(start + 4s) == 3s + 2s + 1s);
  queue.add_idle({});
  const auto first = queue.next(start + 10s);
  REQUIRE(first.has_value());
  CHECK(first->first.id == 1);
  CHECK_FALSE(queue.next(start + 10s).has_value());  // no other scorer is free
  CHECK(queue.waited(start + 11s) == 9s + 9s + 8s);
  queue.add_idle({});
  queue.add_idle({});
  CHECK(queue.next(start + 12s)->first.id == 2);
  CHECK(queue.next(start + 12s)->first.id == 3);
  CHECK_FALSE(queue.next(start + 12s).has_value());
  CHECK(queue.waited(start + 99s) == 9s + 10s + 9s);
}
