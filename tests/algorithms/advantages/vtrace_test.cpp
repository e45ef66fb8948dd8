#include "algorithms/advantages/vtrace.h"

#include "runtime/base/errors.h"
#include "tests/algorithms/common/random_rollout.h"

using namespace troupe;
using namespace troupe::test;

namespace {

double bounded(double rho, float bar) { return bar <= 0 ? rho : std::min(rho, double{bar}); }

// Equation 1 of the paper (vtrace.h) as a sum over the rest of the segment instead of a recurrence.
double target(const RandomRollout& s, const VtraceInput& in, int64_t t, int64_t n) {
  double sum = 0, weight = 1;
  for (int64_t k = t;; ++k) {
    const std::size_t i = s.at(k, n);
    const double rho = std::exp(std::clamp(double{s.log_rho[i]}, -20.0, 20.0));
    const bool end = s.terminated[i] || (s.truncated[i] && !in.bootstrap_on_truncation);
    const bool linked = s.linked(k, n);
    const double next = linked ? s.values[s.at(k + 1, n)] : end ? 0.0 : s.next_values[i];
    sum += weight * bounded(rho, in.rho_bar) * (s.rewards[i] + double{in.gamma} * next - s.values[i]);
    if (!linked) return s.values[s.at(t, n)] + sum;
    weight *= double{in.gamma} * in.lambda * bounded(rho, in.c_bar);
  }
}

Pair<double> oracle(const RandomRollout& s, const VtraceInput& in) {
  Pair<double> out{std::vector<double>(s.size()), std::vector<double>(s.size())};
  for (int64_t n = 0; n < s.columns; ++n)
    for (int64_t t = 0; t < s.steps; ++t) {
      const std::size_t i = s.at(t, n);
      if (!s.live(i)) continue;
      const bool end = s.terminated[i] || (s.truncated[i] && !in.bootstrap_on_truncation);
      const double next = s.linked(t, n) ? target(s, in, t + 1, n) : end ? 0.0 : s.next_values[i];
      const double rho = std::exp(std::clamp(double{s.log_rho[i]}, -20.0, 20.0));
      const double weight = in.multiply_pg_rho ? bounded(rho, in.pg_rho_bar) : 1.0;
      out.first[i] = target(s, in, t, n);
      out.second[i] = weight * (s.rewards[i] + double{in.gamma} * next - s.values[i]);
    }
  return out;
}

double misfit_of(const RandomRollout& s, const VtraceInput& in) {
  const Pair<float> got = run(in);
  const Pair<double> want = oracle(s, in);
  return std::max(misfit(got.first, want.first), misfit(got.second, want.second));
}

}  // namespace

TEST_CASE("vtrace: agrees with equation 1 in float64 for every shape, factor and mask") {
  const std::pair<float, float> factors[] = {{0.99f, 1}, {0.9f, 0.8f}, {0, 1}, {1, 0}};
  uint64_t seed = 100;
  for (const auto& [t, n] : shapes())
    for (const auto& [gamma, lambda] : factors)
      for (const double void_share : {0.0, 0.2, 1.0})
        for (const uint64_t one_in : {uint64_t{1}, uint64_t{4}, uint64_t{50}}) {
          RandomRollout s(t, n, ++seed, one_in, void_share);
          VtraceInput in = s.vtrace(gamma, lambda);
          CAPTURE(seed);
          CHECK(misfit_of(s, in) <= 1);
          in.multiply_pg_rho = true;
          in.rho_bar = 3;
          in.c_bar = .7f;
          in.pg_rho_bar = 2;
          CHECK(misfit_of(s, in) <= 1);
          in.bootstrap_on_truncation = false;
          CHECK(misfit_of(s, in) <= 1);
          s.valid.clear();
          CHECK(misfit_of(s, s.vtrace(gamma, lambda)) <= 1);
        }
}

TEST_CASE("vtrace: without bounds the ratios are used unclipped") {
  RandomRollout s(12, 5, 1);
  for (const float none : {0.0f, -1.0f, kInf}) {
    VtraceInput in = s.vtrace(.9f, .9f);
    in.rho_bar = in.c_bar = in.pg_rho_bar = none;
    in.multiply_pg_rho = true;
    const Pair<float> got = run(in);
    in.rho_bar = in.c_bar = in.pg_rho_bar = 0;
    const Pair<double> want = oracle(s, in);
    CHECK(misfit(got.first, want.first) <= 1);
    CHECK(misfit(got.second, want.second) <= 1);
  }
}

// IMPALA (Espeholt et al. 2018, arXiv:1802.01561); its test is in github.com/deepmind/scalable_agent.
TEST_CASE("vtrace: the example of the IMPALA test") {
  RandomRollout s(5, 1, 0, 1000000, 0);
  std::fill(s.terminated.begin(), s.terminated.end(), uint8_t{0});
  std::fill(s.truncated.begin(), s.truncated.end(), uint8_t{0});
  for (std::size_t t = 0; t < 5; ++t) {
    s.log_rho[t] = 5 * (static_cast<float>(t) / 5 - .5f);
    s.rewards[t] = s.values[t] = static_cast<float>(t);
  }
  s.next_values = {kNaN, kNaN, kNaN, kNaN, 1};  // not read inside a segment
  VtraceInput in = s.vtrace(.9f);
  in.rho_bar = 3.7f;
  in.pg_rho_bar = 2.2f;
  in.multiply_pg_rho = true;
  const Pair<float> got = run(in);
  const double vs[] = {0.200181852, 2.709682447, 8.51362793, 11.932396575, 7.33};
  const double pg[] = {0.200181852, 1.709682447, 6.51362793, 10.876614223, 1.98};
  for (std::size_t t = 0; t < 5; ++t) {
    CHECK(std::abs(got.first[t] - vs[t]) < 2e-6);
    CHECK(std::abs(got.second[t] - pg[t]) < 2e-6);
  }
}

