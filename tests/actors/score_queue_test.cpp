#include "actors/score_queue.h"

#include "actors/experience/answers/reply_grader.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

class CountingGrader final : public Grader {
 public:
  std::vector<Score> score(const Prompt&, std::span<const std::string> answers) override {
    ++figures_.calls;
    return std::vector<Score>(answers.size());
  }
  void abandon() override { ++abandoned; }
  VerifierFigures figures() const override { return figures_; }

  size_t answers_per_call(ScoreKind /*kind*/) const override { return most; }

  int abandoned = 0;
  size_t most = 1;

 private:
  VerifierFigures figures_;
};

// Which requests go together into a call.
std::vector<std::vector<uint64_t>> calls_of(ScoreQueue& queue) {
  std::vector<std::vector<uint64_t>> calls;
  queue.add_idle({});
  while (auto next = queue.next({})) {
    calls.emplace_back();
    for (const ScoreRequest& each : next->first.of) calls.back().push_back(each.id);
    queue.add_idle({});
  }
  return calls;
}

ScoreRequest request(uint64_t id) { return {.id = id, .group = 0, .prompt = {}, .answers = {"a"}}; }

}  // namespace

TEST_CASE("score_queue: the oldest request goes to a grader that is free, and the time of waiting counts") {
  const ScoreQueue::Time start{};
  ScoreQueue queue({});
  const auto waited = [&](std::chrono::seconds time) { return queue.figures(start + time).wait_us / 1'000'000; };
  for (const uint64_t id : {1, 2, 3}) queue.add(request(id), start + id * 1s);
  CHECK_FALSE(queue.next(start + 4s).has_value());
  CHECK(waited(4s) == 3 + 2 + 1);
  queue.add_idle({});
  const auto first = queue.next(start + 10s);
  REQUIRE(first.has_value());
  CHECK(first->first.of.at(0).id == 1);
  CHECK(first->first.of.size() == 1);
  CHECK_FALSE(queue.next(start + 10s).has_value());  // no other grader is free
  CHECK(waited(11s) == 9 + 9 + 8);
  queue.add_idle({});
  queue.add_idle({});
  CHECK(queue.next(start + 12s)->first.of.at(0).id == 2);
  CHECK(queue.next(start + 12s)->first.of.at(0).id == 3);
  CHECK_FALSE(queue.next(start + 12s).has_value());
  CHECK(waited(99s) == 9 + 10 + 9);
}

TEST_CASE("score_queue: a call gets as many requests as have few enough answers together, in their order") {
  const auto grader = std::make_shared<CountingGrader>();
  grader->most = 5;
  ScoreQueue queue({grader});
  const std::vector<std::vector<std::string>> answers = {
      {"a", "b"}, {"c", "d"}, {"e", "f"}, {"1", "2", "3", "4", "5", "6", "7"}, {"g"}};
  for (size_t i = 0; i < answers.size(); ++i) queue.add({.id = i, .group = 0, .prompt = {}, .answers = answers[i]}, {});
  CHECK(calls_of(queue) == std::vector<std::vector<uint64_t>>{{0, 1}, {2}, {3}, {4}});  // one with too many goes alone
}

TEST_CASE("score_queue: the most answers of a call are those of what gives replies, or of what gives scores") {
  const auto scores = std::make_shared<CountingGrader>(), replies = std::make_shared<CountingGrader>();
  ScoreQueue queue({std::make_shared<ReplyGrader>(scores, replies)});
  const auto calls = [&](ScoreKind kind) {
    for (const uint64_t id : {1, 2, 3})
      queue.add({.id = id, .group = 0, .prompt = {}, .answers = {"a", "b"}, .kind = kind}, {});
    return calls_of(queue);
  };
  using Calls = std::vector<std::vector<uint64_t>>;
  replies->most = 4;
  CHECK(calls(ScoreKind::replies) == Calls{{1, 2}, {3}});
  CHECK(calls(ScoreKind::scores) == Calls{{1}, {2}, {3}});
  replies->most = 1;
  scores->most = 6;
  CHECK(calls(ScoreKind::replies) == Calls{{1}, {2}, {3}});
  CHECK(calls(ScoreKind::scores) == Calls{{1, 2, 3}});
}

TEST_CASE("score_queue: its figures are those of all graders, which are abandoned at its end") {
  const auto first = std::make_shared<CountingGrader>(), second = std::make_shared<CountingGrader>();
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
