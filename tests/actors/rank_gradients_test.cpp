#include "actors/rank_gradients.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kPatience{20'000};

RunConfig config_of(int64_t zero) {
  RunConfig config;
  config.trainer.shards = 3;
  config.trainer.ranks = 2;
  config.trainer.zero = zero;
  config.trainer.bucket_bytes = 64;  // 16 gradients
  return config;
}

// A rank, and what its group has said.
class Rank {
 public:
  Rank(const std::shared_ptr<GroupBackend>& backend, int rank, const RunConfig& config = config_of(0))
      : config_(config), rank_(rank), gradients_(backend, config.network) {}

  void begin(const Attempt& attempt, uint64_t generation) {
    gradients_.begin(
        attempt, {.host = "in_process", .generation = generation, .rank = rank_, .size = 2},
        gradient_division(config_, 2, 20),
        [this](const RoundSaid& said) {
          const std::lock_guard lock(mutex_);
          said_.push_back(said);
          changed_.notify_all();
        },
        [this](const GradientsFailed& failed) {
          const std::lock_guard lock(mutex_);
          failed_ = failed;
          changed_.notify_all();
        });
  }
  // Both pieces of a round, whose gradients all have this value.
  void say(uint64_t round, float value) {
    for (const int64_t piece : {0, 1}) {
      RankPart part{rank_ == 0 ? ShardRange{0, 1} : ShardRange{1, 2}, {}, {}};
      const std::vector<float> values(piece == 0 ? 16 : 4, value);
      for (const ShardRange& branch : branches_of(part.shards, 3)) part.branches.push_back({branch, Array::of(values)});
      REQUIRE(gradients_.takes(part));
      gradients_.say({round, static_cast<uint64_t>(piece)}, std::move(part));
    }
  }
  std::vector<RoundSaid> said(size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return said_.size() >= count; }));
    return std::exchange(said_, {});
  }
  GradientsFailed failed() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return failed_.has_value(); }));
    return *std::exchange(failed_, std::nullopt);
  }
  RankGradients& gradients() { return gradients_; }

 private:
  const RunConfig config_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<RoundSaid> said_;
  std::optional<GradientsFailed> failed_;
  RankGradients gradients_;  // last: its group calls back
};

}  // namespace

TEST_CASE("rank_gradients: the sums are said with the attempt, and the group lasts over several attempts") {
  const auto backend = make_in_process_backend();
  Rank zero(backend, 0), one(backend, 1);
  for (uint64_t number = 1; number <= 3; ++number) {
    const Attempt attempt{number + 40, number};
    for (Rank* rank : {&zero, &one}) rank->begin(attempt, 7);
    zero.say(0, 1);
    one.say(0, 10);
    for (Rank* rank : {&zero, &one})
      for (const RoundSaid& said : rank->said(2)) {
        CHECK(said.attempt == attempt);
        CHECK(said.piece.round == 0);
        CHECK(said.all.gradients.size() == (said.piece.piece == 0 ? 16 : 4));
        for (const float value : said.all.gradients.view<float>()) CHECK(value == 1 + 10 + 10);
      }
  }
}

TEST_CASE("rank_gradients: with slices each rank is told those of its own") {
  const auto backend = make_in_process_backend();
  const RunConfig config = config_of(1);
  Rank zero(backend, 0, config), one(backend, 1, config);
  for (Rank* rank : {&zero, &one}) rank->begin({5, 1}, 1);
  zero.say(0, 1);
  one.say(0, 10);
  int64_t told = 0;
  for (Rank* rank : {&zero, &one})
    for (const RoundSaid& said : rank->said(2)) told += said.all.gradients.size();
  CHECK(told == 20);
}

TEST_CASE("rank_gradients: numbers are not for the group, and nothing is after it was left") {
  const auto backend = make_in_process_backend();
  Rank zero(backend, 0);
  const RankPart gradients{{0, 1}, {}, {{{0, 1}, Array::of<float>({1}, {1})}}};
  CHECK_FALSE(zero.gradients().takes(gradients));
  zero.begin({1, 1}, 1);
  CHECK(zero.gradients().takes(gradients));
  CHECK_FALSE(zero.gradients().takes({{0, 1}, {{1}}, {}}));
  zero.gradients().leave();
  CHECK_FALSE(zero.gradients().takes(gradients));
}

TEST_CASE("rank_gradients: a rank that leaves is a failure of that group, and a later one works") {
  const auto backend = make_in_process_backend();
  Rank zero(backend, 0), one(backend, 1);
  for (Rank* rank : {&zero, &one}) rank->begin({1, 1}, 1);
  zero.say(0, 1);
  one.say(0, 1);
  for (Rank* rank : {&zero, &one}) rank->said(2);
  one.gradients().leave();
  zero.say(1, 1);
  CHECK(zero.failed().generation == 1);
  for (Rank* rank : {&zero, &one}) rank->begin({1, 2}, 2);
  zero.say(0, 2);
  one.say(0, 3);
  for (Rank* rank : {&zero, &one})
    for (const RoundSaid& said : rank->said(2)) CHECK(said.attempt == Attempt{1, 2});
}
