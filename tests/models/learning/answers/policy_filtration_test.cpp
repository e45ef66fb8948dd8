// Updates of PF-PPO, which draw the answers that they train on by their scores.
#include "models/learning/answers/policy_filtration.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/models/learning/answers/moments.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kLongest = 6;

// Random answers with scores in [-1, 1), and log-probabilities by a reference.
std::shared_ptr<Rollout> scored_answers(int64_t groups, int64_t vocabulary, uint64_t seed) {
  auto rollout = random_answers(groups, vocabulary, seed);
  Rng rng(derive_key(seed, "scores"));
  for (float& reward : rollout->answers().rewards.mutable_view<float>()) reward = rng.uniform(-1, 1);
  std::vector<float> reference;
  while (std::ssize(reference) < rollout->answers().sampled.tokens.size()) reference.push_back(-3 * rng.uniform());
  rollout->answers().reference = array_of(reference);
  return rollout;
}

// These answers of the rollout, which may be named several times. Each has a message of one token before its second.
RolloutPtr repeated(const RolloutPtr& rollout, const std::vector<int64_t>& answers) {
  auto result = std::make_shared<Rollout>(*rollout);
  const Answers& from = rollout->answers();
  const auto prompts = from.prompts.view<int32_t>();
  const auto prompt_offsets = from.prompt_offsets.view<int64_t>(), at = from.sampled.offsets.view<int64_t>();
  AnswerLists lists;
  std::vector<int32_t> messages, lengths;
  std::vector<float> reference;
  int32_t last = -1;
  for (const int64_t answer : answers) {
    const auto a = static_cast<size_t>(answer);
    if (const int32_t g = from.group.view<int32_t>()[a]; g != last) {
      lists.prompts.insert(lists.prompts.end(), prompts.begin() + prompt_offsets[static_cast<size_t>(g)],
                           prompts.begin() + prompt_offsets[static_cast<size_t>(g) + 1]);
      lists.end_prompt();
      last = g;
    }
    for (auto t = static_cast<size_t>(at[a]); t < static_cast<size_t>(at[a + 1]); ++t) {
      lists.add_token(from.sampled.tokens.view<int32_t>()[t], from.sampled.log_probs.view<float>()[t],
                      from.sampled.version.view<int64_t>()[t]);
      reference.push_back(from.reference.view<float>()[t]);
      lengths.push_back(t == static_cast<size_t>(at[a]) + 1 ? 1 : 0);
      if (lengths.back() > 0) messages.push_back(lists.tokens.back() / 2);
    }
    const bool finished = from.sampled.finish.view<uint8_t>()[a] != 0;
    lists.end_answer(from.rewards.view<float>()[a], finished, finished);
  }
  Answers body = lists.answers();
  body.reference = array_of(reference);
  body.messages = {array_of(messages), array_of(lengths)};
  result->body = std::move(body);
  return result;
}

// All answers, once each.
RolloutPtr with_messages(const RolloutPtr& rollout) {
  std::vector<int64_t> all;
  for (int64_t a = 0; a < rollout->answers().count(); ++a) all.push_back(a);
  return repeated(rollout, all);
}

SuperBatch of_update(const RolloutPtr& rollout, uint64_t index) {
  SuperBatch batch = whole(rollout);
  batch.index = index;
  return batch;
}

// Every part of the loss.
LearnerConfig config_of(const std::string& filtration, const std::string& aggregation = "auto") {
  LearnerConfig config;
  config.algorithm.advantage = "gae";
  config.algorithm.policy_filtration = filtration;
  config.algorithm.aggregation = aggregation;
  config.algorithm.normalize_advantages = false;
  config.algorithm.entropy_coef = 0.1;
  config.algorithm.kl_coef = 0.2;
  config.algorithm.value_clip = 0.1;
  config.algorithm.rollout_correction = R"({"is": "token"})";
  config.reference.model = "start";
  config.reference.computed_by = "scorers";
  config.reference.place = "loss";
  config.reference.kl_coef = 0.3;
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient
  return config;
}

struct Updated {
  UpdateReport report;
  LearnerState state;
};

