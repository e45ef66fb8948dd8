#include "models/learning/answers/answer_batch.h"

#include <algorithm>
#include <numeric>

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
    // Not all answers of a group.
    std::vector<int64_t> answers(static_cast<size_t>(batch->answers()));
    std::iota(answers.begin(), answers.end(), 0);
    if (answers.size() > 2) answers.erase(answers.begin() + 1);
    const PackedAnswers packed = pack_answers(*batch, answers);
    CHECK(packed.answers == answers);
    size_t answer = 0;
    for (const int64_t a : answers) {
      const int64_t begin = packed.offsets[answer], end = packed.offsets[answer + 1], g = batch->group_of(a);
      REQUIRE(end - begin == batch->tokens_of(a));
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        const int64_t token = batch->offsets[static_cast<size_t>(a)] + i - begin;
        CHECK(packed.places[at] == token);
        CHECK(packed.labels[at] == batch->tokens[static_cast<size_t>(token)]);
        const int32_t before =
            i == begin ? batch->prompts[static_cast<size_t>(batch->prompt_offsets[static_cast<size_t>(g) + 1] - 1)]
                       : batch->tokens[static_cast<size_t>(token) - 1];
        CHECK(packed.ids[static_cast<size_t>(packed.rows[at])] == before);
      }
      ++answer;
    }
    CHECK(answer + 1 == packed.offsets.size());
    int64_t tokens = 0;
    for (const LmSequence& sequence : packed.sequences) tokens += sequence.tokens;
    CHECK(tokens == static_cast<int64_t>(packed.ids.size()));
  }
}
