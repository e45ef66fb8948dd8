#include "algorithms/advantages/gae.h"

#include "runtime/base/errors.h"
#include "tests/algorithms/common/random_rollout.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The recurrence as a loop over one column at a time, in double.
Pair<double> oracle(const GaeInput& in) {
  Pair<double> out{std::vector<double>(in.rewards.size), std::vector<double>(in.rewards.size)};
  for (int64_t n = 0; n < in.sequences; ++n) {
    double later = 0;
    for (int64_t t = in.steps - 1; t >= 0; --t) {
      const auto i = static_cast<std::size_t>(t * in.sequences + n);
      if (in.valid.size && !in.valid.data[i]) {
        later = 0;
        continue;
      }
      const bool end = in.terminated.data[i] || (in.truncated.data[i] && !in.bootstrap_on_truncation);
      const double next = end ? 0.0 : at(in.next_values, i);
      const double delta = at(in.rewards, i) + double{in.gamma} * next - at(in.values, i);
      const bool done = in.terminated.data[i] || in.truncated.data[i];
      later = delta + (done ? 0.0 : double{in.gamma} * in.lambda * later);
      out.first[i] = later;
      out.second[i] = later + at(in.values, i);
    }
  }
  return out;
}

double misfit_of(const GaeInput& in) {
  const Pair<float> got = run(in);
  const Pair<double> want = oracle(in);
  return std::max(misfit(got.first, want.first), misfit(got.second, want.second));
}

}  // namespace

TEST_CASE("gae: agrees with a float64 loop for every shape, factor and mask") {
  const std::pair<float, float> factors[] = {{0.99f, 0.95f}, {0, 0}, {0, 1}, {1, 0}, {1, 1}};
  uint64_t seed = 0;
  for (const auto& [t, n] : shapes())
    for (const auto& [gamma, lambda] : factors)
      for (const double void_share : {0.0, 0.2, 1.0})
        for (const uint64_t one_in : {uint64_t{1}, uint64_t{4}, uint64_t{1000000}}) {
          const RandomRollout rollout(t, n, ++seed, one_in, void_share);
          GaeInput in = rollout.gae(gamma, lambda);
          CAPTURE(seed);
          CHECK(misfit_of(in) <= 1);
          in.bootstrap_on_truncation = false;
          CHECK(misfit_of(in) <= 1);
          in.valid = {};
          CHECK(misfit_of(in) <= 1);
        }
}

TEST_CASE("gae: the rlax example, where a discount of 0 means a terminal state") {
  const auto column = [](std::vector<float> r, std::vector<float> v, float gamma, int64_t end) {
    RandomRollout s(5, 1, 0, 1000000, 0);
    s.rewards = std::move(r);
    s.next_values.assign(v.begin() + 1, v.end());
    s.values.assign(v.begin(), v.end() - 1);
    std::fill(s.terminated.begin(), s.terminated.end(), uint8_t{0});
    std::fill(s.truncated.begin(), s.truncated.end(), uint8_t{0});
    if (end >= 0) s.terminated[static_cast<std::size_t>(end)] = 1;
    return run(s.gae(gamma, 1)).first;
  };
  const std::vector<float> first = column({0, 0, 1, 0, -.5f}, {1, 4, -3, -2, -1, -1}, .99f, -1);
  const std::vector<double> want_first = {-1.4511880, -4.4557455, 2.539651, .5249, -.49};
  const std::vector<float> second = column({0, 0, 0, 0, 1}, {-3, -2, -1, 0, 5, -1}, .9f, 3);
  const std::vector<double> want_second = {3, 2, 1, 0, -4.9};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(std::abs(first[i] - want_first[i]) < 1e-5);
    CHECK(std::abs(second[i] - want_second[i]) < 1e-5);
  }
}

