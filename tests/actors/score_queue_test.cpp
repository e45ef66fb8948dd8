#include "actors/score_queue.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

class CountingScorer final : public Scorer {
 public:
  std::vector<Score> score(const Prompt&, std::span<const std::string> answers) override {
    ++figures_.calls;
    return std::vector<Score>(answers.size());
  }
  void abandon() override { ++abandoned; }
  VerifierFigures figures() const override { return figures_; }

  int abandoned = 0;

 private:
  VerifierFigures figures_;
};

ScoreRequest request(uint64_t id) { return {.id = id, .group = 0, .prompt = {}, .answers = {"a"}}; }

}  // namespace

TEST_CASE("score_queue: the oldest request goes to a scorer that is free, and the time of waiting counts") {
  const ScoreQueue::Time start{};
  ScoreQueue queue({});
  const auto waited = [&](std::chrono::seconds time) { return queue.figures(start + time).wait_us / 1'000'000; };
  for (const uint64_t id : {1, 2, 3}) queue.add(request(id), start + id * 1s);
  CHECK_FALSE(queue.next(start + 4s).has_value());
  CHECK(waited(4s) == 3 + 2 + 1);
  queue.add_idle({});
  const auto first = queue.next(start + 10s);
  REQUIRE(first.has_value());
  CHECK(first->first.id == 1);
  CHECK_FALSE(queue.next(start + 10s).has_value());  // no other scorer is free
  CHECK(waited(11s) == 9 + 9 + 8);
  queue.add_idle({});
  queue.add_idle({});
  CHECK(queue.next(start + 12s)->first.id == 2);
  CHECK(queue.next(start + 12s)->first.id == 3);
  CHECK_FALSE(queue.next(start + 12s).has_value());
  CHECK(waited(99s) == 9 + 10 + 9);
}

TEST_CASE("score_queue: its figures are those of all scorers, which are abandoned at its end") {
  const auto first = std::make_shared<CountingScorer>(), second = std::make_shared<CountingScorer>();
  {
    ScoreQueue queue({first, second});
    CHECK(queue.score_at_once(request(7)).id == 7);
    second->score({}, {});
    CHECK(queue.figures({}).calls == 2);
    CHECK(first->abandoned == 0);
  }
  CHECK(first->abandoned == 1);
  CHECK(second->abandoned == 1);
}
