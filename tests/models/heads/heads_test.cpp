#include "models/heads/heads.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/models/heads/head_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

void check_gradients(RandomHead f) {
  const std::vector<float> weights = random_floats(f.log_probs.size(), 9);
  const float entropy_weight = 0.7f, step = 1e-2f;
  f.objective(weights, entropy_weight);
  std::vector<float> gradients(f.outputs.size()), log_std_gradients(f.log_std.size(), 0.0f);
  f.head.backward(f.input(), f.actions(), weights, entropy_weight, f.scratch, gradients, log_std_gradients);
  const auto check = [&](float& x, float gradient) {
    const float kept = x;
    x = kept + step;
    const double above = f.objective(weights, entropy_weight);
    x = kept - step;
    const double below = f.objective(weights, entropy_weight);
    x = kept;
    CHECK((above - below) / (2 * step) == doctest::Approx(gradient).epsilon(2e-3).scale(1.0));
  };
  for (size_t i = 0; i < f.outputs.size(); ++i) check(f.outputs[i], gradients[i]);
  for (size_t i = 0; i < f.log_std.size(); ++i) check(f.log_std[i], log_std_gradients[i]);
}

// A head with two dimensions and chunks of four steps. Some samples ended inside the chunk.
RandomHead cut_short(bool is_continuous) {
  ActionSpec spec = is_continuous ? continuous(2) : discrete({4, 3});
  spec.chunk = 4;
  RandomHead f(spec, 3);
  f.sample();
  f.executed = {8, 2, 6};
  return f;
}

}  // namespace

TEST_CASE("heads: the sizes of a head follow from the action space") {
  const Head tokens(discrete({256, 256}, 8));
  CHECK(tokens.outputs() == 8 * 512);
  CHECK(tokens.decisions() == 16);
  CHECK(tokens.mask_size() == 0);
  CHECK(Head(discrete({4}, 1, true)).mask_size() == 4);
  CHECK(Head(continuous(3)).outputs() == 3);
}

TEST_CASE("heads: the log-probability of a sampled action equals that of evaluate") {
  for (const ActionSpec& spec :
       {discrete({2}), discrete({5, 3}, 4), discrete({256}, 2), discrete({6}, 1, true), continuous(3)}) {
    RandomHead f(spec, 17);
    f.sample();
    const std::vector<float> sampled = f.log_probs;
    f.evaluate();
    for (size_t i = 0; i < sampled.size(); ++i) CHECK(f.log_probs[i] == doctest::Approx(sampled[i]).epsilon(1e-6));
  }
}

TEST_CASE("heads: sampled frequencies follow the softmax") {
  RandomHead f(discrete({3}), 1);
  f.outputs = {std::log(0.2f), std::log(0.5f), std::log(0.3f)};
  std::vector<int> counts(3);
  for (int64_t seed = 0; seed < 20000; ++seed) {
    f.seeds[0] = seed;
    f.sample();
    ++counts[f.discrete_actions[0]];
  }
  // Four standard deviations of a binomial with n = 20000.
  CHECK(std::abs(counts[0] - 4000) < 4 * std::sqrt(20000 * 0.2 * 0.8));
  CHECK(std::abs(counts[1] - 10000) < 4 * std::sqrt(20000 * 0.5 * 0.5));
}

TEST_CASE("heads: sampled frequencies of many bins follow the softmax, from the first bin to the last") {
  RandomHead f(discrete({100}), 1);
  for (int j = 0; j < 100; ++j) f.outputs[j] = j < 50 ? -200.0f : std::log(1.0f + j % 2);
  std::vector<int> counts(100);
  for (int64_t seed = 0; seed < 30000; ++seed) {
    f.seeds[0] = seed;
    f.sample();
    ++counts[f.discrete_actions[0]];
  }
  for (int j = 0; j < 100; ++j) {
    const double p = j < 50 ? 0.0 : (1 + j % 2) / 75.0;
    CHECK(std::abs(counts[j] - 30000 * p) <= 4.5 * std::sqrt(30000 * p * (1 - p)));
  }
}

TEST_CASE("heads: Gaussian samples have the mean and deviation of the head") {
  RandomHead f(continuous(1), 1);
  f.outputs = {0.5f};
  f.log_std = {std::log(2.0f)};
  double sum = 0, squares = 0;
  for (int64_t seed = 0; seed < 20000; ++seed) {
    f.seeds[0] = seed;
    f.sample();
    sum += f.continuous_actions[0];
    squares += f.continuous_actions[0] * f.continuous_actions[0];
  }
  const double mean = sum / 20000, variance = squares / 20000 - mean * mean;
  CHECK(std::abs(mean - 0.5) < 4 * 2.0 / std::sqrt(20000));
  CHECK(variance == doctest::Approx(4.0).epsilon(0.05));
}

TEST_CASE("heads: the action of a sample depends on its seed and not on its batch") {
  for (const ActionSpec& spec : {discrete({5, 3}, 2), continuous(2)}) {
    RandomHead all(spec, 8), one(spec, 1);
    all.sample();
    const int64_t p = all.head.outputs(), d = all.head.decisions();
    one.log_std = all.log_std;
    one.seeds = {all.seeds[5]};
    std::copy_n(all.outputs.begin() + 5 * p, p, one.outputs.begin());
    one.sample();
    for (int64_t i = 0; i < d; ++i) CHECK(one.log_probs[i] == all.log_probs[5 * d + i]);
  }
}

