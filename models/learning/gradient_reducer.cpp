#include "models/learning/gradient_reducer.h"

#include <utility>
#include <vector>

namespace troupe {

namespace {

class SingleRank final : public GradientReducer {
 public:
  int ranks() const override { return 1; }
  void sum(std::span<double>) override {}
  void reduce(at::Tensor&, int64_t) override {}
};

}  // namespace

std::shared_ptr<GradientReducer> single_rank() { return std::make_shared<SingleRank>(); }

double sum_over_ranks(GradientReducer& reducer, double number) {
  reducer.sum({&number, 1});
  return number;
}

// First sums for the common mean, then the squared deviations from it: computed from sums of squares, the variance
// would lose digits.
void merge_over_ranks(GradientReducer& reducer, std::span<Moments> moments) {
  if (reducer.ranks() == 1) return;
  std::vector<double> totals, squares;
  for (const Moments& own : moments) totals.insert(totals.end(), {own.count, own.count * own.mean});
  reducer.sum(totals);
  for (size_t i = 0; i < moments.size(); ++i) {
    const Moments own = moments[i];
    const double count = totals[2 * i], mean = count > 0 ? totals[2 * i + 1] / count : 0.0;
    const double delta = own.mean - mean;
    squares.push_back(own.count > 0 ? own.m2 + own.count * delta * delta : 0.0);
    moments[i] = {.count = count, .mean = mean, .m2 = 0.0};
  }
  reducer.sum(squares);
  for (size_t i = 0; i < moments.size(); ++i) moments[i].m2 = squares[i];
}

RunningNormalizer merged_over_ranks(GradientReducer& reducer, const RunningNormalizer& statistics) {
  if (reducer.ranks() == 1 || statistics.features() == 0) return statistics;
  std::vector<Moments> moments;
  for (size_t i = 0; i < statistics.mean().size(); ++i)
    moments.push_back({statistics.count(), statistics.mean()[i], statistics.m2()[i]});
  merge_over_ranks(reducer, moments);
  std::vector<double> mean, m2;
  for (const Moments& each : moments) {
    mean.push_back(each.mean);
    m2.push_back(each.m2);
  }
  return {moments.front().count, std::move(mean), std::move(m2)};
}

}  // namespace troupe
