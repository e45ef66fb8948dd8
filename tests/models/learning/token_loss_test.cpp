#include "models/learning/token_loss.h"

#include <cmath>

#include "algorithms/choice/algorithm_config.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Three answers of 3, 1 and 4 tokens.
struct Tokens {
  std::vector<int64_t> offsets{0, 3, 4, 8};
  std::vector<float> log_probs, entropy, behaviour, advantages;

  explicit Tokens(uint64_t seed) {
    Rng rng(derive_key(seed, "tokens"));
    for (int i = 0; i < 8; ++i) {
      behaviour.push_back(-0.5f - rng.uniform());
      log_probs.push_back(behaviour.back() + 0.3f * rng.normal());
      entropy.push_back(rng.uniform());
      advantages.push_back(rng.normal());
    }
  }
  TokenLossInput input() const { return part(0, 8, offsets, 1); }
  // Some of them, which are `share` of all.
  TokenLossInput part(size_t first, size_t count, std::span<const int64_t> from, double share) const {
    const auto of = [&](const std::vector<float>& values) { return std::span(values).subspan(first, count); };
    return {.count = static_cast<double>(count),
            .share = share,
            .log_probs = of(log_probs),
            .old_log_probs = of(behaviour),
            .behaviour = of(behaviour),
            .advantages = of(advantages),
            .rollout_weights = {},
            .kept = {},
            .offsets = from,
            .entropy = of(entropy)};
  }
};

constexpr TokenCounts kAll{.tokens = 8, .sequences = 3};

double loss_of(TokenLoss& loss, const TokenLossInput& input, const LossSettings& settings) {
  std::vector<float> a(input.log_probs.size()), b(a.size());
  return loss.compute(input, kAll, settings, {.log_probs = a, .entropy = b}).loss;
}

AlgorithmChoice choice_of(const std::string& aggregation, const std::string& surrogate = "clip") {
  AlgorithmConfig config;
  config.aggregation = aggregation;
  config.surrogate = surrogate;
  return choose_algorithm(config);
}

}  // namespace

TEST_CASE("token_loss: gradients are those of the loss") {
  const LossSettings settings{.entropy_coef = 0.3, .kl_coef = 0.7, .train_policy = true, .key = 0};
  for (const char* aggregation : {"token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"})
    for (const char* surrogate : {"clip", "reinforce", "none"}) {
      CAPTURE(aggregation);
      CAPTURE(surrogate);
      TokenLoss loss(choice_of(aggregation, surrogate), 5);
      Tokens tokens(3);
      std::vector<float> log_probs(8), entropy(8);
      loss.compute(tokens.input(), kAll, settings, {.log_probs = log_probs, .entropy = entropy});
      for (size_t i = 0; i < 8; ++i) {
        const auto slope = [&](std::vector<float>& values) {
          const float middle = values[i], step = 1e-3f;
          values[i] = middle + step;
          const double above = loss_of(loss, tokens.input(), settings);
          values[i] = middle - step;
          const double below = loss_of(loss, tokens.input(), settings);
          values[i] = middle;
          return (above - below) / (2 * step);
        };
        CHECK(log_probs[i] == doctest::Approx(slope(tokens.log_probs)).epsilon(0.02).scale(0.1));
        CHECK(entropy[i] == doctest::Approx(slope(tokens.entropy)).epsilon(0.02).scale(0.1));
      }
    }
}

TEST_CASE("token_loss: parts of a minibatch add up to the whole") {
  const LossSettings settings{.entropy_coef = 0.3, .kl_coef = 0.7, .train_policy = true, .key = 0};
  for (const char* aggregation : {"token-mean", "seq-mean-token-mean", "seq-mean-token-sum-norm"}) {
    TokenLoss loss(choice_of(aggregation), 5);
    const Tokens tokens(4);
    std::vector<float> all(8), entropy(8);
    const LossReport whole = loss.compute(tokens.input(), kAll, settings, {.log_probs = all, .entropy = entropy});
    LossReport merged;
    for (const auto& [first, count, offsets] :
         {std::tuple(0u, 3u, std::vector<int64_t>{0, 3}), {3u, 5u, std::vector<int64_t>{0, 1, 5}}}) {
      std::vector<float> log_probs(count), d_entropy(count);
      merged.merge(loss.compute(tokens.part(first, count, offsets, count / 8.0), kAll, settings,
                                {.log_probs = log_probs, .entropy = d_entropy}));
      for (size_t i = 0; i < count; ++i) CHECK(log_probs[i] == all[first + i]);
    }
    CHECK(merged.loss == doctest::Approx(whole.loss));
    CHECK(merged.entropy == doctest::Approx(whole.entropy));
    CHECK(merged.kl == doctest::Approx(whole.kl));
    CHECK(merged.surrogate.count == whole.surrogate.count);
  }
}

