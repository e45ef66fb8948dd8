#include "models/learning/answers/answer_batch.h"

#include <algorithm>
#include <set>

#include "runtime/base/errors.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::vector<int32_t> ids(const std::vector<int32_t>& all, int64_t begin, int64_t end) {
  return {all.begin() + begin, all.begin() + end};
}

}  // namespace

TEST_CASE("answer_batch: chosen groups of several rollouts, in order") {
  const auto a = random_answers(5, 50, 1), b = random_answers(3, 50, 2);
  const SuperBatch super{.index = 4, .parts = {{a, {1, 4}, UnitKind::group}, {b, {0}, UnitKind::group}}};
  const auto batch = gather_answers(super);
  CHECK(batch->index == 4);
  REQUIRE(batch->groups() == 3);
  const auto whole_b = gather_answers(whole(b));
  CHECK(ids(batch->prompts, batch->prompt_offsets[2], batch->prompt_offsets[3]) ==
        ids(whole_b->prompts, 0, whole_b->prompt_offsets[1]));
  const auto whole_a = gather_answers(whole(a));
  CHECK(batch->answers_of(0) == whole_a->answers_of(1));
  CHECK(batch->answers_of(1) == whole_a->answers_of(4));
  CHECK(batch->answer_tokens(1) == whole_a->answer_tokens(4));
  const int64_t first = whole_a->group_offsets[4];
  CHECK(batch->rewards[static_cast<size_t>(batch->group_offsets[1])] == whole_a->rewards[static_cast<size_t>(first)]);
  CHECK(ids(batch->tokens, batch->offsets[static_cast<size_t>(batch->group_offsets[1])],
            batch->offsets[static_cast<size_t>(batch->group_offsets[2])]) ==
        ids(whole_a->tokens, whole_a->offsets[static_cast<size_t>(first)], whole_a->offsets.back()));
  CHECK(batch->samples == static_cast<uint64_t>(batch->answers()));
}

TEST_CASE("answer_batch: a group that the rollout does not have, and other units, are refused") {
  const auto a = random_answers(2, 50, 1);
  CHECK_THROWS_AS(gather_answers({.parts = {{a, {2}, UnitKind::group}}}), InvariantError);
  CHECK_THROWS_AS(gather_answers({.parts = {{a, {0}, UnitKind::column}}}), InvariantError);
}

TEST_CASE("answer_batch: every token of an answer is predicted by the row of the token before it") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto batch = gather_answers(whole(random_answers(4, 50, seed)));
    const std::vector<int64_t> groups = {2, 0};
    const PackedAnswers packed = pack_answers(*batch, groups);
    int64_t answer = 0;
    for (const int64_t g : groups)
      for (int64_t a = batch->group_offsets[static_cast<size_t>(g)];
           a < batch->group_offsets[static_cast<size_t>(g) + 1]; ++a, ++answer) {
        const int64_t begin = packed.offsets[static_cast<size_t>(answer)];
        REQUIRE(packed.offsets[static_cast<size_t>(answer) + 1] - begin ==
                batch->offsets[static_cast<size_t>(a) + 1] - batch->offsets[static_cast<size_t>(a)]);
        for (int64_t i = begin; i < packed.offsets[static_cast<size_t>(answer) + 1]; ++i) {
          const auto at = static_cast<size_t>(i);
          const int64_t token = batch->offsets[static_cast<size_t>(a)] + i - begin;
          CHECK(packed.places[at] == token);
          CHECK(packed.labels[at] == batch->tokens[static_cast<size_t>(token)]);
          const int32_t before =
              i == begin ? batch->prompts[static_cast<size_t>(batch->prompt_offsets[static_cast<size_t>(g) + 1] - 1)]
                         : batch->tokens[static_cast<size_t>(token) - 1];
          CHECK(packed.ids[static_cast<size_t>(packed.rows[at])] == before);
        }
      }
    CHECK(answer + 1 == static_cast<int64_t>(packed.offsets.size()));
    int64_t tokens = 0;
    for (const LmSequence& sequence : packed.sequences) tokens += sequence.tokens;
    CHECK(tokens == static_cast<int64_t>(packed.ids.size()));
  }
}

TEST_CASE("answer_batch: minibatches hold every group once, with nearly equal numbers of answers") {
  const auto batch = gather_answers(whole(random_answers(40, 50, 3)));
  for (const int64_t parts : {1, 3, 7, 100}) {
    const auto minibatches = group_minibatches(*batch, parts, 9);
    REQUIRE(static_cast<int64_t>(minibatches.size()) == parts);
    std::multiset<int64_t> seen;
    for (const auto& minibatch : minibatches) {
      int64_t answers = 0;
      for (const int64_t g : minibatch) answers += batch->answers_of(g);
      // A group of up to 4 answers belongs to one part, and its middle decides to which.
      CHECK(std::abs(static_cast<double>(answers) -
                     static_cast<double>(batch->answers()) / static_cast<double>(parts)) <= 4.0);
      seen.insert(minibatch.begin(), minibatch.end());
    }
    CHECK(seen.size() == 40);
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == 40);
  }
  CHECK(group_minibatches(*batch, 3, 9) == group_minibatches(*batch, 3, 9));
  CHECK(group_minibatches(*batch, 3, 9) != group_minibatches(*batch, 3, 10));
}

TEST_CASE("answer_batch: micro-batches keep to the limit unless a group alone exceeds it") {
  const auto batch = gather_answers(whole(random_answers(30, 50, 4)));
  const std::vector<int64_t> groups = group_minibatches(*batch, 1, 1).front();
  CHECK(group_micro_batches(*batch, groups, 0) == std::vector<std::vector<int64_t>>{groups});
  for (const int64_t most : {1, 12, 40}) {
    std::vector<int64_t> joined;
    for (const auto& part : group_micro_batches(*batch, groups, most)) {
      int64_t tokens = 0;
      for (const int64_t g : part) tokens += batch->prompt_tokens(g) + batch->answer_tokens(g);
      CHECK((tokens <= most || part.size() == 1));
      joined.insert(joined.end(), part.begin(), part.end());
    }
    CHECK(joined == groups);
  }
  CHECK(group_micro_batches(*batch, {}, 10).empty());
}
