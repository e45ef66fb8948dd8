#include "algorithms/common/running_normalizer.h"

#include <cmath>
#include <limits>
#include <vector>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// [samples, 3] with features of very different magnitudes.
std::vector<float> block(std::size_t samples, uint64_t seed = 1) {
  Rng rng(derive_key(seed, "normalizer"));
  std::vector<float> out;
  for (std::size_t i = 0; i < samples; ++i)
    for (const float size : {1e-3f, 1.0f, 1e4f}) out.push_back(5 * size + size * rng.normal());
  return out;
}

void check_equal(const RunningNormalizer& got, const RunningNormalizer& want) {
  REQUIRE(got.features() == want.features());
  CHECK(got.count() == want.count());
  for (std::size_t i = 0; i < got.mean().size(); ++i) {
    CHECK(got.mean()[i] == doctest::Approx(want.mean()[i]).epsilon(1e-12));
    CHECK(got.m2()[i] == doctest::Approx(want.m2()[i]).epsilon(1e-10));
  }
}

// Two passes over all samples, in long double.
RunningNormalizer oracle(const std::vector<float>& x) {
  const std::size_t samples = x.size() / 3;
  std::vector<double> mean(3), m2(3);
  for (std::size_t i = 0; i < 3; ++i) {
    long double sum = 0, squares = 0;
    for (std::size_t sample = 0; sample < samples; ++sample) sum += x[sample * 3 + i];
    for (std::size_t sample = 0; sample < samples; ++sample)
      squares += std::pow(x[sample * 3 + i] - sum / samples, 2.0L);
    mean[i] = static_cast<double>(sum / samples);
    m2[i] = static_cast<double>(squares);
  }
  return RunningNormalizer(static_cast<double>(samples), mean, m2);
}

}  // namespace

TEST_CASE("running_normalizer: blocks of any size add up to one pass over everything") {
  const std::vector<float> x = block(500);
  for (const std::size_t samples : {1u, 7u, 500u}) {
    RunningNormalizer n(3);
    for (std::size_t at = 0; at < x.size(); at += samples * 3)
      n.update(std::span(x).subspan(at, std::min(samples * 3, x.size() - at)));
    check_equal(n, oracle(x));
  }
}

TEST_CASE("running_normalizer: merged streams equal one stream") {
  const std::vector<float> x = block(300);
  RunningNormalizer left(3), right(3), nothing(3);
  left.update(std::span(x).first(90));
  right.update(std::span(x).subspan(90));
  left.merge(right);
  left.merge(nothing);
  nothing.merge(left);
  check_equal(left, oracle(x));
  check_equal(nothing, left);
}

TEST_CASE("running_normalizer: invalid samples do not count, whatever their values") {
  std::vector<float> x = block(3), kept(x.begin(), x.begin() + 3);
  kept.insert(kept.end(), x.begin() + 6, x.end());
  x[3] = x[4] = kNaN;
  RunningNormalizer n(3);
  n.update(x, std::vector<uint8_t>{1, 0, 1});
  check_equal(n, oracle(kept));
}

TEST_CASE("running_normalizer: a number that is not finite is rejected and changes nothing") {
  RunningNormalizer n(3);
  n.update(block(10));
  const RunningNormalizer before = n;
  for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
    std::vector<float> x = block(4, 2);
    x[7] = bad;
    CHECK_THROWS_AS(n.update(x), InvariantError);
    check_equal(n, before);
  }
}

TEST_CASE("running_normalizer: an empty block, or one with only invalid samples, changes nothing") {
  RunningNormalizer n(3);
  n.update({});
  n.update(block(2), std::vector<uint8_t>{0, 0});
  CHECK(n.count() == 0);
}

TEST_CASE("running_normalizer: without samples it only clips") {
  const RunningNormalizer n(2);
  const std::vector<float> x = {0.5f, -3, 100, -100};
  std::vector<float> y(4);
  n.normalize(x, y, 10, 0);
  CHECK(y == std::vector<float>{0.5f, -3, 10, -10});
}

TEST_CASE("running_normalizer: normalized data have mean 0 and variance 1, and denormalize() inverts it") {
  const std::vector<float> x = block(2000);
  RunningNormalizer n(3), after(3);
  n.update(x);
  std::vector<float> y(x.size()), z(x.size());
  n.normalize(x, y, 0, 0);
  n.denormalize(y, z, 0);
  after.update(y);
  for (int64_t i = 0; i < 3; ++i) {
    CHECK(std::abs(after.mean()[static_cast<std::size_t>(i)]) < 1e-5);
    CHECK(after.variance(i) == doctest::Approx(1).epsilon(1e-5));
  }
  for (std::size_t i = 0; i < x.size(); ++i) REQUIRE(z[i] == doctest::Approx(x[i]).epsilon(1e-5));
}

TEST_CASE("running_normalizer: works in place, clips, and keeps NaN") {
  RunningNormalizer n(1);
  n.update(std::vector<float>{-1, 1});
  std::vector<float> x = {1000, -1000, 0.5f, kNaN};
  n.normalize(x, x, 5, 0);
  CHECK(x[0] == 5);
  CHECK(x[1] == -5);
  CHECK(x[2] == 0.5f);
  CHECK(std::isnan(x[3]));
}

TEST_CASE("running_normalizer: a constant feature stays within the clip") {
  RunningNormalizer n(1);
  n.update(std::vector<float>(100, 3.0f));
  std::vector<float> x = {3, 4};
  n.normalize(x, x);
  CHECK(x[0] == 0);
  CHECK(x[1] == 10);
}

TEST_CASE("running_normalizer: a restored state continues like the original") {
  const std::vector<float> x = block(100);
  RunningNormalizer n(3);
  n.update(std::span(x).first(120));
  RunningNormalizer restored(n.count(), n.mean(), n.m2());
  n.update(std::span(x).subspan(120));
  restored.update(std::span(x).subspan(120));
  CHECK(restored.mean() == n.mean());
  CHECK(restored.m2() == n.m2());
}

TEST_CASE("running_normalizer: invalid states and wrong sizes are rejected") {
  CHECK_THROWS_AS(RunningNormalizer(1, {0, 0}, {0}), InvariantError);
  CHECK_THROWS_AS(RunningNormalizer(-1, {0}, {0}), InvariantError);
  CHECK_THROWS_AS(RunningNormalizer(1, {std::nan("")}, {0}), InvariantError);
  CHECK_THROWS_AS(RunningNormalizer(1, {0}, {-1}), InvariantError);
  RunningNormalizer n(3), other(2);
  std::vector<float> x(4);
  CHECK_THROWS_AS(n.update(x), InvariantError);
  CHECK_THROWS_AS(n.merge(other), InvariantError);
  CHECK_THROWS_AS(n.normalize(x, x), InvariantError);
  CHECK_THROWS_AS(RunningNormalizer(0).normalize(x, x), InvariantError);
}
