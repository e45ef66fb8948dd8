// Answers that were cut at their largest length, and long ones: masks and penalties.

#include <algorithm>
#include <cmath>
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

constexpr int64_t kLongest = 6;

bool is_cut(const Answers& answers, size_t a) {
  return answers.sampled.finish.view<uint8_t>()[a] == static_cast<uint8_t>(Finish::length);
}

// Random answers with a baseline for each prompt.
std::shared_ptr<Rollout> answers_with_baselines(int64_t vocabulary, uint64_t seed) {
  auto rollout = random_answers(9, vocabulary, seed);
  Rng rng(derive_key(seed, "baselines"));
  std::vector<float> baselines;
  for (int64_t g = 0; g < rollout->answers().groups(); ++g) baselines.push_back(rng.uniform());
  rollout->answers().baselines = array_of(baselines);
  return rollout;
}

// The same without the answers that were cut, and without the prompts that have no other.
SuperBatch without_cut(const RolloutPtr& rollout) {
  auto result = std::make_shared<Rollout>(*rollout);
  const Answers& from = rollout->answers();
  Answers& to = result->answers();
  std::vector<int32_t> tokens, group;
  std::vector<int64_t> offsets{0}, version;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> flags;
  SuperBatch batch;
  batch.parts.push_back({result, {}, UnitKind::group});
  for (size_t a = 0; a < static_cast<size_t>(from.count()); ++a) {
    if (is_cut(from, a)) continue;
    const auto at = from.sampled.offsets.view<int64_t>();
    for (auto t = static_cast<size_t>(at[a]); t < static_cast<size_t>(at[a + 1]); ++t) {
      tokens.push_back(from.sampled.tokens.view<int32_t>()[t]);
      log_probs.push_back(from.sampled.log_probs.view<float>()[t]);
      version.push_back(0);
    }
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    group.push_back(from.group.view<int32_t>()[a]);
    rewards.push_back(from.rewards.view<float>()[a]);
    flags.push_back(0);
    std::vector<int32_t>& indices = batch.parts.front().indices;
    if (indices.empty() || indices.back() != group.back()) indices.push_back(group.back());
  }
  to.sampled = {.tokens = array_of(tokens),
                .offsets = array_of(offsets),
                .log_probs = array_of(log_probs),
                .version = array_of(version),
                .finish = array_of(flags)};
  to.group = array_of(group);
  to.rewards = array_of(rewards);
  to.right = array_of(flags);
  return batch;
}

struct Updated {
  UpdateReport report;
  LearnerState state;
};

Updated update(LearnerConfig config, const LmModel& model, const SuperBatch& batch, int64_t micro = 0) {
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient
  const auto learner =
      make_answer_learner(config, model, {.seed = 3, .answer_tokens = kLongest, .micro_batch_tokens = micro});
  const UpdateReport report = learner->update(*learner->stager()->stage(batch), 0);
  return {report, learner->save()};
}

void check_equal(const Updated& got, const Updated& wanted) {
  for (const char* name : {"policy_loss", "entropy", "advantage_mean", "advantage_std", "rollout_kl", "grad_norm"}) {
    CAPTURE(name);
    CHECK(got.report.metrics.at(name) == doctest::Approx(wanted.report.metrics.at(name)).epsilon(1e-5).scale(1));
  }
  for (const auto& [name, gradient] : wanted.state.optimizer) {
    if (!name.starts_with("first.")) continue;
    CAPTURE(name);
    const std::span<const float> a = got.state.optimizer.at(name).view<float>(), b = gradient.view<float>();
    float apart = 0;
    for (size_t i = 0; i < b.size(); ++i) apart = std::max(apart, std::abs(a[i] - b[i]));
    CHECK(apart < 1e-6);
  }
}

AlgorithmConfig algorithm(const std::string& advantage, const std::string& aggregation = "auto") {
  AlgorithmConfig config;
  config.advantage = advantage;
  config.aggregation = aggregation;
  config.normalize_advantages = false;
  config.entropy_coef = 0.1;
  config.kl_coef = 0.2;
  return config;
}

}  // namespace