Updated update(const LearnerConfig& config, const LmModel& model, const SuperBatch& batch, int64_t micro = 0) {
  const auto learner =
      make_answer_learner(config, model, {.seed = 3, .answer_tokens = kLongest, .micro_batch_tokens = micro});
  const UpdateReport report = learner->update(*learner->stager()->stage(batch), 0);
  return {report, learner->save()};
}

// Those that such an update draws.
std::vector<int64_t> drawn_by(const LearnerConfig& config, const SuperBatch& batch) {
  const auto answers = gather_answers(batch);
  if (config.algorithm.mask_cut_answers) mask_cut_answers(*answers);
  return draw_answers(*answers, answers->rewards, policy_filtration(config.algorithm).value(), config.seed);
}

void check_equal(const Updated& got, const Updated& wanted) {
  for (const char* name : {"policy_loss", "value_loss", "entropy", "kl", "grad_norm"}) {
    CAPTURE(name);
    CHECK(got.report.metrics.at(name) == doctest::Approx(wanted.report.metrics.at(name)).epsilon(1e-5).scale(1));
  }
  CHECK(worst_difference(got.state.optimizer, wanted.state.optimizer) < 1e-4);
}

}  // namespace

TEST_CASE("policy_filtration: answers are drawn in proportion to their weights, without a kept token never") {
  const auto batch = gather_answers(whole(scored_answers(4, 30, 3)));
  mask_cut_answers(*batch);
  const std::vector<float>& scores = batch->rewards;
  std::vector<double> weights;
  for (size_t a = 0; a < scores.size(); ++a)
    weights.push_back(batch->cut[a] != 0 ? 0.0 : std::pow(std::abs(double{scores[a]}), 3));
  double sum = 0;
  int64_t candidates = 0;
  for (const double weight : weights) sum += weight, candidates += weight > 0;
  REQUIRE(candidates < batch->answers());
  constexpr int64_t kUpdates = 4000;
  std::vector<double> counts(scores.size());
  for (batch->index = 0; batch->index < kUpdates; ++batch->index) {
    const auto drawn = draw_answers(*batch, scores, {ResampleWeight::pow, 3}, 1);
    CHECK(static_cast<int64_t>(drawn.size()) == candidates);
    for (const int64_t a : drawn) ++counts[static_cast<size_t>(a)];
  }
  for (size_t a = 0; a < counts.size(); ++a)
    CHECK(counts[a] / static_cast<double>(kUpdates * candidates) ==
          doctest::Approx(weights[a] / sum).scale(1).epsilon(0.01));
}

TEST_CASE("policy_filtration: max_min draws the best and the worst answers of those that are kept") {
  const auto batch = gather_answers(whole(scored_answers(9, 30, 4)));
  mask_cut_answers(*batch);
  float low = 2, high = -2;
  for (size_t a = 0; a < batch->rewards.size(); ++a)
    if (batch->cut[a] == 0) low = std::min(low, batch->rewards[a]), high = std::max(high, batch->rewards[a]);
  std::set<float> scores;
  for (const int64_t a : draw_answers(*batch, batch->rewards, {ResampleWeight::max_min}, 1))
    scores.insert(batch->rewards[static_cast<size_t>(a)]);
  CHECK(scores == std::set<float>{low, high});
}

TEST_CASE("policy_filtration: the draw is one of the seed and the update") {
  const auto batch = gather_answers(whole(scored_answers(9, 30, 5)));
  const auto draw = [&](uint64_t index, uint64_t seed) {
    batch->index = index;
    return draw_answers(*batch, batch->rewards, {ResampleWeight::max_random}, seed);
  };
  const std::vector<int64_t> first = draw(7, 1);
  CHECK(std::ranges::is_sorted(first));
  CHECK(draw(7, 1) == first);
  CHECK(draw(8, 1) != first);
  CHECK(draw(7, 2) != first);
}

TEST_CASE("policy_filtration: answers that all score 0 are drawn alike") {
  const auto batch = gather_answers(whole(random_answers(9, 30, 5)));
  const std::vector<float> zeros(batch->rewards.size());
  const auto drawn = draw_answers(*batch, zeros, {ResampleWeight::pow, 2}, 1);
  CHECK(std::set<int64_t>(drawn.begin(), drawn.end()).size() > zeros.size() / 2);
}

