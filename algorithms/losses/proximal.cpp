#include "algorithms/losses/proximal.h"

#include "runtime/base/errors.h"

namespace troupe {

void interpolate_proximal(std::span<const float> log_probs, std::span<const float> rollout_log_probs,
                          std::span<const int64_t> lags, std::span<float> proximal) {
  const size_t n = log_probs.size();
  TROUPE_CHECK(rollout_log_probs.size() == n && lags.size() == n && proximal.size() == n, n, rollout_log_probs.size(),
               lags.size(), proximal.size());
  for (size_t i = 0; i < n; ++i) {
    const auto lag = static_cast<double>(lags[i]);
    const double share = lags[i] >= 1 ? (lag - 1) / lag : 0.0, rollout = rollout_log_probs[i];
    proximal[i] = static_cast<float>(rollout + share * (double{log_probs[i]} - rollout));
  }
}

}  // namespace troupe
