// Answers of several turns: what a task says between the turns is read and never trained on.

#include <algorithm>
#include <numeric>

#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/answer_targets.h"
#include "models/learning/answers/answer_trainer.h"
#include "models/learning/answers/lm_reference.h"
#include "models/lm/lm_generator.h"
#include "runtime/base/errors.h"
#include "tests/models/learning/answers/messages.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// All that follows the prompt of an answer, and which of it are tokens of the answer.
struct Whole {
  std::vector<int32_t> ids;
  std::vector<bool> sampled;
};

Whole whole_answer(const AnswerBatch& batch, int64_t answer) {
  Whole result;
  for (int64_t t = batch.offsets[static_cast<size_t>(answer)]; t < batch.offsets[static_cast<size_t>(answer) + 1];
       ++t) {
    const auto at = static_cast<size_t>(t);
    for (int64_t m = batch.message_offsets[at]; m < batch.message_offsets[at + 1]; ++m) {
      result.ids.push_back(batch.messages[static_cast<size_t>(m)]);
      result.sampled.push_back(false);
    }
    result.ids.push_back(batch.tokens[at]);
    result.sampled.push_back(true);
  }
  return result;
}

// One turn of an answer whose prompt is in slot 0, after a history, which is computed in parts of two tokens.
void sample_turn(Generator& generator, int64_t prompt_tokens, int32_t slot, uint64_t key, int64_t tokens,
                 std::vector<int32_t>& history, std::vector<int32_t>& sampled, std::vector<float>& log_probs) {
  size_t computed = 0;
  for (int64_t index = 0; index < tokens;) {
    const size_t count = std::min<size_t>(2, history.size() - computed);
    const std::vector<TokenDraw> draw{{key, index, false}};
    GeneratorPart part{.prompt = 0,
                       .answer = slot,
                       .tokens = std::span(history).subspan(computed, count),
                       .before = static_cast<int64_t>(computed),
                       .prompt_tokens = prompt_tokens};
    computed += count;
    if (computed == history.size()) part.draws = draw;
    const std::vector<DrawnToken> drawn = generator.compute({&part, 1});
    if (drawn.empty()) continue;
    ++index;
    history.push_back(drawn[0].token);
    sampled.push_back(drawn[0].token);
    log_probs.push_back(drawn[0].log_prob);
  }
}

// One group: answers of one, two and three turns.
RolloutPtr sampled_conversations(const LmShape& shape, Generator& generator) {
  const std::vector<int32_t> prompt = random_ids(shape, 4, 1);
  std::vector<int32_t> tokens, messages, lengths;
  std::vector<int64_t> offsets{0};
  std::vector<float> log_probs;
  std::vector<std::vector<int32_t>> first(3);
  std::vector<std::vector<float>> probs(3);
  sample(generator, prompt, 0, first, probs, 2);
  for (size_t a = 0; a < 3; ++a) {
    std::vector<int32_t> history = first[a], sampled = first[a];
    lengths.resize(tokens.size() + sampled.size());
    log_probs.insert(log_probs.end(), probs[a].begin(), probs[a].end());
    for (size_t turn = 1; turn <= a; ++turn) {
      const std::vector<int32_t> message = random_ids(shape, static_cast<int64_t>(turn + 1), 9 * a + turn);
      history.insert(history.end(), message.begin(), message.end());
      messages.insert(messages.end(), message.begin(), message.end());
      lengths.push_back(static_cast<int32_t>(message.size()));
      sample_turn(generator, static_cast<int64_t>(prompt.size()), static_cast<int32_t>(a), derive_key(a, "turn", turn),
                  2, history, sampled, log_probs);
      lengths.resize(tokens.size() + sampled.size());
    }
    tokens.insert(tokens.end(), sampled.begin(), sampled.end());
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  const std::vector<uint8_t> flags(3, 1);
  auto rollout = std::make_shared<Rollout>();
  rollout->body = Answers{.prompts = array_of(prompt),
                          .prompt_offsets = Array::of<int64_t>({2}, {0, 4}),
                          .sampled = {.tokens = array_of(tokens),
                                      .offsets = array_of(offsets),
                                      .log_probs = array_of(log_probs),
                                      .version = array_of(std::vector<int64_t>(tokens.size(), 1)),
                                      .finish = array_of(flags)},
                          .group = Array(DType::i32, {3}),
                          .rewards = Array::of<float>({3}, {0, 1, 2}),
                          .right = array_of(flags),
                          .messages = {array_of(messages), array_of(lengths)}};
  return rollout;
}

std::vector<int64_t> all_groups(const AnswerBatch& batch) {
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  return groups;
}

}  // namespace

