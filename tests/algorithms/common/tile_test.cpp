#include "algorithms/common/tile.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("exp_bounded: within 2e-7 of exp over [-20, 20], exact at 0") {
  double worst = 0;
  for (int i = -2000000; i <= 2000000; ++i) {
    const float x = static_cast<float>(i) * 1e-5f;
    worst = std::max(worst, std::abs(exp_bounded(x) / std::exp(double{x}) - 1));
  }
  CHECK(worst < 2e-7);
  CHECK(exp_bounded(0.0f) == 1.0f);
  CHECK(exp_bounded(-0.0f) == 1.0f);
}

TEST_CASE("ratio_of: clamps the log-ratio to 20, keeps NaN") {
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(ratio_of(inf) == exp_bounded(20));
  CHECK(ratio_of(-inf) == exp_bounded(-20));
  CHECK(std::isnan(ratio_of(std::numeric_limits<float>::quiet_NaN())));
}

TEST_CASE("for_each_tile: both directions cover every element once") {
  for (const int64_t n : {0, 1, 63, 64, 65, 128, 200}) {
    std::vector<int> forward(static_cast<std::size_t>(n)), backward(forward);
    for_each_tile(n, [&](int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; ++i) ++forward[static_cast<std::size_t>(first + i)];
    });
    for_each_tile_backward(n, [&](int64_t first, int64_t count) {
      for (int64_t i = 0; i < count; ++i) ++backward[static_cast<std::size_t>(first + i)];
    });
    CHECK(forward == std::vector<int>(static_cast<std::size_t>(n), 1));
    CHECK(backward == forward);
  }
}