TEST_CASE("answer_cut: a masked answer is in no numerator and no denominator of the loss") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const RolloutPtr rollout = answers_with_baselines(model.shape.vocabulary, 5);
  for (const char* mode : {"token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"})
    for (const int64_t micro : {0, 20}) {
      CAPTURE(mode);
      LearnerConfig config;
      config.algorithm = algorithm("remax", mode);
      const Updated wanted = update(config, model, without_cut(rollout));
      config.algorithm.mask_cut_answers = true;
      const Updated got = update(config, model, whole(rollout), micro);
      check_equal(got, wanted);
      CHECK(got.report.metrics.at("cut_fraction") > 0.2);
      CHECK(got.report.metrics.at("masked_fraction") > 0.2);
    }
}

TEST_CASE("answer_cut: a critic does not learn from masked answers either") {
  for (const CriticKind critic : {CriticKind::shared, CriticKind::separate}) {
    LmModel model = tiny_shape(LmFamily::qwen2, 3);
    model.critic = critic;
    const RolloutPtr rollout = answers_with_baselines(model.shape.vocabulary, 6);
    LearnerConfig config;
    config.algorithm = algorithm("gae");
    const Updated wanted = update(config, model, without_cut(rollout));
    config.algorithm.mask_cut_answers = true;
    const Updated got = update(config, model, whole(rollout), 20);
    check_equal(got, wanted);
    for (const char* name : {"value_loss", "explained_variance", "return_std"})
      CHECK(got.report.metrics.at(name) == doctest::Approx(wanted.report.metrics.at(name)).epsilon(1e-5).scale(1));
  }
}

TEST_CASE("answer_cut: a group is still compared with the scores of its masked answers") {
  const auto batch = gather_answers(whole(random_answers(7, 30, 3)));
  AlgorithmConfig config = algorithm("rloo");
  const auto advantages = [&] { return answer_targets(choose_algorithm(config), config, {}, *batch, {}).advantages; };
  const std::vector<float> before = advantages();
  mask_cut_answers(*batch);
  CHECK(std::ranges::count(batch->kept, 0) > 0);
  CHECK(advantages() == before);
}

TEST_CASE("answer_cut: an update whose answers were all cut has no step and changes nothing") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = random_answers(4, model.shape.vocabulary, 5);
  std::ranges::fill(rollout->answers().sampled.finish.mutable_view<uint8_t>(), static_cast<uint8_t>(Finish::length));
  LearnerConfig config;
  config.algorithm = algorithm("grpo");
  config.algorithm.mask_cut_answers = true;
  const auto learner = make_answer_learner(config, model, {.seed = 3, .answer_tokens = kLongest});
  const LearnerState before = learner->save();
  const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
  CHECK(report.empty());
  CHECK(report.metrics.at("masked_fraction") == 1.0);
  CHECK(learner->save().model == before.model);
}

TEST_CASE("answer_cut: the penalty grows over the buffer, is added after the clip, and does not touch the KL") {
  const auto batch = gather_answers(whole(random_answers(9, 30, 3)));
  AlgorithmConfig config = algorithm("gae");
  config.gamma = config.lambda = 0;  // the advantage is the reward, with values of 0
  config.reward_clip = 0.5;
  config.overlong_penalty = 1.5;
  config.overlong_buffer = 4;
  AnswerStart start;
  start.values.resize(batch->tokens.size());
  const AnswerTargets targets = answer_targets(choose_algorithm(config), config, {}, *batch, start, kLongest);
  double sum = 0;
  for (size_t a = 0; a < batch->rewards.size(); ++a) {
    const auto length = static_cast<double>(batch->offsets[a + 1] - batch->offsets[a]);
    const double penalty = length <= 2 ? 0.0 : -1.5 * (length - 2) / 4;
    const float got = targets.advantages[static_cast<size_t>(batch->offsets[a + 1]) - 1];
    CHECK(got == doctest::Approx(std::min(0.5, double{batch->rewards[a]}) + penalty).epsilon(1e-6).scale(1));
    sum += penalty;
  }
  CHECK(sum < 0);
  CHECK(*targets.figures.answers->penalty == doctest::Approx(sum / static_cast<double>(batch->answers())));
}
