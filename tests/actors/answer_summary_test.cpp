// What stats reports of answers besides means: turns, percentiles of lengths, and groups whose rewards are all equal.
#include "actors/answer_summary.h"

#include <cmath>
#include <string>
#include <vector>

#include "actors/experience/answers/answer_counts.h"
#include "actors/experience/common/state_bytes.h"
#include "actors/replay_store.h"
#include "runtime/stats/snapshot.h"
#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Answers to one prompt with these rewards. Each has three tokens, and a message of two tokens before each of those
// whose number in the answer is in `messages`.
RolloutPtr group_of(const std::vector<float>& rewards, const std::vector<std::vector<size_t>>& messages = {},
                    uint64_t sequence = 0) {
  constexpr size_t kTokens = 3;
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = 1;
  rollout->sequence = sequence;
  rollout->samples = rollout->env_steps = rewards.size();
  std::vector<int64_t> offsets{0};
  std::vector<int32_t> lengths(messages.empty() ? 0 : kTokens * rewards.size());
  for (size_t a = 0; a < rewards.size(); ++a) {
    offsets.push_back(static_cast<int64_t>(kTokens * (a + 1)));
    if (!messages.empty())
      for (const size_t token : messages[a]) lengths[kTokens * a + token] = 2;
  }
  Answers& answers = rollout->body.emplace<Answers>();
  answers.prompt_offsets = Array::of(std::vector<int64_t>{0, 1});
  answers.sampled.offsets = Array::of(offsets);
  answers.sampled.version = Array::of(std::vector<int64_t>(kTokens * rewards.size()));
  answers.sampled.finish = Array::of(std::vector<uint8_t>(rewards.size()));
  answers.group = Array::of(std::vector<int32_t>(rewards.size()));
  answers.rewards = Array::of(rewards);
  answers.messages.lengths = Array::of(lengths);
  return rollout;
}

Episodes answers_of_lengths(const std::vector<int32_t>& lengths) {
  const auto count = static_cast<int64_t>(lengths.size());
  return {Array(DType::f32, {count}), Array::of(lengths), Array(DType::u8, {count})};
}

ReplayStore store_of(bool filters) {
  ReplayStore store(
      {.super_batch = 4, .capacity = 64, .max_policy_lag = 1, .filter_groups = filters, .unit = UnitKind::group}, {},
      /*seed=*/1);
  store.join(1, 8, 2);
  return store;
}

RunConfig config_with_groups(int64_t per_update) {
  RunConfig config = token_config();
  config.trainer.super_batch = 2 * per_update;
  return config;
}

}  // namespace

TEST_CASE("answer_counts: an answer has a turn more than it has messages, also where the others have none") {
  const SampleTokens counts = count_answers(*group_of({0, 1, 0}, {{}, {1, 2}, {2}}), nullptr);
  CHECK(counts.samples == 3);
  CHECK(counts.tokens == 9);
  CHECK(counts.turns == 1 + 3 + 2);
  CHECK(counts.most_turns == 3);
}

TEST_CASE("answer_counts: answers without messages have one turn") {
  const SampleTokens counts = count_answers(*group_of({0, 1}), nullptr);
  CHECK(counts.turns == 2);
  CHECK(counts.most_turns == 1);
}

TEST_CASE("replay_store: turns and groups with equal rewards are counted, also those that are filtered") {
  for (const bool filters : {false, true}) {
    ReplayStore store = store_of(filters);
    store.push(group_of({1, 1}, {{1}, {}}, 0));
    store.push(group_of({0, 1}, {{1, 2}, {}}, 1));
    store.push(group_of({0, 0}, {}, 2));
    const TokenFigures& figures = store.token_figures();
    CHECK(figures.groups == 3);
    CHECK(figures.alike == 2);
    CHECK(figures.produced.turns == 3 + 4 + 2);
    CHECK(figures.produced.most_turns == 3);
    CHECK(store.ledger().filtered == (filters ? 4 : 0));
  }
}

TEST_CASE("replay_store: an answer alone, and none, are no group whose rewards can be compared") {
  ReplayStore store = store_of(false);
  store.push(group_of({1}, {}, 0));
  store.push(group_of({}, {}, 1));
  CHECK(store.token_figures().groups == 0);
  CHECK(store.token_figures().alike == 0);
}

TEST_CASE("group_window: the share is that of the newest groups") {
  GroupWindow window(4);
  CHECK(std::isnan(window.share_alike()));
  window.note(1, 1);
  CHECK(window.share_alike() == 1);
  window.note(4, 1);
  CHECK(window.share_alike() == 0.25);
  window.note(4, 1);  // nothing new
  CHECK(window.share_alike() == 0.25);
  window.note(5, 1);  // the first one is gone
  CHECK(window.share_alike() == 0);
  window.note(105, 101);
  CHECK(window.share_alike() == 1);
  window.note(108, 101);
  CHECK(window.share_alike() == 0.25);
}

