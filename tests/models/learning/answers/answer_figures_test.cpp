// The figures of the answers of an update, recomputed from its super-batch in plain loops in float64.

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/policy_filtration.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Metrics = std::map<std::string, double>;

constexpr int64_t kLongest = 6;
constexpr uint64_t kUpdate = 9;
constexpr int64_t kLeastVersion = 3;  // tokens of older ones are masked

struct Range {
  double least = std::numeric_limits<double>::infinity(), most = -least, sum = 0, count = 0;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
    sum += value;
    count += 1;
  }
};

void check_range(const Metrics& metrics, const std::string& name, const Range& wanted) {
  CAPTURE(name);
  REQUIRE(wanted.least < wanted.most);
  CHECK(metrics.at(name + "_min") == doctest::Approx(wanted.least).epsilon(1e-6));
  CHECK(metrics.at(name + "_max") == doctest::Approx(wanted.most).epsilon(1e-6));
  CHECK(metrics.at(name + "_mean") == doctest::Approx(wanted.sum / wanted.count).epsilon(1e-6));
}

LearnerConfig config_of(const std::string& advantage, int64_t epochs = 1, int64_t minibatches = 1) {
  LearnerConfig config;
  config.algorithm.advantage = advantage;
  config.algorithm.normalize_advantages = false;
  config.trainer.epochs = epochs;
  config.trainer.minibatches = minibatches;
  return config;
}

Metrics updated(const LearnerConfig& config, const LmModel& model, const SuperBatch& batch) {
  const auto learner = make_answer_learner(config, model, {.seed = 3, .answer_tokens = kLongest});
  return learner->update(*learner->stager()->stage(batch), 0).metrics;
}

SuperBatch masked(const RolloutPtr& rollout) {
  SuperBatch batch = whole(rollout);
  batch.index = kUpdate;
  batch.least_version = kLeastVersion;
  return batch;
}

// A message of two tokens before the second token of every answer.
std::shared_ptr<Rollout> with_messages(std::shared_ptr<Rollout> rollout) {
  Answers& answers = rollout->answers();
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  std::vector<int32_t> ids, lengths(static_cast<size_t>(offsets.back()), 0);
  for (size_t a = 0; a + 1 < offsets.size(); ++a) {
    if (offsets[a] + 1 == offsets[a + 1]) continue;
    lengths[static_cast<size_t>(offsets[a]) + 1] = 2;
    ids.insert(ids.end(), 2, 1);
  }
  answers.messages = {array_of(ids), array_of(lengths)};
  return rollout;
}

// The answers of each prompt, by their numbers in the rollout.
std::vector<std::vector<size_t>> groups_of(const Answers& answers) {
  std::vector<std::vector<size_t>> result(static_cast<size_t>(answers.groups()));
  const auto group = answers.group.view<int32_t>();
  for (size_t a = 0; a < group.size(); ++a) result[static_cast<size_t>(group[a])].push_back(a);
  return result;
}

// Tokens of an answer that are not masked.
int64_t kept_tokens(const Answers& answers, size_t a) {
  const auto offsets = answers.sampled.offsets.view<int64_t>(), versions = answers.sampled.version.view<int64_t>();
  return std::count_if(versions.begin() + offsets[a], versions.begin() + offsets[a + 1],
                       [](int64_t version) { return version >= kLeastVersion; });
}

int64_t kept_tokens(const Answers& answers, const std::vector<size_t>& group) {
  int64_t sum = 0;
  for (const size_t a : group) sum += kept_tokens(answers, a);
  return sum;
}

bool differ(const Answers& answers, const std::vector<size_t>& group) {
  const auto rewards = answers.rewards.view<float>();
  return std::ranges::any_of(group, [&](size_t a) { return rewards[a] != rewards[group.front()]; });
}