TEST_CASE("answer_batch: messages are inputs at their places, and no row predicts them") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto batch = gather_answers(whole(with_messages(random_answers(4, 50, seed), 50, seed)));
    for (const bool last_tokens : {false, true}) {
      const std::vector<int64_t> groups{1, 3};
      std::vector<int64_t> answers;
      for (const int64_t g : groups)
        for (int64_t a = batch->group_offsets[static_cast<size_t>(g)];
             a < batch->group_offsets[static_cast<size_t>(g) + 1]; ++a)
          answers.push_back(a);
      const PackedAnswers packed = pack_answers(*batch, answers, last_tokens);
      size_t row = 0, input = 0, answer = 0;
      for (const int64_t g : groups) {
        const auto prompt_end = static_cast<int64_t>(input) + batch->prompt_tokens(g);
        input = static_cast<size_t>(prompt_end);
        for (int64_t a = batch->group_offsets[static_cast<size_t>(g)];
             a < batch->group_offsets[static_cast<size_t>(g) + 1]; ++a, ++answer) {
          const Whole expected = whole_answer(*batch, a);
          const size_t inputs = expected.ids.size() - (last_tokens ? 0 : 1);
          for (size_t i = 0; i < expected.ids.size(); ++i) {
            if (i < inputs) CHECK(packed.ids[input + i] == expected.ids[i]);
            if (!expected.sampled[i]) continue;
            CHECK(packed.labels[row] == expected.ids[i]);
            CHECK(packed.rows[row++] == (i == 0 ? prompt_end - 1 : static_cast<int64_t>(input + i) - 1));
          }
          input += inputs;
          if (last_tokens) CHECK(packed.last_rows[answer] == static_cast<int64_t>(input) - 1);
          CHECK(packed.offsets[answer + 1] == static_cast<int64_t>(row));
        }
      }
      CHECK(row == packed.rows.size());
      CHECK(input == packed.ids.size());
    }
  }
}

TEST_CASE("answer_batch: chosen groups bring their messages, and the limit of a micro-batch counts these") {
  const auto rollout = with_messages(random_answers(5, 50, 3), 50, 3);
  const auto all = gather_answers(whole(rollout));
  const auto some = gather_answers({.parts = {{rollout, {4, 2}, UnitKind::group}}});
  int64_t answer = 0;
  for (const int64_t g : {4, 2})
    for (int64_t a = all->group_offsets[static_cast<size_t>(g)]; a < all->group_offsets[static_cast<size_t>(g) + 1];
         ++a)
      CHECK(whole_answer(*some, answer++).ids == whole_answer(*all, a).ids);
  for (int64_t a = 0; a < all->answers(); ++a) {
    const PackedAnswers packed = pack_answers(*all, {{a}}, /*last_tokens=*/true);
    CHECK(all->prompt_tokens(all->group_of(a)) + all->read_tokens_of(a) == static_cast<int64_t>(packed.ids.size()));
  }
}

TEST_CASE("answer_learner: tokens of all turns are trained with a ratio of exactly 1") {
  for (const LmFamily family : kFamilies) {
    const LmModel model =
        family == LmFamily::qwen2 ? lora_model(tiny_shape(family, 3), 4, 8) : LmModel(tiny_shape(family, 3));
    for (const int threads : {1, 2}) {
      const auto learner =
          make_answer_learner(conversation_config(), model, {.seed = 2, .answer_tokens = 13, .threads = threads});
      const auto generator = make_lm_generator(model, slots(1.0, 3 - threads));
      generator->load(*learner->snapshot({1, 0}));
      const auto staged = learner->stager()->stage(whole(sampled_conversations(model.shape, *generator)));
      const UpdateReport report = learner->update(*staged, 0);
      CHECK(report.metrics.at("ratio_min") == 1.0);
      CHECK(report.metrics.at("ratio_max") == 1.0);
      CHECK(report.metrics.at("grad_norm") > 0.0);
    }
  }
}