TEST_CASE("group_window: after saving and loading it goes on where it was") {
  GroupWindow window(3), restored(3);
  window.note(5, 2);
  from_bytes(to_bytes(window), "window", restored);
  for (GroupWindow* each : {&window, &restored}) each->note(7, 4);
  CHECK(restored.share_alike() == window.share_alike());
  CHECK(window.share_alike() == 2.0 / 3);
}

TEST_CASE("cut_window: the share is that of the newest answers, at least as many as the limit") {
  CutWindow window(4);
  CHECK(std::isnan(window.share()));
  window.note(2, 2);
  CHECK(window.share() == 1);
  window.note(4, 2);
  CHECK(window.share() == 0.5);
  window.note(4, 2);  // nothing new
  CHECK(window.share() == 0.5);
  window.note(5, 3);  // the first two count as long as there are only three without them
  CHECK(window.share() == 3.0 / 5);
  window.note(6, 3);
  CHECK(window.share() == 1.0 / 4);
  window.note(16, 3);
  CHECK(window.share() == 0);
}

TEST_CASE("cut_window: a window that was saved and loaded gives the same shares as the original") {
  CutWindow window(3), restored(3);
  window.note(2, 1);
  window.note(5, 2);
  from_bytes(to_bytes(window), "window", restored);
  for (CutWindow* each : {&window, &restored}) each->note(7, 4);
  CHECK(restored.share() == window.share());
  CHECK(window.share() == 3.0 / 5);
}

TEST_CASE("answer_summary: lengths are those of the window, turns and groups those that replay has counted") {
  AnswerSummary summary(config_with_groups(2), 100);
  EpisodeWindow window(100);
  CHECK(std::isnan(summary.figures(window).length_p50));
  CHECK(std::isnan(summary.figures(window).turns_mean));
  std::vector<int32_t> lengths;
  for (int32_t length = 300; length >= 1; --length) lengths.push_back(length);  // the last 100 remain
  window.add(answers_of_lengths(lengths));
  TokenFigures tokens;
  tokens.produced = {.samples = 4, .tokens = 40, .cut = 1, .turns = 10, .most_turns = 5};
  tokens.groups = 2;
  tokens.alike = 1;
  summary.note(tokens);
  const AnswerFigures figures = summary.figures(window);
  CHECK(figures.turns_mean == 2.5);
  CHECK(figures.turns_max == 5);
  CHECK(figures.length_min == 1);
  CHECK(figures.length_p50 == 51);  // the value in place round(0.5 * 99) of those in order, counted from 0
  CHECK(figures.length_p95 == 95);
  CHECK(figures.length_max == 100);
  CHECK(figures.groups_alike == 0.5);
  CHECK(figures.cut_fraction == 0.25);
}

TEST_CASE("answer_summary: groups are compared where the estimator compares the answers of a group") {
  RunConfig config = config_with_groups(16);
  config.algorithm.advantage = "grpo";
  CHECK(compared_groups(config) == 16);
  config.algorithm.advantage = "gae";
  CHECK(compared_groups(config) == 0);
  config.algorithm.advantage = "grpo";
  config.generation.answers = 1;
  CHECK(compared_groups(config) == 0);
}

TEST_CASE("stats_core: the figures of answers are in snapshots, and the same after saving and loading") {
  RunConfig config = config_with_groups(2);
  config.deterministic = true;
  StatsCore first(config, true, kStart), second(config, true, kStart);
  ReplayReport report = after(4);
  report.tokens.produced = {.samples = 4, .tokens = 30, .cut = 0, .turns = 6, .most_turns = 3};
  report.tokens.groups = 2;
  report.tokens.alike = 2;
  report.episodes = {answers_of_lengths({3, 9, 9, 9})};
  first.add(report, kStart);
  second.load(first.save(kStart), kStart);
  report = after(8);
  report.tokens.produced = {.samples = 8, .tokens = 60, .cut = 0, .turns = 10, .most_turns = 3};
  report.tokens.groups = 4;
  report.tokens.alike = 2;
  for (StatsCore* core : {&first, &second}) core->add(report, kStart);
  const StatsSnapshot s = second.take_view(kStart);
  CHECK(s.answers.turns_mean == 10.0 / 8);
  CHECK(s.answers.length_min == 3);
  CHECK(s.answers.length_p50 == 9);
  CHECK(s.answers.groups_alike == 0.5);
  CHECK(to_json(first.take_view(kStart)) == to_json(s));
}
