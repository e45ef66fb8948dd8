#include "models/learning/value_term.h"

#include <numeric>

namespace troupe {

void add_value_term(const ValueTerm& term, const ValueLossParams& params, double coef, std::span<float> losses,
                    std::span<float> gradients, LossReport& report) {
  report.value_clip_fraction = value_loss(term.values, term.old_values, term.returns, {}, params, losses, gradients);
  report.value_loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  report.loss += coef * report.value_loss;
  const auto weight = static_cast<float>(coef / term.total);
  for (float& gradient : gradients) gradient *= weight;
}

}  // namespace troupe