// Two prompts of one token with two answers each, of which one is right: of 2 and 3 tokens, and of 1 and 3.
std::shared_ptr<Rollout> two_groups() {
  auto rollout = std::make_shared<Rollout>();
  rollout->body = Answers{.prompts = array_of<int32_t>({1, 2}),
                          .prompt_offsets = array_of<int64_t>({0, 1, 2}),
                          .sampled = {.tokens = array_of<int32_t>({3, 4, 5, 6, 7, 8, 9, 3, 4}),
                                      .offsets = array_of<int64_t>({0, 2, 5, 6, 9}),
                                      .log_probs = array_of(std::vector<float>(9, -3.0f)),
                                      .version = array_of(std::vector<int64_t>(9, 9)),
                                      .finish = array_of<uint8_t>({0, 0, 0, 0})},
                          .group = array_of<int32_t>({0, 0, 1, 1}),
                          .rewards = array_of<float>({0, 1, 1, 0}),
                          .right = array_of<uint8_t>({0, 1, 1, 0})};
  return rollout;
}

}  // namespace

TEST_CASE("answer_figures: lengths of prompts and answers, and rewards; messages between turns are in no length") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = with_messages(random_answers(9, model.shape.vocabulary, 5));
  const Answers& answers = rollout->answers();
  Range prompts, lengths, rewards;
  const auto prompt_offsets = answers.prompt_offsets.view<int64_t>();
  const auto offsets = answers.sampled.offsets.view<int64_t>();
  for (size_t g = 1; g < prompt_offsets.size(); ++g)
    prompts.add(static_cast<double>(prompt_offsets[g] - prompt_offsets[g - 1]));
  for (size_t a = 1; a < offsets.size(); ++a) lengths.add(static_cast<double>(offsets[a] - offsets[a - 1]));
  for (const float reward : answers.rewards.view<float>()) rewards.add(reward);
  const Metrics metrics = updated(config_of("rloo"), model, masked(rollout));
  check_range(metrics, "prompt_length", prompts);
  check_range(metrics, "answer_length", lengths);
  check_range(metrics, "reward", rewards);
}

TEST_CASE("answer_figures: the smallest and the largest advantage of a token that has a loss, before whitening") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = random_answers(9, model.shape.vocabulary, 5);
  Rng rng(derive_key(5, "rewards"));
  for (float& reward : rollout->answers().rewards.mutable_view<float>()) reward = rng.uniform(-1, 1);
  const Answers& answers = rollout->answers();
  const auto rewards = answers.rewards.view<float>();
  Range wanted;
  for (const std::vector<size_t>& group : groups_of(answers)) {
    double sum = 0;
    for (const size_t a : group) sum += rewards[a];
    for (const size_t a : group) {
      const double others = group.size() > 1 ? (sum - rewards[a]) / static_cast<double>(group.size() - 1) : rewards[a];
      for (int64_t i = kept_tokens(answers, a); i-- > 0;) wanted.add(rewards[a] - others);
    }
  }
  for (const bool whitened : {false, true}) {
    LearnerConfig config = config_of("rloo");
    config.algorithm.normalize_advantages = whitened;
    check_range(updated(config, model, masked(rollout)), "advantage", wanted);
  }
}

TEST_CASE("answer_figures: computed_tokens are those of the groups whose rewards differ, in the last epoch alone") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = random_answers(9, model.shape.vocabulary, 5);
  const Answers& answers = rollout->answers();
  int64_t all = 0, computed = 0;
  for (const std::vector<size_t>& group : groups_of(answers)) {
    all += kept_tokens(answers, group);
    if (differ(answers, group)) computed += kept_tokens(answers, group);
  }
  REQUIRE(computed > 0);
  REQUIRE(computed < all);
  REQUIRE(all < answers.sampled.tokens.size());
  for (const int64_t epochs : {1, 2}) {
    const Metrics metrics = updated(config_of("rloo", epochs), model, masked(rollout));
    CHECK(metrics.at("answer_tokens") == static_cast<double>(all));
    CHECK(metrics.at("computed_tokens") == static_cast<double>(computed));
  }
}

