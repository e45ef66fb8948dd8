#pragma once
// Value losses: loss per element and its gradient with respect to the value, before aggregation. Pure functions; any
// thread.

#include <cstdint>
#include <span>
#include <string_view>

#include "algorithms/common/moments.h"

namespace troupe {

enum class ValueLossKind : uint8_t { l2 = 0, huber = 1 };

// The kind with this name in a config file (`algorithm.value_loss`): "l2" or "huber". Throws ConfigError.
ValueLossKind find_value_loss(std::string_view name, std::string_view path = "algorithm.value_loss");

struct ValueLossParams {
  ValueLossKind kind = ValueLossKind::l2;
  float clip = 0;         // largest distance of the new value from the old one; 0 = off
  float huber_delta = 1;  // > 0; the error at which huber changes from quadratic to linear
};

// Returns the fraction of unmasked elements where clipping is active; 0 when there are none. All spans are [n]; `mask`
// may be empty = all, `old_values` may be empty when clip is 0. Writes loss and grad (d loss / d value), both 0 where
// masked; masked elements may be anything, NaN included. Both kinds are x^2 / 2 near 0.
double value_loss(std::span<const float> values, std::span<const float> old_values, std::span<const float> returns,
                  std::span<const uint8_t> mask, const ValueLossParams& params, std::span<float> loss,
                  std::span<float> grad);

// What the explained variance is computed from. A plain value.
struct ValueFit {
  Moments error;   // returns - values
  Moments target;  // returns

  // Adds other elements.
  void merge(const ValueFit& other) { error.merge(other.error), target.merge(other.target); }
};
// Of the unmasked elements. mask: [n], or empty = all.
ValueFit value_fit(std::span<const float> values, std::span<const float> returns, std::span<const uint8_t> mask);

// 1 - Var(returns - values) / Var(returns) over the unmasked elements: 1 = perfect, 0 = no better than a constant,
// negative = worse. 0 when the returns do not vary (variance below 1e-12). mask: [n], or empty = all.
double explained_variance(std::span<const float> values, std::span<const float> returns, std::span<const uint8_t> mask);
double explained_variance(const ValueFit& fit);

}  // namespace troupe
