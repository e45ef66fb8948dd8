// The longest turn of answers of several turns, and the penalty of long ones.

#include <algorithm>

#include "models/learning/answers/answer_learner.h"
#include "tests/models/learning/answers/messages.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Tokens of the longest turn of each answer.
std::vector<int64_t> longest_turns(const Answers& answers) {
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  const auto lengths = answers.messages.lengths.view<int32_t>();
  std::vector<int64_t> result;
  for (size_t a = 0; a + 1 < offsets.size(); ++a) {
    int64_t longest = 0, turn = 0;
    for (int64_t t = offsets[a]; t < offsets[a + 1]; ++t) {
      turn = lengths[static_cast<size_t>(t)] > 0 ? 1 : turn + 1;
      longest = std::max(longest, turn);
    }
    result.push_back(longest);
  }
  return result;
}

}  // namespace

TEST_CASE("answer_batch: the longest turn of an answer is that of all between its messages") {
  const auto rollout = with_messages(random_answers(20, 30, 3), 30, 3);
  const std::vector<int64_t> expected = longest_turns(rollout->answers());
  const auto batch = gather_answers(whole(rollout)), plain = gather_answers(whole(random_answers(20, 30, 3)));
  size_t shorter = 0;
  for (int64_t a = 0; a < batch->answers(); ++a) {
    CHECK(batch->longest_turn_of(a) == expected[static_cast<size_t>(a)]);
    CHECK(plain->longest_turn_of(a) == plain->tokens_of(a));
    shorter += batch->longest_turn_of(a) < batch->tokens_of(a) ? 1 : 0;
  }
  CHECK(shorter > 0);
}

TEST_CASE("answer_learner: the penalty of a long conversation is that of its longest turn, of the length of a turn") {
  constexpr int64_t kTurn = 4;
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  const auto rollout = with_messages(random_answers(9, model.shape.vocabulary, 3), model.shape.vocabulary, 3);
  LearnerConfig config = conversation_config();
  config.algorithm.overlong_penalty = 1.5;
  config.algorithm.overlong_buffer = 2;
  const auto learner =
      make_answer_learner(config, model, {.seed = 2, .answer_tokens = 3 * kTurn, .turn_tokens = kTurn});
  const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
  double sum = 0;
  const std::vector<int64_t> turns = longest_turns(rollout->answers());
  for (const int64_t turn : turns) sum -= 1.5 * static_cast<double>(std::clamp<int64_t>(turn - (kTurn - 2), 0, 2)) / 2;
  CHECK(sum < 0);
  CHECK(report.metrics.at("overlong_penalty") == doctest::Approx(sum / static_cast<double>(turns.size())));
}
