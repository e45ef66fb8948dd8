#include "algorithms/value_loss.h"

#include <array>
#include <cmath>

#include "algorithms/moments.h"
#include "algorithms/names.h"
#include "algorithms/tile.h"

namespace troupe {

namespace {

// {loss, slope} of an error x.
struct L2 {
  float loss(float x) const { return 0.5f * x * x; }
  float slope(float x) const { return x; }
};

struct Huber {
  float delta;
  float loss(float x) const {
    const float size = std::fabs(x);
    return select(mask_of(size <= delta), 0.5f * x * x, delta * (size - 0.5f * delta));
  }
  float slope(float x) const { return clamp_keep_nan(x, -delta, delta); }
};

// Elements where clipping takes effect. The worse of the clipped and the unclipped loss counts; inside the range both are the
// same, so wherever the clipped one is worse it has no gradient.
template <class Rule>
int64_t run(std::span<const float> values, const float* old_values, std::span<const float> returns,
            std::span<const uint8_t> mask, float clip, Rule rule, float* __restrict loss, float* __restrict grad) {
  int64_t clipped = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const uint32_t live = mask.empty() ? ~0u : mask_of(mask[i] != 0);
    const float value = values[i];
    const float old = old_values ? old_values[i] : value;
    const float error = select(live, value - returns[i]);
    const float clipped_value = clamp_keep_nan(value, old - clip, old + clip);
    const float clipped_loss = rule.loss(select(live, clipped_value - returns[i]));
    const float plain_loss = rule.loss(error);
    const uint32_t active = mask_of(clipped_loss > plain_loss);
    clipped += active & 1u;
    loss[i] = select(active, clipped_loss, plain_loss);
    grad[i] = select(~active, rule.slope(error));
  }
  return clipped;
}

int64_t count_live(std::span<const uint8_t> mask, std::size_t n) {
  if (mask.empty()) return static_cast<int64_t>(n);
  int64_t live = 0;
  for (const uint8_t flag : mask) live += flag != 0;
  return live;
}

}  // namespace

ValueLossKind find_value_loss(std::string_view name) {
  static constexpr std::array<std::string_view, 2> kNames = {"l2", "huber"};
  return static_cast<ValueLossKind>(find_name("algorithm.value_loss", name, kNames));
}

double value_loss(std::span<const float> values, std::span<const float> old_values, std::span<const float> returns,
                  std::span<const uint8_t> mask, const ValueLossParams& params, std::span<float> loss,
                  std::span<float> grad) {
  const std::size_t n = values.size();
  TROUPE_CHECK(returns.size() == n && fits_or_empty(mask, n) && loss.size() == n && grad.size() == n, "values", n, "returns",
               returns.size(), "mask", mask.size(), "loss", loss.size(), "grad", grad.size());
  TROUPE_CHECK(params.clip >= 0 && params.huber_delta > 0, "clip", params.clip, "huber_delta", params.huber_delta);
  const bool clips = params.clip > 0;
  TROUPE_CHECK(old_values.size() == n || (!clips && old_values.empty()), "values", n, "old_values", old_values.size());
  const float* old = clips ? old_values.data() : nullptr;
  const int64_t clipped =
      params.kind == ValueLossKind::l2
          ? run(values, old, returns, mask, params.clip, L2{}, loss.data(), grad.data())
          : run(values, old, returns, mask, params.clip, Huber{params.huber_delta}, loss.data(), grad.data());
  const int64_t live = count_live(mask, n);
  return live == 0 ? 0.0 : static_cast<double>(clipped) / static_cast<double>(live);
}

double explained_variance(std::span<const float> values, std::span<const float> returns, std::span<const uint8_t> mask) {
  const std::size_t n = values.size();
  TROUPE_CHECK(returns.size() == n && fits_or_empty(mask, n), "values", n, "returns", returns.size(), "mask", mask.size());
  Moments error, target;
  for (std::size_t i = 0; i < n; ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    error.add(double{returns[i]} - double{values[i]});
    target.add(returns[i]);
  }
  return target.variance() < 1e-12 ? 0.0 : 1.0 - error.variance() / target.variance();
}

}  // namespace troupe
