#include "models/learning/answers/answer_parts.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A group with a prompt of that many tokens, and answers.
struct Lengths {
  int64_t prompt;
  std::vector<int64_t> answers;
};

AnswerBatch batch_of(const std::vector<Lengths>& groups) {
  AnswerBatch batch;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (const Lengths& group : groups) {
    batch.prompts.resize(batch.prompts.size() + static_cast<size_t>(group.prompt));
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    for (const int64_t length : group.answers) {
      batch.tokens.resize(batch.tokens.size() + static_cast<size_t>(length));
      batch.offsets.push_back(static_cast<int64_t>(batch.tokens.size()));
      batch.rewards.push_back(0);
    }
    batch.group_offsets.push_back(batch.answers());
  }
  return batch;
}

std::vector<Lengths> random_lengths(Rng& rng, int64_t groups, int64_t most_answers, int64_t most_prompt, int64_t most) {
  const auto up_to = [&](int64_t limit) { return 1 + static_cast<int64_t>(rng.below(static_cast<uint64_t>(limit))); };
  std::vector<Lengths> result;
  for (int64_t g = up_to(groups); g-- > 0;) {
    Lengths& group = result.emplace_back(Lengths{up_to(most_prompt), {}});
    for (int64_t a = up_to(most_answers); a-- > 0;) group.answers.push_back(up_to(most));
  }
  return result;
}

std::vector<int64_t> all_groups(const AnswerBatch& batch) {
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

// By hand: each prompt once.
int64_t tokens_by_hand(const AnswerBatch& batch, const MicroBatch& answers) {
  std::set<int64_t> groups;
  int64_t sum = 0;
  for (const int64_t a : answers) {
    int64_t g = 0;
    while (a >= batch.group_offsets[static_cast<size_t>(g) + 1]) ++g;
    if (groups.insert(g).second) sum += batch.prompt_tokens(g);
    sum += batch.tokens_of(a);
  }
  return sum;
}

// Every answer once, and none above the limit.
void check_cut(const AnswerBatch& batch, const std::vector<MicroBatch>& parts, int64_t most) {
  std::vector<int64_t> seen;
  for (const MicroBatch& part : parts) {
    REQUIRE(std::ranges::is_sorted(part));
    REQUIRE(tokens_by_hand(batch, part) <= most);
    REQUIRE(tokens_of(batch, part) == tokens_by_hand(batch, part));
    seen.insert(seen.end(), part.begin(), part.end());
  }
  std::ranges::sort(seen);
  std::vector<int64_t> all(static_cast<size_t>(batch.answers()));
  std::iota(all.begin(), all.end(), 0);
  REQUIRE(seen == all);
}

// The fewest micro-batches that hold the answers from `next` on, beside those in `parts`; tries every way.
size_t fewest(const AnswerBatch& batch, int64_t most, int64_t next, std::vector<MicroBatch>& parts, size_t best) {
  if (parts.size() >= best) return best;
  if (next == batch.answers()) return parts.size();
  for (size_t i = 0; i <= parts.size(); ++i) {
    if (i == parts.size()) parts.emplace_back();
    parts[i].push_back(next);
    if (tokens_by_hand(batch, parts[i]) <= most) best = fewest(batch, most, next + 1, parts, best);
    parts[i].pop_back();
    if (parts[i].empty()) {
      parts.pop_back();
      break;
    }
  }
  return best;
}

constexpr AnswerCost kCost{.input = 1000, .label = 200, .pair = 2};

double cost_by_hand(const AnswerBatch& batch, const MicroBatch& answers, const AnswerCost& cost = kCost) {
  double sum = 0;
  std::set<int64_t> groups;
  for (const int64_t a : answers) {
    const int64_t g = batch.group_of(a), prompt = batch.prompt_tokens(g);
    if (groups.insert(g).second)
      for (int64_t i = 0; i < prompt; ++i) sum += cost.input + cost.pair * static_cast<double>(i + 1);
    for (int64_t i = 0; i < batch.tokens_of(a); ++i)
      sum += cost.input + cost.label + cost.pair * static_cast<double>(prompt + i + 1);
  }
  return sum;
}

}  // namespace

