#include "models/heads/heads.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/models/heads/head_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

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
std::vector<double> kl_oracle(const RandomHead& f, const ActionSpec& spec, std::span<const float> old) {
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

void check_kl(RandomHead f, const ActionSpec& spec) {
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
    check_kl(RandomHead(spec, 3), spec);
  const ActionSpec spec = discrete({3, 2}, 1, true);
  RandomHead masked(spec, 2);
  masked.mask = {1, 0, 1, 1, 1, 0, 1, 1, 0, 1};
  check_kl(masked, spec);
  for (const bool is_continuous : {false, true}) {
    ActionSpec chunks = is_continuous ? continuous(2) : discrete({4, 3});
    chunks.chunk = 4;
    RandomHead cut(chunks, 3);
    cut.executed = {8, 2, 0};
    check_kl(cut, chunks);
  }
}

TEST_CASE("heads: the KL divergence of a policy from itself is 0, also with categories of probability 0") {
  for (const ActionSpec& spec : {discrete({3}), continuous(2)}) {
    RandomHead f(spec, 2);
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
  RandomHead f(spec, 1);
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
