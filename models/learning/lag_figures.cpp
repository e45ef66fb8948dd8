#include "models/learning/lag_figures.h"

#include <algorithm>
#include <cmath>

#include "algorithms/common/tile.h"
#include "runtime/base/errors.h"

namespace troupe {
namespace {

// Sums until finish() divides them.
void add(PolicyDistance& to, double log_ratio) {
  constexpr double kLimit = kMaxLogRatio;
  const double ratio = std::exp(std::clamp(log_ratio, -kLimit, kLimit));
  to.ratio_min = to.tokens == 0 ? ratio : std::min(to.ratio_min, ratio);
  to.ratio_max = to.tokens == 0 ? ratio : std::max(to.ratio_max, ratio);
  to.tokens += 1;
  to.kl -= log_ratio;
  to.ratio_mean += ratio;
}

void finish(PolicyDistance& of) {
  if (of.tokens == 0) return;
  of.kl /= of.tokens;
  of.ratio_mean /= of.tokens;
}

}  // namespace

LagFigures lag_figures(std::span<const float> start, std::span<const float> rollout, std::span<const int64_t> lags,
                       std::span<const uint8_t> mask) {
  TROUPE_CHECK(start.size() == rollout.size() && start.size() == lags.size() && fits_or_empty(mask, start.size()),
               start.size(), rollout.size(), lags.size(), mask.size());
  LagFigures result;
  for (size_t i = 0; i < start.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    const double log_ratio = double{start[i]} - double{rollout[i]};
    add(result.all, log_ratio);
    add(result.by_lag[lag_class(lags[i])], log_ratio);
  }
  finish(result.all);
  std::ranges::for_each(result.by_lag, finish);
  return result;
}

LagShares lag_shares(std::span<const int64_t> lags, std::span<const uint8_t> mask) {
  TROUPE_CHECK(fits_or_empty(mask, lags.size()), lags.size(), mask.size());
  LagShares result;
  for (size_t i = 0; i < lags.size(); ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    const auto lag = static_cast<double>(lags[i]);
    result.tokens += 1;
    result.mean += lag;
    result.max = std::max(result.max, lag);
    result.share[lag_class(lags[i])] += 1;
  }
  if (result.tokens == 0) return result;
  result.mean /= result.tokens;
  for (double& share : result.share) share /= result.tokens;
  return result;
}

}  // namespace troupe