TEST_CASE("answer_parts: minibatches hold every group once, with nearly equal numbers of answers") {
  const auto batch = gather_answers(whole(random_answers(40, 50, 3)));
  for (const int64_t parts : {1, 3, 7, 100}) {
    const auto minibatches = answer_minibatches(*batch, parts, 9);
    REQUIRE(static_cast<int64_t>(minibatches.size()) == parts);
    std::multiset<int64_t> seen;
    for (const auto& minibatch : minibatches) {
      int64_t answers = 0;
      for (const int64_t g : minibatch) answers += batch->answers_of(g);
      // A group of up to 4 answers belongs to one part.
      CHECK(std::abs(static_cast<double>(answers) -
                     static_cast<double>(batch->answers()) / static_cast<double>(parts)) <= 4.0);
      seen.insert(minibatch.begin(), minibatch.end());
    }
    CHECK(seen.size() == 40);
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 40);
  }
  CHECK(answer_minibatches(*batch, 3, 9) == answer_minibatches(*batch, 3, 9));
  CHECK(answer_minibatches(*batch, 3, 9) != answer_minibatches(*batch, 3, 10));
}

TEST_CASE("answer_parts: without a limit a minibatch is one micro-batch, and without groups there is none") {
  const AnswerBatch batch = batch_of({{3, {4, 5}}, {1, {900}}});
  CHECK(cut_answers(batch, 0, kCost) == std::vector<MicroBatch>{{0, 1, 2}});
  CHECK(cut_answers(batch, {}, {.most_tokens = 10}).front().empty());
  CHECK(cut_answers(batch_of({}), 10, kCost).empty());
}

TEST_CASE("answer_parts: only an answer that is too long by itself exceeds the limit, and has a pass of its own") {
  const AnswerBatch batch = batch_of({{3, {4, 50, 5}}});
  CHECK(cut_answers(batch, 12, kCost) == std::vector<MicroBatch>{{1}, {0, 2}});
}

// The example of verl: github.com/volcengine/verl, get_seqlen_balanced_partitions. Both sums are 1500, and the squares
// of the lengths are larger in the first.
TEST_CASE("answer_parts: six lengths with a limit of 2000 become two even micro-batches, the more costly one first") {
  std::vector<Lengths> groups;
  for (const int64_t length : {100, 900, 50, 950, 400, 600}) groups.push_back({10, {length - 10}});
  const AnswerBatch batch = batch_of(groups);
  CHECK(cut_answers(batch, 2000, kCost) == std::vector<MicroBatch>{{1, 5}, {0, 2, 3, 4}});
  const BalanceFigures figures = balance_of(batch, all_groups(batch), cut_answers(batch, 2000, kCost));
  CHECK(figures.count == 2);
  CHECK(figures.least == 1500);
  CHECK(figures.most == 1500);
  CHECK(figures.mean() == 1500);
  CHECK(figures.least_by_answers == 1050);
  CHECK(figures.most_by_answers == 1950);
}

TEST_CASE("answer_parts: 3,000 small batches: none above the limit, and at most one micro-batch more than needed") {
  size_t more = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng(derive_key(seed, "small"));
    AnswerBatch batch = batch_of(random_lengths(rng, 3, 3, 8, 12));
    while (batch.answers() > 7) batch = batch_of(random_lengths(rng, 3, 3, 8, 12));
    const int64_t most = 20 + static_cast<int64_t>(rng.below(20));
    CAPTURE(seed);
    const std::vector<MicroBatch> parts = cut_answers(batch, most, kCost);
    check_cut(batch, parts, most);
    std::vector<MicroBatch> none;
    const size_t least = fewest(batch, most, 0, none, static_cast<size_t>(batch.answers()));
    CHECK(parts.size() <= least + 1);
    more += parts.size() - least;
  }
  CHECK(more < 300);
}

TEST_CASE("answer_parts: 7,000 batches: none above the limit, the most costly first, and as few as the tokens need") {
  for (uint64_t seed = 0; seed < 7000; ++seed) {
    Rng rng(derive_key(seed, "large"));
    const AnswerBatch batch = batch_of(random_lengths(rng, 12, 8, 6, 40));
    const int64_t most = 150 + static_cast<int64_t>(rng.below(400));
    CAPTURE(seed);
    const std::vector<MicroBatch> parts = cut_answers(batch, most, kCost);
    check_cut(batch, parts, most);
    std::vector<double> costs;
    for (const MicroBatch& part : parts) costs.push_back(cost_by_hand(batch, part));
    CHECK(std::ranges::is_sorted(costs, std::greater<>()));
    int64_t tokens = 0;
    for (const int64_t g : all_groups(batch)) tokens += batch.prompt_tokens(g) + batch.answer_tokens(g);
    CHECK(std::ssize(parts) <= (tokens + most - 1) / most + 1);
  }
}