TEST_CASE("policy_filtration: an update trains on each answer as often as it is drawn") {
  for (const CriticKind critic : {CriticKind::shared, CriticKind::separate})
    for (const char* mode : {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"})
      for (const bool mask : {false, true}) {
        CAPTURE(mode);
        CAPTURE(mask);
        LmModel model = tiny_shape(LmFamily::qwen2, 3);
        model.critic = critic;
        const RolloutPtr rollout = scored_answers(9, model.shape.vocabulary, 6);
        LearnerConfig config = config_of("pow", mode);
        config.algorithm.mask_cut_answers = mask;
        const SuperBatch all = of_update(with_messages(rollout), 2);
        const std::vector<int64_t> drawn = drawn_by(config, all);
        REQUIRE(std::ranges::adjacent_find(drawn) != drawn.end());
        const Updated got = update(config, model, all, 20);
        config.algorithm.policy_filtration = "none";
        check_equal(got, update(config, model, of_update(repeated(rollout, drawn), 2)));
      }
}

TEST_CASE("policy_filtration: the exact KL to a reference is that of the answers drawn") {
  LmModel model = tiny_shape(LmFamily::llama, 3);
  model.critic = CriticKind::shared;
  LearnerConfig config = config_of("pow");
  config.reference.computed_by = "trainer";
  config.reference.kl = "full";
  config.reference.kl_coef = 5;
  const RolloutPtr rollout = scored_answers(9, model.shape.vocabulary, 6);
  const SuperBatch all = of_update(with_messages(rollout), 2);
  const std::vector<int64_t> drawn = drawn_by(config, all);
  const Updated got = update(config, model, all, 20);
  config.algorithm.policy_filtration = "none";
  check_equal(got, update(config, model, of_update(repeated(rollout, drawn), 2)));
}

TEST_CASE("policy_filtration: advantages are compared with those of all answers, and so are their figures") {
  LmModel model = tiny_shape(LmFamily::llama, 3);
  model.critic = CriticKind::shared;
  const SuperBatch batch = of_update(scored_answers(9, model.shape.vocabulary, 7), 1);
  LearnerConfig config = config_of("max_random");
  config.algorithm.normalize_advantages = true;
  const UpdateReport got = update(config, model, batch).report;
  const std::vector<int64_t> drawn = drawn_by(config, batch);
  const std::set<int64_t> different(drawn.begin(), drawn.end());
  CHECK(got.metrics.at("drawn_fraction") ==
        doctest::Approx(static_cast<double>(different.size()) / static_cast<double>(drawn.size())));
  config.algorithm.policy_filtration = "none";
  const UpdateReport wanted = update(config, model, batch).report;
  CHECK(!wanted.metrics.contains("drawn_fraction"));
  for (const char* name : {"advantage_mean", "advantage_std", "return_mean", "explained_variance", "reference_kl"})
    CHECK(got.metrics.at(name) == wanted.metrics.at(name));
}

TEST_CASE("policy_filtration: targets go with their answers, whitened over all of them") {
  const auto batch = gather_answers(whole(scored_answers(5, 30, 8)));
  AlgorithmConfig config = config_of("pow").algorithm;
  config.rollout_correction = "{}";
  config.normalize_advantages = true;
  config.reward_clip = 0.5;
  AnswerStart start;
  start.values.resize(batch->tokens.size());
  const AnswerTargets all = answer_targets(choose_algorithm(config), config, {}, *batch, start, kLongest);
  for (size_t a = 0; a < all.scores.size(); ++a) CHECK(all.scores[a] == std::clamp(batch->rewards[a], -0.5f, 0.5f));
  const std::vector<int64_t> answers{1, 1, 4};
  const AnswerTargets some = targets_of(all, *batch, answers);
  const AnswerBatch of_some = batch_of(*batch, answers);
  REQUIRE(of_some.answers() == 3);
  for (size_t i = 0; i < answers.size(); ++i)
    for (int64_t t = 0; t < batch->tokens_of(answers[i]); ++t) {
      const auto from = static_cast<size_t>(batch->offsets[static_cast<size_t>(answers[i])] + t);
      const auto to = static_cast<size_t>(of_some.offsets[i] + t);
      CHECK(of_some.tokens[to] == batch->tokens[from]);
      CHECK(some.advantages[to] == all.advantages[from]);
      CHECK(some.returns[to] == all.returns[from]);
    }
}