TEST_CASE("token_loss: where the policy is not trained, loss and gradients are 0, and the rest is measured") {
  LossSettings settings{.entropy_coef = 0.3, .kl_coef = 0.7, .train_policy = true, .key = 0};
  TokenLoss loss(choice_of("token-mean"), 5);
  const Tokens tokens(6);
  std::vector<float> log_probs(8), entropy(8);
  const TokenLossGradients out{.log_probs = log_probs, .entropy = entropy};
  const LossReport trained = loss.compute(tokens.input(), kAll, settings, out);
  settings.train_policy = false;
  const LossReport report = loss.compute(tokens.input(), kAll, settings, out);
  CHECK(log_probs == std::vector<float>(8));
  CHECK(entropy == std::vector<float>(8));
  for (auto member : {&LossReport::loss, &LossReport::policy_loss, &LossReport::kl}) CHECK(report.*member == 0);
  CHECK(report.entropy == trained.entropy);
  CHECK(report.surrogate.k3 == trained.surrogate.k3);
  CHECK(report.surrogate.clipped == trained.surrogate.clipped);
}

TEST_CASE("token_loss: tokens that are not kept have no gradient, whatever their numbers are") {
  const LossSettings settings{.entropy_coef = 0.3, .kl_coef = 0.7, .train_policy = true, .key = 0};
  TokenLoss loss(choice_of("token-mean"), 5);
  Tokens tokens(5);
  const std::vector<uint8_t> kept{1, 0, 1, 0, 1, 1, 1, 1};
  TokenLossInput input = tokens.input();
  input.kept = kept;
  input.count = 6;
  std::vector<float> log_probs(8), entropy(8);
  const TokenCounts totals{.tokens = 6, .sequences = 2};
  const double before = loss.compute(input, totals, settings, {.log_probs = log_probs, .entropy = entropy}).loss;
  for (const size_t i : {1, 3}) tokens.log_probs[i] = tokens.entropy[i] = tokens.advantages[i] = std::nanf("");
  const double after = loss.compute(input, totals, settings, {.log_probs = log_probs, .entropy = entropy}).loss;
  CHECK(before == after);
  for (size_t i = 0; i < 8; ++i) {
    CHECK(std::isfinite(log_probs[i]));
    CHECK((log_probs[i] != 0) == (kept[i] != 0));
    CHECK((entropy[i] != 0) == (kept[i] != 0));
  }
}

TEST_CASE("token_loss: the gradients of the KL to a reference are those of each estimate, or of the exact KL given") {
  const LossSettings settings{.entropy_coef = 0.3, .kl_coef = 0.0, .train_policy = true, .key = 0};
  const Tokens tokens(4);
  std::vector<float> reference(8);
  for (size_t i = 0; i < 8; ++i) reference[i] = tokens.log_probs[i] - 0.1f * static_cast<float>(i + 1);
  const auto gradients = [&](TokenLoss loss, const TokenLossInput& input, std::span<float> of_exact = {}) {
    std::vector<float> log_probs(8), entropy(8);
    loss.compute(input, kAll, settings, {.log_probs = log_probs, .entropy = entropy, .reference_kl = of_exact});
    return log_probs;
  };
  const AlgorithmChoice choice = choice_of("token-mean");
  const std::vector<float> without = gradients(TokenLoss(choice, 5), tokens.input());
  for (const std::string name : {"k1", "abs", "k2", "k3", "low_var_kl", "k1+", "k3+"}) {
    CAPTURE(name);
    const KlEstimator estimator = find_kl(name);
    TokenLossInput input = tokens.input();
    input.reference = reference;
    input.reference_coef = 0.7;
    const std::vector<float> with = gradients(TokenLoss(choice, 5, estimator), input);
    std::vector<float> expected(8);
    kl_estimate(estimator, tokens.log_probs, reference, {}, {}, expected);
    for (size_t i = 0; i < 8; ++i)
      CHECK(with[i] - without[i] == doctest::Approx(0.7 * expected[i] / 8).epsilon(1e-4).scale(0.01));
  }
  TokenLossInput input = tokens.input();
  std::vector<float> exact(8, 0.5f), of_exact(8);
  input.reference_kl = exact;
  input.reference_coef = 0.7;
  TokenLoss loss(choice, 5, find_kl("full"));
  CHECK(gradients(loss, input, of_exact) == without);
  for (const float gradient : of_exact) CHECK(gradient == doctest::Approx(0.7 / 8));
  CHECK(loss_of(loss, input, settings) - loss_of(loss, tokens.input(), settings) == doctest::Approx(0.7 * 0.5));
}