TEST_CASE("lm_reference: log-probabilities of the tokens of all turns are those of the policy that sampled them") {
  const LmShape shape = tiny_shape(LmFamily::llama, 3);
  const auto learner = make_answer_learner(conversation_config(), shape, {.seed = 2, .answer_tokens = 13});
  const auto generator = make_lm_generator(shape, slots(1.0, 1));
  generator->load(*learner->snapshot({1, 0}));
  const RolloutPtr rollout = sampled_conversations(shape, *generator);
  const auto reference = make_lm_reference(shape, {});
  reference->load(*learner->snapshot({1, 0}));
  const Answers& a = rollout->answers();
  const PromptAnswers asked{a.prompts.view<int32_t>(), a.sampled.tokens.view<int32_t>(),
                            a.sampled.offsets.view<int64_t>(), a.messages.ids.view<int32_t>(),
                            a.messages.lengths.view<int32_t>()};
  CHECK(std::ranges::equal(reference->log_probs({&asked, 1}), a.sampled.log_probs.view<float>()));
}

// The oracle: the same tokens as one answer, with an advantage of exactly 0 for those of messages.
TEST_CASE("answer_trainer: a message changes the gradient only as an input") {
  const LmShape shape = tiny_shape(LmFamily::llama, 5);
  AlgorithmConfig algorithm;
  algorithm.surrogate = "reinforce";
  algorithm.aggregation = "seq-mean-token-sum-norm";
  const AlgorithmChoice choice = choose_algorithm(algorithm);
  const auto batch = gather_answers(whole(with_messages(random_answers(3, shape.vocabulary, 6), shape.vocabulary, 6)));
  AnswerBatch flat = *batch;
  flat.messages.clear();
  flat.message_offsets.clear();
  flat.tokens.clear();
  flat.offsets = {0};
  AnswerTargets targets, flat_targets;
  for (int64_t a = 0; a < batch->answers(); ++a) {
    const Whole all = whole_answer(*batch, a);
    flat.tokens.insert(flat.tokens.end(), all.ids.begin(), all.ids.end());
    flat.offsets.push_back(static_cast<int64_t>(flat.tokens.size()));
    for (const bool sampled : all.sampled) {
      const float advantage = sampled ? 0.5f + 0.1f * static_cast<float>(targets.advantages.size()) : 0.0f;
      flat_targets.advantages.push_back(advantage);
      if (sampled) targets.advantages.push_back(advantage);
    }
  }
  REQUIRE(flat.tokens.size() > batch->tokens.size());
  flat.log_probs.assign(flat.tokens.size(), -1.0f);
  const UpdateSettings settings{.rates = {.policy = 0.1, .value = 0}, .loss = {}};
  const auto stepped = [&](const AnswerBatch& of, const AnswerTargets& with) {
    AnswerTrainer trainer(shape, {}, choice, {.answer_tokens = 20});
    const StepReport report = trainer.step(of, with, all_groups(of), settings);
    return std::pair(report, trainer.weights().save());
  };
  const auto [report, weights] = stepped(*batch, targets);
  const auto [flat_report, flat_weights] = stepped(flat, flat_targets);
  CHECK(report.grad_norm == flat_report.grad_norm);
  CHECK(weights == flat_weights);
}

// The steps of GAE are the sampled tokens: one whose answer goes on after a message is followed by the value there.
TEST_CASE("answer_targets: rewards of turns come with their last tokens, and sum up to the score") {
  const auto rollout = with_messages(random_answers(7, 30, 3), 30, 3);
  auto& answers = std::get<Answers>(rollout->body);
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  std::vector<float> of_turns(static_cast<size_t>(offsets.back()), 0.0f);
  for (size_t t = 0; t + 1 < of_turns.size(); ++t)
    if (answers.messages.lengths.view<int32_t>()[t + 1] > 0) of_turns[t] = 0.1f * static_cast<float>(t % 7) - 0.2f;
  answers.turn_rewards = array_of(of_turns);
  const auto batch = gather_answers(whole(rollout));
  CHECK(batch->turn_rewards == of_turns);
  AlgorithmConfig config;
  config.advantage = "gae";
  config.normalize_advantages = false;
  config.gamma = 0.9;
  config.lambda = 0.8;
  AnswerStart start;
  Rng rng(derive_key(7, "values"));
  for (size_t t = 0; t < batch->tokens.size(); ++t) start.values.push_back(rng.normal());
  const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, start);
  for (size_t a = 0; a + 1 < offsets.size(); ++a) {
    double advantage = 0, last = batch->rewards[a];
    for (int64_t t = offsets[a]; t + 1 < offsets[a + 1]; ++t) last -= of_turns[static_cast<size_t>(t)];
    for (int64_t t = offsets[a + 1]; t-- > offsets[a];) {
      const auto at = static_cast<size_t>(t);
      const bool end = t + 1 == offsets[a + 1];
      const double reward = end ? last : of_turns[at], next = end ? 0.0 : start.values[at + 1];
      advantage = reward + 0.9 * next - start.values[at] + 0.9 * 0.8 * advantage;
      CHECK(targets.advantages[at] == doctest::Approx(advantage).epsilon(1e-5).scale(1));
    }
  }
}

