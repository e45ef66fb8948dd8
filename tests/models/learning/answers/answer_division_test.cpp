// Groups that are divided freely among micro-batches, against plain loops.

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_parts.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

AnswerBatch random_batch(Rng& rng) {
  AnswerBatch batch;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (uint64_t groups = 2 + rng.below(6); groups-- > 0;) {
    batch.prompts.resize(batch.prompts.size() + 1 + rng.below(6));
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    for (uint64_t answers = 1 + rng.below(8); answers-- > 0;) {
      batch.tokens.resize(batch.tokens.size() + 1 + rng.below(12));
      batch.offsets.push_back(static_cast<int64_t>(batch.tokens.size()));
      batch.rewards.push_back(0);
    }
    batch.group_offsets.push_back(batch.answers());
  }
  return batch;
}

int64_t group_tokens(const AnswerBatch& batch, int64_t g) { return batch.prompt_tokens(g) + batch.answer_tokens(g); }

// The answers of each micro-batch, one after the other into the best of all, which are looked through each time.
std::vector<MicroBatch> fill_by_hand(const AnswerBatch& batch, int64_t most) {
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  std::ranges::stable_sort(groups, std::greater<>(), [&](int64_t g) { return group_tokens(batch, g); });
  std::vector<MicroBatch> parts;
  std::vector<int64_t> tokens;
  for (const int64_t g : groups) {
    MicroBatch answers;
    for (int64_t a = 0; a < batch.answers(); ++a)
      if (batch.group_of(a) == g) answers.push_back(a);
    std::ranges::stable_sort(answers, std::greater<>(), [&](int64_t a) { return batch.tokens_of(a); });
    for (const int64_t a : answers) {
      const auto has_prompt = [&](size_t i) { return batch.group_of(parts[i].back()) == g; };
      const auto added = [&](size_t i) { return batch.tokens_of(a) + (has_prompt(i) ? 0 : batch.prompt_tokens(g)); };
      size_t best = parts.size();
      for (size_t i = 0; i < parts.size(); ++i) {
        if (tokens[i] + added(i) > most) continue;
        if (best == parts.size() || std::pair(!has_prompt(i), tokens[i]) < std::pair(!has_prompt(best), tokens[best]))
          best = i;
      }
      if (best == parts.size()) {
        parts.emplace_back();
        tokens.push_back(batch.tokens_of(a) + batch.prompt_tokens(g));
      } else {
        tokens[best] += added(best);
      }
      parts[best].push_back(a);
    }
  }
  return parts;
}

// With the search for the smallest limit that needs no more of them.
std::vector<MicroBatch> divide_by_hand(const AnswerBatch& batch, int64_t most) {
  int64_t longest = 0;
  for (int64_t a = 0; a < batch.answers(); ++a)
    longest = std::max(longest, batch.tokens_of(a) + batch.prompt_tokens(batch.group_of(a)));
  std::vector<MicroBatch> parts = fill_by_hand(batch, most);
  const size_t count = parts.size();
  for (int64_t low = longest, high = most; low < high;) {
    const int64_t middle = low + (high - low) / 2;
    if (std::vector<MicroBatch> even = fill_by_hand(batch, middle); even.size() > count) {
      low = middle + 1;
    } else {
      parts = std::move(even);
      high = middle;
    }
  }
  for (MicroBatch& part : parts) std::ranges::sort(part);
  parts.resize(count);
  std::ranges::sort(parts);
  return parts;
}

bool divides_a_group(const AnswerBatch& batch, const std::vector<MicroBatch>& parts) {
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      for (const int64_t a : parts[i])
        if (std::ranges::any_of(parts[j], [&](int64_t b) { return batch.group_of(a) == batch.group_of(b); }))
          return true;
  return false;
}

}  // namespace

TEST_CASE("answer_parts: groups that would fit as a whole are divided as plain loops divide them") {
  Rng rng(11);
  int divided = 0;
  for (int round = 0; round < 20000; ++round) {
    const AnswerBatch batch = random_batch(rng);
    int64_t most = 0;
    for (int64_t g = 0; g < batch.groups(); ++g) most = std::max(most, group_tokens(batch, g));
    most += static_cast<int64_t>(rng.below(4));
    std::vector<MicroBatch> parts = cut_answers(batch, most, {.input = 10, .label = 3, .pair = 1});
    if (!divides_a_group(batch, parts)) continue;
    ++divided;
    std::ranges::sort(parts);
    CAPTURE(round);
    REQUIRE(parts == divide_by_hand(batch, most));
  }
  CHECK(divided >= 20);
}

TEST_CASE("answer_parts: the micro-batches of one rank come with the most costly one first") {
  Rng rng(12);
  const AnswerCost cost{.input = 10, .label = 3, .pair = 1};
  for (int round = 0; round < 200; ++round) {
    const AnswerBatch batch = random_batch(rng);
    double before = std::numeric_limits<double>::infinity();
    for (const MicroBatch& part : cut_answers(batch, 40, cost)) {
      double sum = 0;
      for (int64_t group = -1; const int64_t a : part) {
        const int64_t of = batch.group_of(a), prompt = batch.prompt_tokens(of);
        if (std::exchange(group, of) != of) sum += cost.of_prompt(prompt);
        sum += cost.of_answer(batch.tokens_of(a), prompt);
      }
      REQUIRE(sum <= before);
      before = sum;
    }
  }
}
