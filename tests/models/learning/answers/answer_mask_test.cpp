// Tokens of answers that are too old for an update: which they are, and that they have no part in it.

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/answer_targets.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kLeast = 5;

// Groups, each with a token of version `kLeast` or newer.
std::shared_ptr<AnswerBatch> masked_batch(int64_t groups, uint64_t seed, int64_t vocabulary = 21) {
  const auto rollout = random_answers(groups, vocabulary, seed);
  const auto group = rollout->answers().group.view<int32_t>();
  const auto offsets = rollout->answers().sampled.offsets.view<int64_t>();
  const auto version = rollout->answers().sampled.version.mutable_view<int64_t>();
  for (size_t a = 0; a < group.size(); ++a)
    if (a == 0 || group[a] != group[a - 1]) version[static_cast<size_t>(offsets[a])] = kLeast;
  SuperBatch batch = whole(rollout);
  batch.index = kLeast + 1;
  batch.least_version = kLeast;
  return gather_answers(batch);
}

// The mean over the tokens that are kept, by the aggregation, in float64.
double mean_of(const std::string& aggregation, const AnswerBatch& batch, const std::vector<double>& values) {
  double sum = 0, tokens = 0, sequences = 0;
  for (size_t a = 0; a + 1 < batch.offsets.size(); ++a) {
    double of_answer = 0, kept = 0;
    for (auto t = static_cast<size_t>(batch.offsets[a]); t < static_cast<size_t>(batch.offsets[a + 1]); ++t) {
      if (batch.versions[t] < static_cast<int64_t>(kLeast)) continue;
      of_answer += values[t];
      ++kept;
    }
    tokens += kept;
    sequences += kept > 0 ? 1 : 0;
    sum += aggregation == "seq-mean-token-mean" && kept > 0 ? of_answer / kept : of_answer;
  }
  return sum / (aggregation == "token-mean" ? tokens : sequences);
}

AlgorithmConfig algorithm_of(const std::string& aggregation) {
  AlgorithmConfig config;
  config.aggregation = aggregation;
  config.advantage = "rloo";
  config.surrogate = "reinforce";
  config.entropy_coef = 0.1;
  return config;
}

TrainerConfig sgd_like() {
  TrainerConfig config;
  config.adam_beta1 = 0;
  config.max_grad_norm = 0;
  return config;
}

std::vector<int64_t> all_groups(const AnswerBatch& batch) {
  std::vector<int64_t> result;
  for (int64_t g = 0; g < batch.groups(); ++g) result.push_back(g);
  return result;
}

struct Trained {
  StepReport report;
  std::map<std::string, Array> weights;
};

// After one step, in parts of `micro_batch_tokens`.
Trained train(const AnswerBatch& batch, AnswerTargets targets, CriticKind critic = CriticKind::none,
              const std::string& aggregation = "token-mean", int64_t micro_batch_tokens = 0) {
  LmModel model(tiny_shape(LmFamily::llama, 21));
  model.critic = critic;
  AnswerTrainer trainer(model, sgd_like(), choose_algorithm(algorithm_of(aggregation)),
                        {.answer_tokens = 5, .micro_batch_tokens = micro_batch_tokens});
  const UpdateSettings settings{.rates = {.policy = 1e-2, .value = 1e-2}, .loss = {.entropy_coef = 0.1}};
  Trained result{trainer.step(batch, targets, all_groups(batch), settings), {}};
  result.weights = trainer.weights().save();
  return result;
}

// Advantages, and values with returns, drawn by the seed.
AnswerTargets random_targets(const AnswerBatch& batch, uint64_t seed, bool values) {
  Rng random(seed);
  AnswerTargets targets;
  const auto draw = [&](std::vector<float>& to) {
    for (size_t t = 0; t < batch.tokens.size(); ++t) to.push_back(random.normal());
  };
  draw(targets.advantages);
  targets.kept = batch.kept;
  if (values) draw(targets.values), draw(targets.returns);
  return targets;
}

// The discounted score of each token's answer, minus the mean score of its group where `baseline` says so, of all
// answers: those without a token that is kept too.
std::vector<double> unwhitened(const AnswerBatch& batch, double gamma, bool baseline) {
  std::vector<double> result;
  for (int64_t a = 0; a < batch.answers(); ++a) {
    const int64_t group = batch.group_of(a);
    double sum = 0, answers = 0;
    for (int64_t other = 0; other < batch.answers(); ++other)
      if (batch.group_of(other) == group) sum += batch.rewards[static_cast<size_t>(other)], ++answers;
    const double mean = baseline && answers > 1 ? sum / answers : 0.0;
    for (int64_t t = batch.tokens_of(a); t-- > 0;)
      result.push_back(std::pow(gamma, t) * batch.rewards[static_cast<size_t>(a)] - mean);
  }
  return result;
}

bool same_bits(const std::map<std::string, Array>& a, const std::map<std::string, Array>& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a)
    if (tensor.dtype() == DType::f32 && !std::ranges::equal(tensor.view<float>(), b.at(name).view<float>()))
      return false;
  return true;
}

}  // namespace

TEST_CASE("answer_mask: tokens of versions below the least one of the batch are not kept") {
  const auto batch = masked_batch(6, 1);
  REQUIRE(batch->kept.size() == batch->tokens.size());
  REQUIRE(batch->versions.size() == batch->tokens.size());
  for (size_t t = 0; t < batch->tokens.size(); ++t)
    CHECK(batch->is_kept(t) == (batch->versions[t] >= static_cast<int64_t>(kLeast)));
}

