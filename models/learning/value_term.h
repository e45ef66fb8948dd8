#pragma once
// The value loss as a term of the loss of a minibatch, of samples or of tokens of answers. Its form for other devices
// is in DevicePolicyLoss (models/torch/learning/device_loss.h). A pure function; any thread.

#include <cstdint>
#include <span>

#include "algorithms/losses/value_loss.h"
#include "models/learning/loss_report.h"

namespace troupe {

// Some elements of a minibatch of `total`, which counts those that are kept. All spans are [n].
struct ValueTerm {
  std::span<const float> values, old_values, returns;
  double total = 0;
  std::span<const uint8_t> kept = {};  // 0 = without loss, or empty = all
};

// Adds coef * mean(value loss) of these elements that are kept to the report of their loss, and writes what they add to
// the gradient of the whole minibatch. `losses` [n] is overwritten.
void add_value_term(const ValueTerm& term, const ValueLossParams& params, double coef, std::span<float> losses,
                    std::span<float> gradients, LossReport& report);

}  // namespace troupe