TEST_CASE("answer_parts: groups are divided only where that saves micro-batches, and their parts are even then") {
  // Two groups never fit together: six micro-batches, where four can hold all tokens.
  const AnswerBatch large = batch_of(std::vector<Lengths>(6, {2, {15, 15, 15, 15}}));
  const std::vector<MicroBatch> divided = cut_answers(large, 100, kCost);
  check_cut(large, divided, 100);
  CHECK(divided.size() == 4);
  for (const MicroBatch& part : divided) CHECK(part.size() == 6);
  const AnswerBatch small = batch_of(std::vector<Lengths>(6, {2, {8, 8, 8, 8}}));
  for (const MicroBatch& part : cut_answers(small, 70, kCost)) CHECK(part.size() % 4 == 0);
}

TEST_CASE("answer_parts: the costs of the micro-batches are even, attention included") {
  Rng rng(derive_key(5, "even"));
  std::vector<Lengths> groups;
  for (int i = 0; i < 64; ++i) {
    int64_t length = 1;
    while (length < 600 && rng.uniform() < 0.99F) ++length;
    groups.push_back({20, {length}});
  }
  const AnswerBatch batch = batch_of(groups);
  const std::vector<MicroBatch> parts = cut_answers(batch, 1500, kCost);
  REQUIRE(parts.size() > 3);
  const double first = cost_by_hand(batch, parts.front()), last = cost_by_hand(batch, parts.back());
  CHECK(first / last < 1.02);
}

TEST_CASE("answer_parts: shards get the same number of micro-batches, whose costs together are even") {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng(derive_key(seed, "ranks"));
    const AnswerBatch batch = batch_of(random_lengths(rng, 30, 8, 6, 40));
    for (const int64_t shards : {1, 2, 3}) {
      const auto of_shards =
          cut_answers(batch, all_groups(batch), {.most_tokens = 200, .shards = shards, .cost = kCost});
      REQUIRE(std::ssize(of_shards) == shards);
      std::vector<MicroBatch> all;
      for (const auto& parts : of_shards) {
        CHECK(parts.size() == of_shards.front().size());
        for (const MicroBatch& part : parts)
          if (!part.empty()) all.push_back(part);
      }
      check_cut(batch, all, 200);
    }
  }
}

// 64 prompts of 5 to 12 tokens with 8 answers each, nearly all of which are as long as their prompt asks for.
TEST_CASE("answer_parts: the work of shards differs by 5 % at most, with and without a limit on micro-batches") {
  LmShape shape;
  shape.vocabulary = 16, shape.hidden = 128, shape.layers = 3, shape.heads = shape.kv_heads = 4, shape.head_dim = 32;
  shape.intermediate = 384;
  const AnswerCost cost = answer_cost(shape);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(derive_key(seed, "reverse"));
    std::vector<Lengths> groups;
    for (int g = 0; g < 64; ++g) {
      const auto digits = 1 + static_cast<int64_t>(rng.below(8));
      Lengths& group = groups.emplace_back(Lengths{digits + 4, {}});
      for (int a = 0; a < 8; ++a) group.answers.push_back(rng.below(8) == 0 ? 10 : digits + 1);
    }
    const AnswerBatch batch = batch_of(groups);
    for (const int64_t shards : {2, 3, 4, 8}) {
      for (const int64_t most_tokens : {0, 512}) {
        CAPTURE(shards);
        CAPTURE(most_tokens);
        double most = 0, sum = 0;
        for (const std::vector<MicroBatch>& parts :
             cut_answers(batch, all_groups(batch), {.most_tokens = most_tokens, .shards = shards, .cost = cost})) {
          double of_shard = 0;
          for (const MicroBatch& part : parts) of_shard += cost_by_hand(batch, part, cost);
          most = std::max(most, of_shard);
          sum += of_shard;
        }
        CHECK(most / (sum / static_cast<double>(shards)) <= 1.05);
      }
    }
  }
}

TEST_CASE("answer_parts: the cost is that of the products of a decoder") {
  LmShape shape;
  shape.vocabulary = 11, shape.hidden = 6, shape.layers = 2, shape.heads = 4, shape.kv_heads = 2, shape.head_dim = 2;
  shape.intermediate = 10;
  const AnswerCost cost = answer_cost(shape);
  const double layer = 6 * 8 + 2 * 6 * 4 + 8 * 6 + 3 * 6 * 10;  // q, k and v, o, and the three of the MLP
  CHECK(cost.input == 2 * layer);
  CHECK(cost.label == 66);
  CHECK(cost.pair == 2 * 2 * 8);  // scores and sums over values
  CHECK(cost.of_prompt(3) == 3 * cost.input + 6 * cost.pair);
  CHECK(cost.of_answer(2, 3) == 2 * (cost.input + cost.label) + (4 + 5) * cost.pair);
}