TEST_CASE("vtrace: for on-policy data, vs - V is the advantage of gae") {
  for (const float lambda : {0.0f, 0.7f, 1.0f}) {
    RandomRollout s(60, 67, 2);
    s.join_values();
    std::fill(s.log_rho.begin(), s.log_rho.end(), 0.0f);
    CHECK(misfit(run(s.vtrace(.97f, lambda)).first, run(s.gae(.97f, lambda)).second) <= 1);
  }
}

TEST_CASE("vtrace: a reward at the terminal step reaches the whole episode") {
  RandomRollout s(4, 1, 0, 1000000, 0);
  s.rewards = {0, 0, 0, 1};
  s.values = {0, 0, 0, 0};
  s.log_rho = {0, 0, 0, 0};
  s.terminated = {0, 0, 0, 1};
  s.truncated = {0, 0, 0, 0};
  const Pair<float> got = run(s.vtrace(.5f));
  CHECK(got.first == std::vector<float>{.125f, .25f, .5f, 1});
  CHECK(got.second == std::vector<float>{.125f, .25f, .5f, 1});
}

TEST_CASE("vtrace: after a truncation in the middle, the final observation's value replaces later rewards") {
  RandomRollout s(2, 1, 0, 1000000, 0);
  s.rewards = {1, 100};
  s.values = {0, 50};
  s.next_values = {8, 9};
  s.log_rho = {0, 0};
  s.terminated = {0, 0};
  s.truncated = {1, 0};
  const Pair<float> got = run(s.vtrace(.5f));
  CHECK(got.first[0] == 5);
  CHECK(got.second[0] == 5);
}

TEST_CASE("vtrace: NaN and inf in elements that must not be read do not affect results") {
  for (const float poison : {kNaN, kInf, -kInf}) {
    RandomRollout s(50, 70, 3);
    s.poison_void(0);
    const Pair<float> clean = run(s.vtrace());
    s.poison_void(poison);
    for (int64_t t = 0; t < s.steps; ++t)
      for (int64_t n = 0; n < s.columns; ++n)
        if (s.linked(t, n)) s.next_values[s.at(t, n)] = poison;
    const Pair<float> got = run(s.vtrace());
    CHECK(got.first == clean.first);
    CHECK(got.second == clean.second);
  }
}

TEST_CASE("vtrace: log-ratios are clamped to 20, so targets stay finite without bounds") {
  RandomRollout s(1, 2, 4, 1000000, 0);
  std::fill(s.terminated.begin(), s.terminated.end(), uint8_t{1});
  s.rewards = {1, 1};
  s.values = {0, 0};
  s.log_rho = {500, -500};
  VtraceInput in = s.vtrace();
  in.rho_bar = in.c_bar = 0;
  const Pair<float> got = run(in);
  CHECK(got.first[0] == doctest::Approx(std::exp(20.0)).epsilon(1e-6));
  CHECK(got.first[1] == doctest::Approx(std::exp(-20.0)).epsilon(1e-6));
}

TEST_CASE("vtrace: a NaN log-ratio in a real step appears in the result") {
  RandomRollout s(1, 1, 5, 1000000, 0);
  s.log_rho = {kNaN};
  CHECK(std::isnan(run(s.vtrace()).first[0]));
}

TEST_CASE("vtrace: a rho_bar below c_bar and wrong sizes are rejected") {
  RandomRollout s(4, 3, 6);
  VtraceInput in = s.vtrace();
  in.rho_bar = .5f;
  CHECK_THROWS_AS(run(in), InvariantError);
  in.rho_bar = kNaN;
  CHECK_THROWS_AS(run(in), InvariantError);
  in.rho_bar = 2;
  in.c_bar = 0;  // no bound, so above rho_bar
  CHECK_THROWS_AS(run(in), InvariantError);
  in = s.vtrace();
  in.log_rho.size = 11;
  CHECK_THROWS_AS(run(in), InvariantError);
}

TEST_CASE("vtrace: rlax mixes values into the policy's target when lambda is below 1") {
  RandomRollout s(2, 1, 0, 1000000, 0);
  s.rewards = {0, 8};
  s.values = {0, 4};
  s.next_values = {kNaN, 0};
  s.log_rho = {0, 0};
  s.terminated = s.truncated = {0, 0};
  VtraceInput in = s.vtrace(.5f, .5f);
  CHECK(run(in).second[0] == 4);  // vs of the second step is its reward
  in.q_mix = QMix::rlax;
  CHECK(run(in).second[0] == 3);
}

TEST_CASE("vtrace: discounts and bootstrap in place of flags and next values") {
  const RandomRollout s(30, 21, 7, 8, 0);
  VtraceInput in = s.vtrace(.9f, .8f);
  in.truncated = {};
  std::vector<float> discounts(s.size());
  for (std::size_t i = 0; i < s.size(); ++i) discounts[i] = s.terminated[i] ? 0.0f : .9f;
  VtraceInput other = in;
  other.terminated = {};
  other.discounts = discounts;
  const std::vector<float> last(s.next_values.end() - 21, s.next_values.end());
  other.bootstrap = last;
  other.next_values = {};
  CHECK(misfit(run(other).first, run(in).first) <= 1);
  CHECK(misfit(run(other).second, run(in).second) <= 1);
}
