#include "models/learning/loss_report.h"

#include "tests/support/test.h"

using namespace troupe;

namespace {

// Whose figures are `first`, first + 1, ...
LossReport report_of(double count, double first) {
  LossReport report;
  report.count = count;
  for (auto member : LossReport::means()) report.*member = first++;
  report.surrogate.count = report.surrogate.ratio = count;
  report.surrogate.ratio_max = report.surrogate.ratio_min = first;
  return report;
}

// 1 sample with figures from 10 on and 3 with figures from 30 on make 4 with figures from 25 on.
void check_means(const LossReport& report) {
  CHECK(report.count == 4);
  double expected = 25;
  for (auto member : LossReport::means()) CHECK(report.*member == expected++);
}

}  // namespace

TEST_CASE("loss_report: parts of a step become means of all figures over their samples, and sums of the surrogate") {
  LossReport merged;
  merged.merge(report_of(1, 10));
  merged.merge(report_of(3, 30));
  check_means(merged);
  CHECK(merged.surrogate.count == 4);
  CHECK(merged.surrogate.ratio == 4);
}

TEST_CASE("loss_report: steps become means of all figures over their samples, and of their diagnostics") {
  LossReport epoch;
  epoch.add_step(report_of(1, 10));
  epoch.add_step(report_of(3, 30));
  check_means(epoch);
  CHECK(epoch.diagnostics.count == 4);
  CHECK(epoch.diagnostics.ratio_mean == 1);
  CHECK(epoch.diagnostics.ratio_max == 30 + static_cast<double>(LossReport::means().size()));
  CHECK(epoch.diagnostics.ratio_min == 10 + static_cast<double>(LossReport::means().size()));
}

TEST_CASE("loss_report: the first part leaves its figures as they are") {
  LossReport merged;
  const LossReport part = report_of(3, 0.1);
  merged.merge(part);
  for (auto member : LossReport::means()) CHECK(merged.*member == doctest::Approx(part.*member));
}