TEST_CASE("answer_mask: a batch whose tokens are all new enough has no masks") {
  SuperBatch batch = whole(random_answers(6, 21, 1));
  batch.least_version = 1;
  CHECK(gather_answers(batch)->kept.empty());
}

TEST_CASE("answer_mask: the loss is a mean over the tokens that are kept, of numerator and denominator alike") {
  for (const char* aggregation : {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean"})
    for (const int64_t micro : {0, 12}) {
      CAPTURE(aggregation);
      CAPTURE(micro);
      const auto batch = masked_batch(7, 2);
      const AnswerTargets targets = random_targets(*batch, 3, false);
      LmModel model(tiny_shape(LmFamily::llama, 21));
      AnswerTrainer trainer(model, sgd_like(), choose_algorithm(algorithm_of(aggregation)), {.answer_tokens = 5});
      const std::vector<float> log_probs = trainer.start(*batch, {.policy = true}).log_probs;
      std::vector<double> losses;
      for (size_t t = 0; t < batch->tokens.size(); ++t)
        losses.push_back(-double{targets.advantages[t]} * double{log_probs[t]});
      const Trained trained = train(*batch, targets, CriticKind::none, aggregation, micro);
      CHECK(trained.report.loss.policy_loss == doctest::Approx(mean_of(aggregation, *batch, losses)).epsilon(1e-5));
    }
}

TEST_CASE("answer_mask: what masked tokens hold changes no bit of an update") {
  for (const CriticKind critic : {CriticKind::none, CriticKind::shared, CriticKind::separate}) {
    CAPTURE(static_cast<int>(critic));
    const auto batch = masked_batch(7, 4);
    AnswerTargets targets = random_targets(*batch, 5, critic != CriticKind::none);
    const Trained expected = train(*batch, targets, critic);
    REQUIRE(expected.report.applied());
    constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
    for (size_t t = 0; t < batch->tokens.size(); ++t) {
      if (batch->is_kept(t)) continue;
      batch->log_probs[t] = targets.advantages[t] = kNan;
      if (critic != CriticKind::none) targets.values[t] = targets.returns[t] = kNan;
    }
    const Trained trained = train(*batch, targets, critic);
    CHECK(trained.report.grad_norm == expected.report.grad_norm);
    CHECK(trained.report.loss.loss == expected.report.loss.loss);
    CHECK(trained.report.loss.value_loss == expected.report.loss.value_loss);
    CHECK(same_bits(trained.weights, expected.weights));
  }
}

TEST_CASE("answer_mask: advantages compare whole answers, also those without a token that is kept") {
  const auto batch = masked_batch(9, 6);
  AnswerBatch unmasked = *batch;
  unmasked.kept.clear();
  AlgorithmConfig config = algorithm_of("token-mean");
  config.normalize_advantages = false;
  const AlgorithmChoice choice = choose_algorithm(config);
  CHECK(answer_targets(choice, config, {}, *batch, {}).advantages ==
        answer_targets(choice, config, {}, unmasked, {}).advantages);
}

TEST_CASE("answer_mask: figures and whitening are of the tokens that are kept") {
  const auto batch = masked_batch(9, 7);
  AlgorithmConfig config = algorithm_of("token-mean");
  config.advantage = "gae";
  config.normalize_advantages = false;
  const AnswerStart start{.values = random_targets(*batch, 8, false).advantages};
  const auto raw = answer_targets(choose_algorithm(config), config, {}, *batch, start).advantages;
  double sum = 0, squares = 0, count = 0;
  for (size_t t = 0; t < raw.size(); ++t)
    if (batch->is_kept(t)) sum += raw[t], squares += double{raw[t]} * raw[t], ++count;
  config.normalize_advantages = true;
  const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, start);
  CHECK(targets.figures.advantages.count == count);
  CHECK(targets.figures.advantages.mean == doctest::Approx(sum / count));
  const double deviation = std::sqrt(squares / count - sum / count * (sum / count));
  for (size_t t = 0; t < raw.size(); ++t)
    if (batch->is_kept(t))
      CHECK(targets.advantages[t] == doctest::Approx((raw[t] - sum / count) / deviation).epsilon(1e-4));
}

TEST_CASE("answer_mask: estimators that whiten by themselves do so over the tokens that are kept") {
  AlgorithmConfig config = algorithm_of("token-mean");
  for (const bool cut : {false, true})
    for (const bool baseline : {false, true}) {
      const auto batch = masked_batch(9, 7);
      if (cut) mask_cut_answers(*batch);
      config.advantage = baseline ? "reinforce_plus_plus_baseline" : "reinforce_plus_plus";
      config.advantage_params = baseline ? "{}" : R"({"gamma": 0.9})";
      CAPTURE(config.advantage);
      const std::vector<double> raw = unwhitened(*batch, baseline ? 1.0 : 0.9, baseline);
      double mean = 0, variance = 0, count = 0;
      for (size_t t = 0; t < raw.size(); ++t)
        if (batch->is_kept(t)) mean += raw[t], ++count;
      mean /= count;
      for (size_t t = 0; t < raw.size(); ++t)
        if (batch->is_kept(t)) variance += (raw[t] - mean) * (raw[t] - mean) / (count - 1);
      const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, {});
      for (size_t t = 0; t < raw.size(); ++t) {
        const double expected = batch->is_kept(t) ? (raw[t] - mean) / std::sqrt(variance + 1e-8) : 0.0;
        CHECK(targets.advantages[t] == doctest::Approx(expected).epsilon(1e-5).scale(1));
      }
    }
}
