#include "models/heads/heads.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

ActionSpec discrete(std::vector<int32_t> bins, int32_t chunk = 1, bool masked = false) {
  ActionSpec spec;
  spec.kind = bins.size() == 1 ? ActionKind::discrete : ActionKind::multi_discrete;
  spec.bins = std::move(bins);
  spec.chunk = chunk;
  spec.masked = masked;
  return spec;
}

ActionSpec continuous(int dims) {
  ActionSpec spec;
  spec.kind = ActionKind::continuous;
  spec.low.assign(dims, -1.0f);
  spec.high.assign(dims, 1.0f);
  return spec;
}

std::vector<float> random_floats(size_t count, uint64_t seed, float scale = 1.0f) {
  Rng rng(seed);
  std::vector<float> result(count);
  for (float& x : result) x = scale * rng.normal();
  return result;
}

// A head with the inputs and outputs of its functions, for B samples.
struct Fixture {
  Head head;
  int64_t samples;
  std::vector<float> outputs, log_std, log_probs, entropy;
  std::vector<uint8_t> mask;
  std::vector<int32_t> executed;  // empty = all
  std::vector<int32_t> discrete_actions;
  std::vector<float> continuous_actions;
  std::vector<int64_t> seeds;
  std::vector<uint8_t> deterministic;
  HeadScratch scratch;

  Fixture(const ActionSpec& spec, int64_t samples)
      : head(spec),
        samples(samples),
        outputs(random_floats(samples * head.outputs(), 7)),
        log_probs(samples * head.decisions()),
        entropy(samples),
        seeds(samples),
        deterministic(samples, 0) {
    std::iota(seeds.begin(), seeds.end(), 100);
    if (head.continuous()) {
      log_std = random_floats(head.decisions(), 8, 0.3f);
      continuous_actions.resize(log_probs.size());
    } else {
      discrete_actions.resize(log_probs.size());
    }
    mask.assign(samples * head.mask_size(), 1);
  }
  HeadInput input() const { return {samples, outputs, log_std, mask, executed}; }
  ActionsView actions() const { return {discrete_actions, continuous_actions}; }
  void sample() { head.sample(input(), seeds, deterministic, {discrete_actions, continuous_actions}, log_probs); }
  void evaluate() { head.evaluate(input(), actions(), log_probs, entropy, scratch); }
  // sum_i weights[i] * log_probs[i] + entropy_weight * sum_b entropy[b], in double.
  double objective(const std::vector<float>& weights, double entropy_weight) {
    evaluate();
    double result = 0;
    for (size_t i = 0; i < weights.size(); ++i) result += static_cast<double>(weights[i]) * log_probs[i];
    for (float h : entropy) result += entropy_weight * h;
    return result;
  }
};

void check_gradients(Fixture f) {
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
    Fixture f(spec, 17);
    f.sample();
    const std::vector<float> sampled = f.log_probs;
    f.evaluate();
    for (size_t i = 0; i < sampled.size(); ++i) CHECK(f.log_probs[i] == doctest::Approx(sampled[i]).epsilon(1e-6));
  }
}

TEST_CASE("heads: sampled frequencies follow the softmax") {
  Fixture f(discrete({3}), 1);
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
  Fixture f(discrete({100}), 1);
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
  Fixture f(continuous(1), 1);
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
    Fixture all(spec, 8), one(spec, 1);
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
  Fixture f(discrete({4}, 1, true), 1);
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
  Fixture f(discrete({2}, 1, true), 3);
  f.mask = {1, 1, 1, 0, 0, 0};
  CHECK_THROWS_WITH(f.sample(), doctest::Contains("sample 2 allows no action"));
}

TEST_CASE("heads: evaluating a masked action is refused") {
  Fixture f(discrete({2}, 1, true), 2);
  f.mask = {1, 1, 0, 1};
  f.discrete_actions = {0, 0};
  CHECK_THROWS_WITH(f.evaluate(), doctest::Contains("sample 1, decision 0: action 0 is masked"));
}

TEST_CASE("heads: an output that is not finite is refused with the number of its sample") {
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                    -std::numeric_limits<float>::infinity()}) {
    Fixture f(discrete({20}), 3);
    f.outputs[2 * 20 + 13] = bad;
    CHECK_THROWS_WITH(f.sample(), doctest::Contains("sample 2 is not finite"));
    CHECK_THROWS_WITH(f.evaluate(), doctest::Contains("sample 2 is not finite"));
  }
}