TEST_CASE("gae: the tianshou example of episodic returns") {
  RandomRollout s(12, 1, 0, 1000000, 0);
  s.rewards = {101, 102, 103, 200, 104, 105, 106, 201, 107, 108, 109, 202};
  s.next_values = {2, 3, 4, -1, 5, 6, 7, -2, 8, 9, 10, -3};
  s.values = {0, 2, 3, 4, 0, 5, 6, 7, 0, 8, 9, 10};
  s.terminated = {0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::fill(s.truncated.begin(), s.truncated.end(), uint8_t{0});
  const std::vector<double> want = {454.8344, 376.1143, 291.298,  200,      464.5610, 383.1085,
                                    295.387,  201,      474.2876, 390.1027, 299.476,  202};
  const Pair<float> got = run(s.gae());
  for (std::size_t i = 0; i < 12; ++i) CHECK(std::abs(got.second[i] - want[i]) < 1e-3);
}

TEST_CASE("gae: a chain of deltas 1..5 with decay one half") {
  RandomRollout s(5, 1, 0, 1000000, 0);
  s.rewards = {1, 2, 3, 4, 5};
  s.values = s.next_values = {0, 0, 0, 0, 0};
  std::fill(s.terminated.begin(), s.terminated.end(), uint8_t{0});
  std::fill(s.truncated.begin(), s.truncated.end(), uint8_t{0});
  CHECK(run(s.gae(1, .5f)).first == std::vector<float>{3.5625f, 5.125f, 6.25f, 6.5f, 5.0f});
}

TEST_CASE("gae: with lambda 0 the advantage is the temporal difference") {
  const RandomRollout s(40, 9, 3);
  const Pair<float> got = run(s.gae(.9f, 0));
  for (std::size_t i = 0; i < s.size(); ++i) {
    const double delta = s.rewards[i] + .9 * (s.terminated[i] ? 0 : s.next_values[i]) - s.values[i];
    CHECK(got.first[i] == doctest::Approx(s.live(i) ? delta : 0.0).epsilon(1e-5));
  }
}

TEST_CASE("gae: with lambda 1 the return is the discounted reward to go") {
  RandomRollout s(40, 9, 4);
  s.join_values();
  const Pair<float> got = run(s.gae(.9f, 1));
  std::vector<double> want(s.size());
  for (int64_t t = s.steps - 1; t >= 0; --t)
    for (int64_t n = 0; n < s.columns; ++n) {
      const std::size_t i = s.at(t, n);
      const double tail = s.linked(t, n) ? want[s.at(t + 1, n)] : s.terminated[i] ? 0.0 : s.next_values[i];
      want[i] = s.live(i) ? s.rewards[i] + double{.9f} * tail : 0.0;
    }
  CHECK(misfit(got.second, want) <= 1);
}

TEST_CASE("gae: NaN and inf in elements that must not be read do not affect results") {
  for (const float poison : {kNaN, kInf, -kInf}) {
    RandomRollout s(50, 70, 5);
    s.poison_void(0);
    const Pair<float> clean = run(s.gae());
    s.poison_void(poison);
    const Pair<float> got = run(s.gae());
    CHECK(got.first == clean.first);
    CHECK(got.second == clean.second);
  }
}

TEST_CASE("gae: invalid steps give 0 and end the segment before them") {
  RandomRollout s(3, 1, 6, 1000000, 0);
  std::fill(s.terminated.begin(), s.terminated.end(), uint8_t{0});
  std::fill(s.truncated.begin(), s.truncated.end(), uint8_t{0});
  s.valid = {1, 0, 1};
  const Pair<float> got = run(s.gae(.5f, 1));
  CHECK(got.first[0] == doctest::Approx(s.rewards[0] + .5f * s.next_values[0] - s.values[0]));
  CHECK(got.first[1] == 0);
  CHECK(got.second[1] == 0);
}

TEST_CASE("gae: a NaN in a real step affects only this step and earlier steps of its episode") {
  RandomRollout s(6, 1, 7, 1000000, 0);
  s.terminated = {0, 1, 0, 0, 0, 0};
  s.truncated = {0, 0, 0, 0, 0, 0};
  s.rewards[4] = kNaN;
  const std::vector<float> got = run(s.gae()).first;
  for (const std::size_t i : {2u, 3u, 4u}) CHECK(std::isnan(got[i]));
  for (const std::size_t i : {0u, 1u, 5u}) CHECK(std::isfinite(got[i]));
}

TEST_CASE("gae: splitting a rollout at a terminal or truncated step does not change results") {
  RandomRollout whole(20, 66, 8);
  for (int64_t n = 0; n < whole.columns; ++n) (n % 2 ? whole.terminated : whole.truncated)[whole.at(11, n)] = 1;
  const Pair<float> all = run(whole.gae());
  GaeInput part = whole.gae();
  const std::size_t cut = whole.at(12, 0);
  part.steps = 12;
  for (FloatView* view : {&part.rewards, &part.values, &part.next_values}) view->size = cut;
  for (FlagView* view : {&part.terminated, &part.truncated, &part.valid}) view->size = cut;
  CHECK(run(part).first == std::vector<float>(all.first.begin(), all.first.begin() + static_cast<int64_t>(cut)));
}

TEST_CASE("gae: terminated takes precedence over truncated") {
  RandomRollout s(30, 5, 9);
  const Pair<float> got = run(s.gae());
  for (std::size_t i = 0; i < s.size(); ++i) s.truncated[i] |= s.terminated[i];
  CHECK(run(s.gae()).first == got.first);
}

TEST_CASE("gae: without bootstrap, truncation counts as a terminal state") {
  RandomRollout s(30, 5, 10);
  GaeInput in = s.gae();
  in.bootstrap_on_truncation = false;
  const Pair<float> got = run(in);
  for (std::size_t i = 0; i < s.size(); ++i) s.terminated[i] |= s.truncated[i];
  CHECK(run(s.gae()).first == got.first);
}

TEST_CASE("gae: any flag that is not 0 counts as set") {
  RandomRollout s(30, 5, 11);
  const Pair<float> got = run(s.gae());
  for (auto* flags : {&s.terminated, &s.truncated, &s.valid})
    for (uint8_t& flag : *flags) flag = flag ? 128 : 0;
  CHECK(run(s.gae()).first == got.first);
}

TEST_CASE("gae: wrong sizes and factors are rejected") {
  RandomRollout s(4, 3, 12);
  std::vector<float> good(12), bad(11);
  CHECK_THROWS_AS(gae(s.gae(), bad, good), InvariantError);
  CHECK_THROWS_AS(gae(s.gae(), good, bad), InvariantError);
  for (const float factor : {-.1f, 1.1f, kNaN}) {
    CHECK_THROWS_AS(gae(s.gae(factor, .9f), good, good), InvariantError);
    CHECK_THROWS_AS(gae(s.gae(.9f, factor), good, good), InvariantError);
  }
  s.valid.pop_back();
  CHECK_THROWS_AS(gae(s.gae(), good, good), InvariantError);
}