// 0.1 and 0.3 are no binary fractions: taken from a score and added again, they leave different sums.
TEST_CASE("answer_targets: estimators that compare answers take the whole score, however it is divided among turns") {
  const auto rollout = random_answers(9, 30, 3);
  auto& answers = std::get<Answers>(rollout->body);
  answers.baselines = array_of(std::vector<float>(9, 0.5f));
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  std::vector<float> of_turns(static_cast<size_t>(offsets.back()), 0.0f);
  for (size_t a = 0; a + 1 < offsets.size(); ++a) of_turns[static_cast<size_t>(offsets[a])] = a % 2 == 0 ? 0.1f : 0.3f;
  const AnswerStart start{.log_probs = std::vector<float>(of_turns.size(), -1.0f),
                          .sum_pi_squared = std::vector<float>(of_turns.size(), 0.4f)};
  for (const char* name : {"grpo", "grpo_vectorized", "dr_grpo", "reinforce_plus_plus_baseline", "rloo", "opo", "gpg",
                           "remax", "optimal_token_baseline", "tir_optimal_token_baseline"})
    for (const float score : {1.0f, 1000.0f}) {
      CAPTURE(name);
      AlgorithmConfig config;
      config.advantage = name;
      std::ranges::fill(answers.rewards.mutable_view<float>(), score);
      const auto advantages = [&](const std::vector<float>& turns) {
        answers.turn_rewards = array_of(turns);
        return answer_targets(choose_algorithm(config), config, {}, *gather_answers(whole(rollout)), start).advantages;
      };
      CHECK(advantages(of_turns) == advantages(std::vector<float>(of_turns.size(), 0.0f)));
    }
}

TEST_CASE("answer_targets: grpo gives answers with equal scores no advantage, whatever their turns got") {
  AnswerBatch batch;
  batch.prompts = {1};
  batch.tokens = {1, 2, 3, 4};
  batch.log_probs = {-1, -1, -1, -1};
  batch.prompt_offsets = {0, 1};
  batch.group_offsets = {0, 2};
  batch.offsets = {0, 2, 4};
  batch.turn_rewards = {0.1f, 0, 0.3f, 0};
  AlgorithmConfig config;
  config.advantage = "grpo";
  for (const float score : {1.0f, 1000.0f}) {
    batch.rewards = {score, score};
    CHECK(answer_targets(choose_algorithm(config), config, {}, batch, {}).advantages == std::vector<float>(4, 0.0f));
  }
}

TEST_CASE("answer_targets: reinforce_plus_plus counts the reward of a turn for the tokens up to its end alone") {
  AnswerBatch batch;
  batch.prompts = {1};
  batch.tokens = {1, 2, 3, 4};
  batch.log_probs = {-1, -1, -1, -1};
  batch.prompt_offsets = {0, 1};
  batch.group_offsets = {0, 1};
  batch.offsets = {0, 4};
  batch.rewards = {1};
  batch.turn_rewards = {0, 0.25f, 0, 0};
  AlgorithmConfig config;
  config.advantage = "reinforce_plus_plus";
  config.advantage_params = R"({"gamma": 1, "whiten": false})";
  CHECK(answer_targets(choose_algorithm(config), config, {}, batch, {}).advantages ==
        std::vector<float>{1, 1, 0.75f, 0.75f});
}

TEST_CASE("answer_batch: groups with and without rewards of turns go together") {
  const auto first = random_answers(2, 30, 1), second = random_answers(2, 30, 2), third = random_answers(2, 30, 3);
  auto& answers = std::get<Answers>(second->body);
  const auto count = static_cast<size_t>(answers.sampled.tokens.size());
  answers.turn_rewards = array_of(std::vector<float>(count, 0.5f));
  SuperBatch super;
  for (const auto& rollout : {first, second, third}) super.parts.push_back({rollout, {0, 1}, UnitKind::group});
  const auto batch = gather_answers(super);
  REQUIRE(batch->turn_rewards.size() == batch->tokens.size());
  CHECK(std::ranges::count(batch->turn_rewards, 0.5f) == static_cast<std::ptrdiff_t>(count));
  CHECK(batch->turn_rewards.front() == 0.0f);
  CHECK(batch->turn_rewards.back() == 0.0f);
}