TEST_CASE("heads: extreme logits give finite log-probabilities and gradients") {
  Fixture f(discrete({3}), 1);
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
    Fixture f(spec, 3);
    f.sample();
    check_gradients(f);
  }
  Fixture masked(discrete({3, 2}, 1, true), 2);
  masked.mask = {1, 0, 1, 1, 1, 0, 1, 1, 0, 1};
  masked.sample();
  check_gradients(masked);
}

TEST_CASE("heads: deterministic Gaussian actions are the means") {
  Fixture f(continuous(2), 4);
  f.deterministic.assign(4, 1);
  f.sample();
  CHECK(f.continuous_actions == f.outputs);
}

namespace {

// KL(p || q) by sums over categories, or for a Gaussian by numerical integration over 12 standard deviations of p.
double summed_kl(std::span<const float> p, std::span<const float> q, std::span<const uint8_t> mask) {
  const auto allowed = [&](size_t j) { return mask.empty() || mask[j] != 0; };
  double of_p = 0, of_q = 0, result = 0;
  for (size_t j = 0; j < p.size(); ++j)
    if (allowed(j)) of_p += std::exp(double{p[j]}), of_q += std::exp(double{q[j]});
  for (size_t j = 0; j < p.size(); ++j)
    if (allowed(j)) result += std::exp(p[j]) / of_p * (p[j] - std::log(of_p) - q[j] + std::log(of_q));
  return result;
}
double integrated_kl(double mean, double log_std, double other_mean, double other_log_std) {
  const double std = std::exp(log_std), step = 24 * std / 20000;
  const auto log_density = [](double x, double m, double ls) {
    const double z = (x - m) / std::exp(ls);
    return -0.5 * z * z - ls - 0.5 * std::log(2 * std::numbers::pi);
  };
  double result = 0;
  for (int i = 0; i <= 20000; ++i) {
    const double x = mean - 12 * std + step * i, of_p = log_density(x, mean, log_std);
    result += step * std::exp(of_p) * (of_p - log_density(x, other_mean, other_log_std));
  }
  return result;
}

// The divergence of every decision, in double. `old` are the parameters of the other policy.
std::vector<double> kl_oracle(const Fixture& f, const ActionSpec& spec, std::span<const float> old) {
  const int64_t decisions = f.head.decisions(), width = f.head.parameter_count(), outputs = f.head.outputs();
  std::vector<double> result;
  for (int64_t sample = 0; sample < f.samples; ++sample) {
    int64_t first = 0;
    for (int64_t d = 0; d < decisions; ++d) {
      const bool executed = f.executed.empty() || d < f.executed[sample];
      if (f.head.continuous()) {
        result.push_back(!executed ? 0.0
                                   : integrated_kl(old[sample * width + d], old[sample * width + decisions + d],
                                                   f.outputs[sample * outputs + d], f.log_std[d]));
        continue;
      }
      const int64_t bins = spec.bins[d % spec.dims()];
      const auto mask = f.mask.empty() ? std::span<const uint8_t>()
                                       : std::span(f.mask).subspan(sample * f.head.mask_size() + first, bins);
      result.push_back(!executed ? 0.0
                                 : summed_kl(old.subspan(sample * width + first, bins),
                                             std::span(f.outputs).subspan(sample * outputs + first, bins), mask));
      first += bins;
    }
  }
  return result;
}

void check_kl(Fixture f, const ActionSpec& spec) {
  const std::vector<float> weights = random_floats(f.log_probs.size(), 9);
  std::vector<float> old(f.samples * f.head.parameter_count()), kl(f.log_probs.size(), -1.0f);
  f.head.parameters(f.input(), old);
  const std::vector<float> noise = random_floats(old.size(), 10, 0.5f);
  for (size_t i = 0; i < old.size(); ++i) old[i] += noise[i];
  f.head.kl(f.input(), old, kl);
  const std::vector<double> wanted = kl_oracle(f, spec, old);
  for (size_t i = 0; i < kl.size(); ++i) CHECK(kl[i] == doctest::Approx(wanted[i]).epsilon(1e-6));

  std::vector<float> gradients(f.outputs.size(), 5.0f), log_std_gradients(f.log_std.size(), 3.0f);  // added to
  f.head.add_kl_gradients(f.input(), old, weights, gradients, log_std_gradients);
  const auto objective = [&] {
    const std::vector<double> all = kl_oracle(f, spec, old);
    double result = 0;
    for (size_t i = 0; i < all.size(); ++i) result += weights[i] * all[i];
    return result;
  };
  const auto check = [&](float& x, float gradient) {
    const float kept = x, step = 1e-2f;
    x = kept + step;
    const float right = x;
    const double above = objective();
    x = kept - step;
    const double below = objective(), width = double{right} - x;
    x = kept;
    CHECK((above - below) / width == doctest::Approx(gradient).epsilon(1e-3).scale(1.0));
  };
  for (size_t i = 0; i < f.outputs.size(); ++i) check(f.outputs[i], gradients[i] - 5.0f);
  for (size_t i = 0; i < f.log_std.size(); ++i) check(f.log_std[i], log_std_gradients[i] - 3.0f);
}

}  // namespace

