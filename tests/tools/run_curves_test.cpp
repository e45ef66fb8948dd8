#include "tools/cli/run_curves.h"

#include <cmath>

#include "runtime/stats/curve_statistics.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("curve_of: points in the order of x, without those that lack a number; the last of equal x counts") {
  const Numbers x = {0, 30, 10, 20, 20, NAN}, y = {1, 4, 2, NAN, 3, 9};
  const RunCurve curve = curve_of(x, y);
  CHECK(curve.x == Numbers{0, 10, 20, 30});
  CHECK(curve.y == Numbers{1, 2, 3, 4});
  CHECK(curve_of(Numbers{5, 5}, Numbers{1, 2}).y == Numbers{2});
}

TEST_CASE("value_at: on the line between the neighbours, and at the ends beyond them") {
  const RunCurve curve{{0, 10, 20}, {0, 100, 50}};
  CHECK(value_at(curve, 5) == 50);
  CHECK(value_at(curve, 10) == 100);
  CHECK(value_at(curve, 15) == 75);
  CHECK(value_at(curve, -1) == 0);
  CHECK(value_at(curve, 21) == 50);
}

TEST_CASE("group_curve: runs with different x are joined where all of them are") {
  const std::vector<RunCurve> curves = {{{0, 100}, {0, 100}}, {{10, 90}, {20, 100}}, {{5, 200}, {5, 200}}};
  const GroupCurve group = group_curve(curves, std::vector<size_t>{0, 0, 0});
  REQUIRE(group.x.size() == kCurvePoints);
  CHECK(group.runs == 3);
  CHECK(group.x.front() == 10);
  CHECK(group.x.back() == 90);
  for (size_t i = 0; i < group.x.size(); ++i) {
    const Numbers values = {value_at(curves[0], group.x[i]), value_at(curves[1], group.x[i]),
                            value_at(curves[2], group.x[i])};
    CHECK(group.mean[i] == doctest::Approx(interquartile_mean(values)).epsilon(1e-9));
    CHECK(group.low[i] <= group.mean[i] + 1e-9);
    CHECK(group.high[i] >= group.mean[i] - 1e-9);
  }
}

TEST_CASE("group_curve: gives the same numbers each time, and none where the runs have no x in common") {
  const std::vector<RunCurve> curves = {{{0, 100}, {3, 1}}, {{0, 100}, {0, 7}}, {{0, 100}, {5, 2}}, {{0, 100}, {9, 8}}};
  const std::vector<size_t> tasks = {0, 0, 1, 1};
  CHECK(group_curve(curves, tasks).low == group_curve(curves, tasks).low);
  const std::vector<RunCurve> apart = {{{0, 1}, {0, 0}}, {{2, 3}, {0, 0}}};
  CHECK(group_curve(apart, std::vector<size_t>{0, 0}).x.empty());
  const std::vector<RunCurve> point = {{{2}, {8}}};
  CHECK(group_curve(point, std::vector<size_t>{0}).mean == Numbers{8});
}

TEST_CASE("group_curve: has marks at the records of the run with the fewest, and none where a run has many") {
  const RunCurve three = {{0, 50, 100}, {0, 1, 2}}, two = {{10, 90}, {0, 1}};
  const std::vector<size_t> tasks = {0, 0};
  CHECK(group_curve(std::vector<RunCurve>{three, two}, tasks).marks == Numbers{10, 90});
  RunCurve many;
  for (size_t i = 0; i <= kMostMarks; ++i) {
    many.x.push_back(static_cast<double>(i));
    many.y.push_back(0);
  }
  CHECK(group_curve(std::vector<RunCurve>{three, many}, tasks).marks.empty());
}
