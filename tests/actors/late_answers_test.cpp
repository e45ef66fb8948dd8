// Runs whose answers have very different lengths, with each value of replay.late: what replay hands out, and how long
// the answers are that are trained on.

#include <algorithm>
#include <string>
#include <vector>

#include "actors/replay_store.h"
#include "runtime/base/rng.h"
#include "tests/actors/rollouts.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kAnswers = 4, kSuperBatch = 16, kUpdates = 300;
constexpr int64_t kLongest = 48;

// The answers to a prompt, while they are generated: a token of each per tick.
class Group {
 public:
  explicit Group(Rng& random) {
    for (auto& [length, versions] : answers_)
      for (length = 1; length < kLongest && random.below(12) > 0;) ++length;
  }
  // Returns whether all answers have ended.
  bool tick(uint64_t version) {
    bool ended = true;
    for (auto& [length, versions] : answers_) {
      if (std::ssize(versions) < length) versions.push_back(static_cast<int64_t>(version));
      ended &= std::ssize(versions) == length;
    }
    return ended;
  }
  RolloutPtr rollout(uint64_t sequence) const {
    auto rollout = std::make_shared<Rollout>();
    rollout->worker = 1;
    rollout->sequence = sequence;
    rollout->samples = rollout->env_steps = kAnswers;
    std::vector<int64_t> offsets{0}, all;
    for (const auto& [length, versions] : answers_) {
      all.insert(all.end(), versions.begin(), versions.end());
      offsets.push_back(static_cast<int64_t>(all.size()));
    }
    rollout->oldest = static_cast<uint64_t>(std::ranges::min(all));
    rollout->newest = static_cast<uint64_t>(std::ranges::max(all));
    Answers& answers = rollout->body.emplace<Answers>();
    answers.prompt_offsets = array_of(std::vector<int64_t>{0, 1});
    answers.sampled.offsets = array_of(offsets);
    answers.sampled.version = array_of(all);
    answers.sampled.finish = array_of(std::vector<uint8_t>(kAnswers));
    answers.group = array_of(std::vector<int32_t>(kAnswers));
    answers.rewards = array_of(std::vector<float>(kAnswers));
    return rollout;
  }

 private:
  struct Answer {
    int64_t length = 0;
    std::vector<int64_t> versions;
  };
  std::vector<Answer> answers_{kAnswers};
};

struct Figures {
  Ledger ledger;
  TokenFigures tokens;
  uint64_t largest_lag = 0;     // of a token that was trained
  uint64_t trained_tokens = 0;  // without the masked ones

  static double mean(const SampleTokens& of) {
    return static_cast<double>(of.tokens) / static_cast<double>(of.samples);
  }
};

void note_use(const SuperBatch& batch, Figures& figures) {
  for (const RolloutUnits& part : batch.parts)
    for (const int64_t version : part.rollout->answers().sampled.version.view<int64_t>()) {
      if (static_cast<uint64_t>(version) < batch.least_version) continue;
      figures.largest_lag = std::max(figures.largest_lag, batch.index - static_cast<uint64_t>(version));
      ++figures.trained_tokens;
    }
}

ReplayRules rules_with(const std::string& late, uint64_t lag) {
  return {.super_batch = kSuperBatch,
          .capacity = (lag + 2) * kSuperBatch,
          .max_policy_lag = lag,
          .waits_for_late = late == "wait",
          .masks_late = late == "mask",
          .unit = UnitKind::group};
}

// An update takes a tick as well, if it has a super-batch.
Figures run(const std::string& late, uint64_t lag) {
  ReplayStore store(rules_with(late, lag), {}, 1);
  store.stop_at(kUpdates * kSuperBatch, 1);
  store.join(1, 64, kAnswers);
  store.applied(0, {});
  Rng random(derive_key(1, "lengths"));
  Figures figures;
  std::vector<Group> open;
  uint64_t sequence = 0;
  for (bool busy = true; busy;) {
    for (const CreditGrant& grant : store.grant())
      for (uint32_t i = 0; i < grant.count; ++i) open.emplace_back(random);
    std::erase_if(open, [&](Group& group) {
      if (!group.tick(store.version().number)) return false;
      return store.push(group.rollout(sequence++));
    });
    busy = !open.empty();
    const auto batch = store.sample();
    if (!batch) continue;
    busy = true;
    note_use(*batch, figures);
    store.trained(batch->index);
    store.applied(0, {0, batch->index + 1});
  }
  figures.ledger = store.ledger();
  figures.tokens = store.token_figures();
  CHECK(figures.ledger.balances());
  return figures;
}

}  // namespace

TEST_CASE("late_answers: with \"wait\" every answer is trained on, long ones too") {
  for (const uint64_t lag : {1, 4}) {
    CAPTURE(lag);
    const Figures figures = run("wait", lag);
    CHECK(figures.ledger == Ledger{.produced = kUpdates * kSuperBatch, .trained = kUpdates * kSuperBatch});
    CHECK(Figures::mean(figures.tokens.trained) == Figures::mean(figures.tokens.produced));
    CHECK(figures.largest_lag <= lag);
  }
}

TEST_CASE("late_answers: with \"drop\" the answers that are trained on are shorter than those that are produced") {
  for (const uint64_t lag : {1, 4}) {
    CAPTURE(lag);
    const Figures figures = run("drop", lag);
    CHECK(figures.ledger.dropped_stale > 0);
    CHECK(Figures::mean(figures.tokens.trained) < Figures::mean(figures.tokens.produced));
    CHECK(Figures::mean(figures.tokens.dropped) > Figures::mean(figures.tokens.produced));
    CHECK(figures.largest_lag <= lag);
  }
}

TEST_CASE("late_answers: with \"mask\" no token beyond the lag cap is trained on, and the ends of long answers are") {
  for (const uint64_t lag : {1, 4}) {
    CAPTURE(lag);
    const Figures figures = run("mask", lag), dropping = run("drop", lag);
    CHECK(figures.largest_lag <= lag);
    CHECK(figures.tokens.masked > 0);
    CHECK(figures.trained_tokens == figures.tokens.trained.tokens - figures.tokens.masked);
    CHECK(figures.ledger.trained == figures.tokens.trained.samples);
    CHECK(figures.ledger.dropped_stale == figures.tokens.dropped.samples);
    CHECK(figures.ledger.dropped_stale < dropping.ledger.dropped_stale);
    CHECK(Figures::mean(figures.tokens.trained) > Figures::mean(dropping.tokens.trained));
  }
}
