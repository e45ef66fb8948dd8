#include "tools/cli/run_curves.h"

#include <algorithm>
#include <cmath>

#include "runtime/stats/curve_statistics.h"

namespace troupe {

RunCurve curve_of(std::span<const double> x, std::span<const double> y) {
  std::vector<size_t> order;
  for (size_t i = 0; i < x.size(); ++i)
    if (std::isfinite(x[i]) && std::isfinite(y[i])) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](size_t i) { return x[i]; });
  RunCurve curve;
  for (const size_t i : order) {
    if (!curve.x.empty() && curve.x.back() == x[i]) {
      curve.y.back() = y[i];
      continue;
    }
    curve.x.push_back(x[i]);
    curve.y.push_back(y[i]);
  }
  return curve;
}

double value_at(const RunCurve& curve, double x) {
  const auto above = static_cast<size_t>(std::ranges::lower_bound(curve.x, x) - curve.x.begin());
  if (above == curve.x.size()) return curve.y.back();
  if (above == 0 || curve.x[above] == x) return curve.y[above];
  const double share = (x - curve.x[above - 1]) / (curve.x[above] - curve.x[above - 1]);
  return curve.y[above - 1] + share * (curve.y[above] - curve.y[above - 1]);
}

namespace {

std::vector<double> marks_of(std::span<const RunCurve> curves, double first, double last) {
  const RunCurve* fewest = &curves.front();
  for (const RunCurve& curve : curves) {
    if (curve.x.size() > kMostMarks) return {};
    if (curve.x.size() < fewest->x.size()) fewest = &curve;
  }
  std::vector<double> marks;
  for (const double x : fewest->x)
    if (x >= first && x <= last) marks.push_back(x);
  return marks;
}

}  // namespace

GroupCurve group_curve(std::span<const RunCurve> curves, std::span<const size_t> task_of) {
  GroupCurve group;
  group.runs = curves.size();
  double first = -INFINITY, last = INFINITY;
  for (const RunCurve& curve : curves) {
    first = std::max(first, curve.x.empty() ? INFINITY : curve.x.front());
    last = std::min(last, curve.x.empty() ? -INFINITY : curve.x.back());
  }
  if (curves.empty() || last < first) return group;
  const Resamples resamples(task_of, curves.size() > 1 ? kResamples : 1, kResampleSeed);
  const size_t points = last > first ? kCurvePoints : 1;
  if (points > 1) group.marks = marks_of(curves, first, last);
  std::vector<double> values(curves.size());
  for (size_t i = 0; i < points; ++i) {
    const double share = points == 1 ? 0 : static_cast<double>(i) / static_cast<double>(points - 1);
    const double x = first + (last - first) * share;
    for (size_t run = 0; run < curves.size(); ++run) values[run] = value_at(curves[run], x);
    const BootstrapInterval interval = bootstrap_interval(values, resamples);
    group.x.push_back(x);
    group.mean.push_back(interquartile_mean(values));
    group.low.push_back(interval.low);
    group.high.push_back(interval.high);
  }
  return group;
}

GroupCurve group_point(std::span<const RunCurve> curves, std::span<const size_t> task_of, double x) {
  std::vector<RunCurve> points;
  for (const RunCurve& curve : curves) points.push_back({{x}, {curve.y.back()}});
  return group_curve(points, task_of);
}

}  // namespace troupe