TEST_CASE("heads: the KL divergence agrees with sums and integrals, and its gradients with finite differences") {
  for (const ActionSpec& spec : {discrete({2}), discrete({5, 3}, 2), discrete({40}), continuous(3)})
    check_kl(Fixture(spec, 3), spec);
  const ActionSpec spec = discrete({3, 2}, 1, true);
  Fixture masked(spec, 2);
  masked.mask = {1, 0, 1, 1, 1, 0, 1, 1, 0, 1};
  check_kl(masked, spec);
  for (const bool is_continuous : {false, true}) {
    ActionSpec chunks = is_continuous ? continuous(2) : discrete({4, 3});
    chunks.chunk = 4;
    Fixture cut(chunks, 3);
    cut.executed = {8, 2, 0};
    check_kl(cut, chunks);
  }
}

TEST_CASE("heads: the KL divergence of a policy from itself is 0, also with categories of probability 0") {
  for (const ActionSpec& spec : {discrete({3}), continuous(2)}) {
    Fixture f(spec, 2);
    if (!f.head.continuous()) f.outputs = {1e30f, -1e30f, 0.0f, -200.0f, 100.0f, 0.25f};
    std::vector<float> same(f.samples * f.head.parameter_count()), kl(f.log_probs.size(), -1.0f);
    f.head.parameters(f.input(), same);
    f.head.kl(f.input(), same, kl);
    for (const float value : kl) CHECK(value == 0.0f);
    std::vector<float> gradients(f.outputs.size()), log_std_gradients(f.log_std.size());
    f.head.add_kl_gradients(f.input(), same, std::vector<float>(kl.size(), 1.0f), gradients, log_std_gradients);
    for (const float gradient : gradients) CHECK(gradient == 0.0f);
    for (const float gradient : log_std_gradients) CHECK(std::abs(gradient) < 1e-6f);
  }
}

TEST_CASE("heads: numbers stored for masked categories do not affect the KL divergence") {
  ActionSpec spec = discrete({3}, 1, true);
  Fixture f(spec, 1);
  f.mask = {1, 0, 1};
  const auto kl_with = [&](float masked) {
    std::vector<float> kl(1);
    f.head.kl(f.input(), std::vector<float>{0.5f, masked, -0.25f}, kl);
    return kl[0];
  };
  CHECK(kl_with(0.0f) > 0.0f);
  for (const float masked : {-1e30f, 50.0f, std::numeric_limits<float>::quiet_NaN()})
    CHECK(kl_with(masked) == kl_with(0));
  std::vector<float> kl(1);
  f.head.kl(f.input(), std::vector<float>{std::numeric_limits<float>::quiet_NaN(), 0, 0}, kl);
  CHECK(std::isnan(kl[0]));  // NaN of an allowed category is not hidden
}

TEST_CASE("heads: a batch without samples is accepted") {
  Fixture f(discrete({2}), 0);
  f.sample();
  f.evaluate();
  CHECK(f.log_probs.empty());
}

namespace {

// A head with two dimensions and chunks of four steps. Some samples ended inside the chunk.
Fixture cut_short(bool is_continuous) {
  ActionSpec spec = is_continuous ? continuous(2) : discrete({4, 3});
  spec.chunk = 4;
  Fixture f(spec, 3);
  f.sample();
  f.executed = {8, 2, 6};
  return f;
}

}  // namespace

TEST_CASE("heads: gradients of samples that ended inside a chunk agree with finite differences") {
  check_gradients(cut_short(false));
  check_gradients(cut_short(true));
}

TEST_CASE("heads: decisions that were not executed have log-probability and gradient 0, whatever is stored") {
  for (const bool is_continuous : {false, true}) {
    CAPTURE(is_continuous);
    Fixture all = cut_short(is_continuous), f = cut_short(is_continuous);
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
