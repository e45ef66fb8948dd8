#include "algorithms/common/tile.h"

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("ratio_of: clamps the log-ratio to 20, and NaN stays NaN") {
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
