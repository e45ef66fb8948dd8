#include "models/learning/value_term.h"

#include <algorithm>
#include <numeric>

namespace troupe {

void add_value_term(const ValueTerm& term, const ValueLossParams& params, double coef, std::span<float> losses,
                    std::span<float> gradients, LossReport& report) {
  report.value_clip_fraction =
      value_loss(term.values, term.old_values, term.returns, term.kept, params, losses, gradients);
  const auto count = term.kept.empty() ? static_cast<std::ptrdiff_t>(losses.size())
                                       : std::ranges::count_if(term.kept, [](uint8_t flag) { return flag != 0; });
  report.value_loss = std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(count);
  report.loss += coef * report.value_loss;
  const auto weight = static_cast<float>(coef / term.total);
  for (float& gradient : gradients) gradient *= weight;
}

}  // namespace troupe
