// The interpolated proximal policy.
#include "algorithms/losses/proximal.h"

#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("proximal: a token with lag d has (d - 1) / d of the way from the rollout policy to the trained one") {
  const std::vector<float> now = {-1, -1, -1, -1, -1}, rollout = {-3, -3, -3, -3, -3};
  const std::vector<int64_t> lags = {0, 1, 2, 4, 8};
  std::vector<float> proximal(5);
  interpolate_proximal(now, rollout, lags, proximal);
  CHECK(proximal == std::vector<float>{-3, -3, -2, -1.5, -1.25});
}

TEST_CASE("proximal: equal policies give their own log-probabilities, bit for bit") {
  const std::vector<float> log_probs = {-0.1f, -2.7182817f, -1e-7f};
  const std::vector<int64_t> lags = {3, 7, 1};
  std::vector<float> proximal(3);
  interpolate_proximal(log_probs, log_probs, lags, proximal);
  CHECK(proximal == log_probs);
}
