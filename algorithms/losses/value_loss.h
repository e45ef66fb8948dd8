#pragma once
// Value losses: per-element loss and gradient with respect to the value, before aggregation. Pure functions; any
// thread.

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

enum class ValueLossKind : uint8_t { l2 = 0, huber = 1 };

// The kind called `name` in a run file (`algorithm.value_loss`): "l2" or "huber". Throws ConfigError.
ValueLossKind find_value_loss(std::string_view name, std::string_view path = "algorithm.value_loss");

struct ValueLossParams {
  ValueLossKind kind = ValueLossKind::l2;
  float clip = 0;         // the new value counts only as far as this from the old one; 0 = off
  float huber_delta = 1;  // > 0; the error at which huber turns from square to linear
};

// The fraction of unmasked elements where clipping takes effect; 0 when there is none.
// All spans [n]; `mask` may be empty = all, `old_values` may be empty when clip is 0. loss and grad (d loss / d value)
// are 0 where masked; masked elements may hold anything, NaN included. Both kinds are x^2 / 2 near 0.
double value_loss(std::span<const float> values, std::span<const float> old_values, std::span<const float> returns,
                  std::span<const uint8_t> mask, const ValueLossParams& params, std::span<float> loss,
                  std::span<float> grad);

// 1 - Var(returns - values) / Var(returns) over the unmasked elements: 1 perfect, 0 as good as a constant, negative
// worse. 0 when the returns do not vary (variance below 1e-12). mask [n] or empty = all.
double explained_variance(std::span<const float> values, std::span<const float> returns, std::span<const uint8_t> mask);

}  // namespace troupe
