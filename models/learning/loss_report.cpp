#include "models/learning/loss_report.h"

#include <algorithm>

namespace troupe {

namespace {

constexpr auto kMeanDiagnostics = std::array{&SurrogateDiagnostics::kl_k1,
                                             &SurrogateDiagnostics::kl_k2,
                                             &SurrogateDiagnostics::kl_k3,
                                             &SurrogateDiagnostics::clip_fraction,
                                             &SurrogateDiagnostics::clip_fraction_lower,
                                             &SurrogateDiagnostics::outside_fraction,
                                             &SurrogateDiagnostics::dead_gradient_fraction,
                                             &SurrogateDiagnostics::saturated_fraction,
                                             &SurrogateDiagnostics::ess,
                                             &SurrogateDiagnostics::ess_clamped,
                                             &SurrogateDiagnostics::ratio_mean};

// A figure that is in no list would be that of the first part, or of the first step.
static_assert(sizeof(LossReport) == (2 + LossReport::means().size()) * sizeof(double) + sizeof(SurrogateSums) +
                                        sizeof(SurrogateDiagnostics) +
                                        kLagClasses * (sizeof(ClassSums) + sizeof(ClassDiagnostics)));
static_assert(sizeof(SurrogateDiagnostics) == (kMeanDiagnostics.size() + 3) * sizeof(double));

double weighted(double a, double weight_a, double b, double weight_b) {
  const double total = weight_a + weight_b;
  return total == 0 ? 0.0 : (a * weight_a + b * weight_b) / total;
}

}  // namespace

void LossReport::add_means(const LossReport& other) {
  for (auto member : means()) this->*member = weighted(this->*member, count, other.*member, other.count);
  count += other.count;
}

void LossReport::merge(const LossReport& other) {
  add_means(other);
  surrogate.merge(other.surrogate);
  for (size_t lag = 0; lag < kLagClasses; ++lag) by_lag[lag].merge(other.by_lag[lag]);
}

void LossReport::add_step(const LossReport& step) {
  add_means(step);
  SurrogateDiagnostics& mine = diagnostics;
  const SurrogateDiagnostics theirs = diagnostics_of(step.surrogate);
  const double n = mine.count, m = theirs.count;
  for (auto member : kMeanDiagnostics) mine.*member = weighted(mine.*member, n, theirs.*member, m);
  mine.ratio_max = std::max(mine.ratio_max, theirs.ratio_max);
  mine.ratio_min = n == 0 ? theirs.ratio_min : m == 0 ? mine.ratio_min : std::min(mine.ratio_min, theirs.ratio_min);
  mine.count += m;
  kl_count = mine.count;
  for (size_t lag = 0; lag < kLagClasses; ++lag) lag_diagnostics[lag].add_step(step.by_lag[lag]);
}

LossReport merged(std::span<const LossReport> shards) {
  LossReport result = shards.front();
  for (const LossReport& other : shards.subspan(1)) result.merge(other);
  return result;
}

}  // namespace troupe
