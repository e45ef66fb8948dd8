#pragma once
// The metrics of an update that are reported for each policy lag, as entries of the table in metrics.h. Plain
// functions; any thread.

#include <string_view>
#include <vector>

#include "models/learning/metrics.h"

namespace troupe {

inline constexpr std::string_view kLossesByLag = "Losses and the policy, by lag";

// Of the surrogate: "kl_lag_0", "kl_lag_1", ... The lags of a figure follow each other.
std::vector<Metric> loss_metrics_by_lag();
// Of the policies that sampled the tokens of answers: "rollout_kl_lag_0", ...; they belong to `group`.
std::vector<Metric> rollout_metrics_by_lag(std::string_view group);

}  // namespace troupe