TEST_CASE("heads: a masked action is never taken and has probability 0") {
  RandomHead f(discrete({4}, 1, true), 1);
  f.outputs = {0.0f, 50.0f, 0.0f, 0.0f};
  f.mask = {1, 0, 1, 0};
  for (int64_t seed = 0; seed < 500; ++seed) {
    f.seeds[0] = seed;
    f.sample();
    CHECK((f.discrete_actions[0] == 0 || f.discrete_actions[0] == 2));
    CHECK(f.log_probs[0] == doctest::Approx(std::log(0.5f)));
  }
  f.evaluate();
  CHECK(f.scratch.probabilities[1] == 0.0f);
  CHECK(f.entropy[0] == doctest::Approx(std::log(2.0f)));
  f.deterministic[0] = 1;
  f.sample();
  CHECK(f.discrete_actions[0] == 0);
}

TEST_CASE("heads: a sample whose mask allows no action is refused with its number") {
  RandomHead f(discrete({2}, 1, true), 3);
  f.mask = {1, 1, 1, 0, 0, 0};
  CHECK_THROWS_WITH(f.sample(), doctest::Contains("sample 2 allows no action"));
}

TEST_CASE("heads: evaluating a masked action is refused") {
  RandomHead f(discrete({2}, 1, true), 2);
  f.mask = {1, 1, 0, 1};
  f.discrete_actions = {0, 0};
  CHECK_THROWS_WITH(f.evaluate(), doctest::Contains("sample 1, decision 0: action 0 is masked"));
}

TEST_CASE("heads: an output that is not finite is refused with the number of its sample") {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    RandomHead f(discrete({20}), 3);
    f.outputs[2 * 20 + 13] = bad;
    CHECK_THROWS_WITH(f.sample(), doctest::Contains("sample 2 is not finite"));
    CHECK_THROWS_WITH(f.evaluate(), doctest::Contains("sample 2 is not finite"));
  }
}

TEST_CASE("heads: extreme logits give finite log-probabilities and gradients") {
  RandomHead f(discrete({3}), 1);
  f.outputs = {1e30f, -1e30f, 0.0f};
  f.discrete_actions = {1};
  f.evaluate();
  CHECK(f.log_probs[0] == doctest::Approx(-2e30f));
  CHECK(f.entropy[0] == 0.0f);
  std::vector<float> gradients(3);
  f.head.backward(f.input(), f.actions(), std::vector<float>{1.0f}, 1.0f, f.scratch, gradients, {});
  CHECK(gradients == std::vector<float>{-1.0f, 1.0f, 0.0f});
}

TEST_CASE("heads: gradients of log-probability and entropy agree with finite differences") {
  for (const ActionSpec& spec : {discrete({2}), discrete({5, 3}, 2), discrete({40}), continuous(3)}) {
    RandomHead f(spec, 3);
    f.sample();
    check_gradients(f);
  }
  RandomHead masked(discrete({3, 2}, 1, true), 2);
  masked.mask = {1, 0, 1, 1, 1, 0, 1, 1, 0, 1};
  masked.sample();
  check_gradients(masked);
}

TEST_CASE("heads: deterministic Gaussian actions are the means") {
  RandomHead f(continuous(2), 4);
  f.deterministic.assign(4, 1);
  f.sample();
  CHECK(f.continuous_actions == f.outputs);
}

TEST_CASE("heads: a batch without samples is accepted") {
  RandomHead f(discrete({2}), 0);
  f.sample();
  f.evaluate();
  CHECK(f.log_probs.empty());
}

TEST_CASE("heads: gradients of samples that ended inside a chunk agree with finite differences") {
  check_gradients(cut_short(false));
  check_gradients(cut_short(true));
}

TEST_CASE("heads: decisions that were not executed have log-probability and gradient 0, whatever is stored") {
  for (const bool is_continuous : {false, true}) {
    CAPTURE(is_continuous);
    RandomHead all = cut_short(is_continuous), f = cut_short(is_continuous);
    all.executed.clear();
    all.evaluate();
    std::vector<float> weights = random_floats(f.log_probs.size(), 9);
    for (int64_t sample = 0; sample < f.samples; ++sample)
      for (int64_t d = f.executed[sample]; d < f.head.decisions(); ++d) {
        const int64_t i = sample * f.head.decisions() + d;
        if (is_continuous)
          f.continuous_actions[i] = std::numeric_limits<float>::quiet_NaN();
        else
          f.discrete_actions[i] = -1;
        weights[i] = std::numeric_limits<float>::quiet_NaN();
      }
    f.evaluate();
    std::vector<float> gradients(f.outputs.size(), 5.0f), log_std_gradients(f.log_std.size(), 0.0f);
    f.head.backward(f.input(), f.actions(), weights, 0.7f, f.scratch, gradients, log_std_gradients);
    const int64_t per_step = f.head.outputs() / 4;
    for (int64_t sample = 0; sample < f.samples; ++sample) {
      for (int64_t d = 0; d < f.head.decisions(); ++d) {
        const int64_t i = sample * f.head.decisions() + d;
        CHECK(f.log_probs[i] == (d < f.executed[sample] ? all.log_probs[i] : 0.0f));
      }
      for (int64_t p = f.executed[sample] / 2 * per_step; p < f.head.outputs(); ++p)
        CHECK(gradients[sample * f.head.outputs() + p] == 0.0f);
      for (int64_t p = 0; p < f.executed[sample] / 2 * per_step; ++p)
        CHECK(gradients[sample * f.head.outputs() + p] != 0.0f);
    }
    CHECK(f.entropy[0] == all.entropy[0]);
    CHECK(f.entropy[1] < f.entropy[2]);
    for (const float gradient : log_std_gradients) CHECK(std::isfinite(gradient));
  }
}
