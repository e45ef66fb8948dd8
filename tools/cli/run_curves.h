#pragma once
// Curves of figures of runs, and those of groups of runs, for `troupe plot`. Plain functions; main thread.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe {

// Points of one run, from the smallest x on; no two have the same.
struct RunCurve {
  std::vector<double> x, y;
};

// The points at which both figures have a number. Of points with the same x, the last one counts.
RunCurve curve_of(std::span<const double> x, std::span<const double> y);

// y at any x between the ends of the curve, on the straight line between its neighbours; at the nearest end elsewhere.
double value_at(const RunCurve& curve, double x);

// The interquartile mean over the runs of a group, and the ends of its interval.
struct GroupCurve {
  std::string label;
  size_t runs = 0;
  std::vector<double> x, mean, low, high;
  std::vector<double> marks = {};  // x of the records, where these are so few that each is a point
};

// The marks are those of the run with the fewest records, if all have kMostMarks at most.
// At kCurvePoints equally spaced x, from the first that all curves have reached to the last that all of them reach;
// empty where there is none. Resamples are drawn within runs of the same task, `task_of` of each.
inline constexpr size_t kCurvePoints = 201, kMostMarks = 30;
GroupCurve group_curve(std::span<const RunCurve> curves, std::span<const size_t> task_of);

// The same of curves with one point each, at `x` whatever their own x are.
GroupCurve group_point(std::span<const RunCurve> curves, std::span<const size_t> task_of, double x);

}  // namespace troupe
