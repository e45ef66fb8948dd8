// Surrogates that compare all tokens of a minibatch, also those of groups whose answers were scored alike.

#include <numeric>
#include <string>
#include <vector>

#include "models/learning/answers/answer_trainer.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kKey = 7;

AlgorithmChoice choice_of(const std::string& surrogate) {
  AlgorithmConfig config;
  config.advantage = "grpo";
  config.surrogate = surrogate;
  config.surrogate_params =
      surrogate == "kl_cov" ? R"({"fraction": 0.2})" : R"({"fraction": 0.2, "cov_low": 0, "cov_high": 1000})";
  return choose_algorithm(config);
}

// 0 in every second group.
std::vector<float> some_advantages(const AnswerBatch& batch, Rng& random) {
  std::vector<float> result;
  for (int64_t g = 0; g < batch.groups(); ++g)
    for (int64_t t = 0; t < batch.answer_tokens(g); ++t) result.push_back(g % 2 == 0 ? random.normal() : 0.0f);
  return result;
}

// The function of the library over the tokens of these groups.
SurrogateSums sums_of(const AlgorithmChoice& choice, const AnswerBatch& batch, const std::vector<float>& advantages,
                      const std::vector<float>& log_probs, const std::vector<int64_t>& groups) {
  std::vector<float> now, old, of_tokens;
  for (const int64_t g : groups)
    for (int64_t i = 0; i < batch.answer_tokens(g); ++i) {
      const auto t = static_cast<size_t>(batch.first_token(g) + i);
      now.push_back(log_probs[t]);
      old.push_back(batch.log_probs[t]);
      of_tokens.push_back(advantages[t]);
    }
  std::vector<float> losses(now.size());
  return choice.surrogate({.log_probs = now, .old_log_probs = old, .advantages = of_tokens, .key = kKey},
                          {.loss = losses});
}

}  // namespace

TEST_CASE("answer_trainer: kl_cov and clip_cov select among all tokens of a minibatch, also those without advantage") {
  for (const char* surrogate : {"kl_cov", "clip_cov"}) {
    CAPTURE(surrogate);
    const AlgorithmChoice choice = choice_of(surrogate);
    const LmShape shape = tiny_shape(LmFamily::llama, 5);
    AnswerTrainer trainer(shape, {}, choice, {.answer_tokens = 5});
    const auto batch = gather_answers(whole(random_answers(12, shape.vocabulary, 3)));
    const std::vector<float> log_probs = trainer.start(*batch, {.policy = true}).log_probs;
    Rng random(derive_key(3, "surrogate"));
    for (size_t t = 0; t < log_probs.size(); ++t) batch->log_probs[t] = log_probs[t] + 0.1f * random.normal();
    AnswerTargets targets;
    targets.advantages = some_advantages(*batch, random);
    std::vector<int64_t> all(static_cast<size_t>(batch->groups())), different;
    std::iota(all.begin(), all.end(), 0);
    for (const int64_t g : all)
      if (g % 2 == 0) different.push_back(g);
    const SurrogateSums expected = sums_of(choice, *batch, targets.advantages, log_probs, all);
    REQUIRE(sums_of(choice, *batch, targets.advantages, log_probs, different).clipped < expected.clipped);
    const LossReport report =
        trainer.step(*batch, targets, all, {.rates = {.policy = 1e-3, .value = 0}, .loss = {.key = kKey}}).loss;
    CHECK(report.surrogate.clipped == expected.clipped);
    CHECK(report.surrogate.count == expected.count);
    CHECK(report.policy_loss == doctest::Approx(expected.loss / expected.count).epsilon(1e-5));
  }
}