TEST_CASE("answer_figures: where all groups are alike, computed_tokens are those of one of them") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = random_answers(9, model.shape.vocabulary, 5);
  std::ranges::fill(rollout->answers().rewards.mutable_view<float>(), 1.0f);
  std::set<double> of_groups;
  for (const std::vector<size_t>& group : groups_of(rollout->answers()))
    of_groups.insert(static_cast<double>(kept_tokens(rollout->answers(), group)));
  const Metrics metrics = updated(config_of("rloo"), model, masked(rollout));
  CHECK(metrics.at("computed_tokens") > 0);
  CHECK(of_groups.contains(metrics.at("computed_tokens")));
}

TEST_CASE("answer_figures: computed_tokens leave out a step that was skipped") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const auto rollout = two_groups();
  CHECK(updated(config_of("rloo", 1, 2), model, masked(rollout)).at("computed_tokens") == 9);
  rollout->answers().sampled.log_probs.mutable_view<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  const Metrics metrics = updated(config_of("rloo", 1, 2), model, masked(rollout));
  CHECK(metrics.at("skipped_steps") == 1);
  CHECK(metrics.at("computed_tokens") == 5);  // of the first prompt
  CHECK(metrics.at("answer_tokens") == 9);
}

TEST_CASE("answer_figures: micro-batches are counted in all epochs, computed_tokens in the last one") {
  const LmModel model = tiny_shape(LmFamily::llama, 3);
  const Metrics metrics = updated(config_of("rloo", 3, 2), model, masked(two_groups()));
  CHECK(metrics.at("micro_batches") == 6);
  CHECK(metrics.at("computed_tokens") == 9);
}

TEST_CASE("answer_figures: an answer that policy filtration draws several times counts as often in computed_tokens") {
  LmModel model = tiny_shape(LmFamily::llama, 3);
  model.critic = CriticKind::shared;
  const auto rollout = random_answers(9, model.shape.vocabulary, 5);
  LearnerConfig config = config_of("gae");
  config.algorithm.policy_filtration = "pow";
  const auto batch = gather_answers(masked(rollout));
  const std::vector<int64_t> drawn =
      draw_answers(*batch, batch->rewards, policy_filtration(config.algorithm).value(), config.seed);
  REQUIRE(std::ranges::adjacent_find(drawn) != drawn.end());
  int64_t computed = 0;
  for (const int64_t a : drawn) computed += kept_tokens(rollout->answers(), static_cast<size_t>(a));
  CHECK(updated(config, model, masked(rollout)).at("computed_tokens") == static_cast<double>(computed));
}

TEST_CASE("answer_figures: an update without a token that has a loss has no advantages, lags or ratios") {
  LmModel model = tiny_shape(LmFamily::llama, 3);
  model.critic = CriticKind::shared;
  const auto rollout = random_answers(4, model.shape.vocabulary, 5);
  Answers& answers = rollout->answers();
  answers.reference = answers.sampled.log_probs;
  std::ranges::fill(answers.sampled.finish.mutable_view<uint8_t>(), static_cast<uint8_t>(Finish::length));
  for (const char* correction : {"{}", R"({"is": "token"})"}) {
    CAPTURE(correction);
    LearnerConfig config = config_of("gae");
    config.algorithm.mask_cut_answers = true;
    config.algorithm.rollout_correction = correction;
    config.reference.model = "start";
    config.reference.computed_by = "scorers";
    const Metrics metrics = updated(config, model, whole(rollout));
    for (const char* name :
         {"advantage_min", "advantage_max", "advantage_mean", "advantage_std", "return_mean", "return_std",
          "explained_variance", "reference_kl", "rollout_lag_mean", "rollout_lag_max", "rollout_kl",
          "rollout_ratio_min", "rollout_weight_min", "rollout_rejected", "computed_tokens", "kl", "ratio_min"})
      CHECK_MESSAGE(!metrics.contains(name), name);
    for (const char* name : {"answer_length_mean", "reward_mean", "prompt_length_min", "reference_kl_coef"})
      CHECK_MESSAGE(metrics.contains(name), name);
    CHECK(metrics.at("masked_fraction") == 1);
    CHECK(metrics.at("cut_fraction") == 1);
    CHECK(metrics.at("answer_tokens") == 0);
  }
}
