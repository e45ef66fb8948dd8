#include "algorithms/losses/value_loss.h"

#include <array>

#include "algorithms/common/moments.h"
#include "algorithms/common/names.h"
#include "algorithms/common/tile.h"

namespace troupe {

namespace {

// {loss, slope} for an error x.
struct L2 {
  float loss(float x) const { return 0.5f * x * x; }
  float slope(float x) const { return x; }
};

struct Huber {
  float delta;
  float loss(float x) const {
    const float inside = slope(x);  // x, or +-delta: the loss is then delta * (|x| - delta / 2)
    return inside * (x - 0.5f * inside);
  }
  float slope(float x) const { return clamp_keep_nan(x, -delta, delta); }
};

struct Arrays {
  const float* values;
  const float* returns;
  const uint8_t* mask;  // nullptr = all
  float* loss;
  float* grad;
  const float* old_values;  // nullptr = no clipping
  float clip;
};

// Returns the number of elements of one tile where clipping is active. The loss is the larger of the clipped and the
// unclipped one. Both are equal inside the range, so where the clipped one is larger its gradient is 0.
template <bool Clips, class Rule, class Count>
inline int64_t tile(const Arrays& in, int64_t at, Count count, Rule rule) {
  const float* values = in.values + at;
  const float* returns = in.returns + at;
  float* __restrict loss = in.loss + at;
  float* __restrict grad = in.grad + at;
  uint32_t live[kTile];
  for (int64_t i = 0; i < count; ++i) live[i] = in.mask ? mask_of(in.mask[at + i] != 0) : ~0u;
  if constexpr (!Clips) {
    for (int64_t i = 0; i < count; ++i) {
      const float error = select(live[i], values[i] - returns[i]);
      loss[i] = rule.loss(error);
      grad[i] = rule.slope(error);
    }
    return 0;
  } else {
    const float* old_values = in.old_values + at;
    uint32_t clipped = 0;
    for (int64_t i = 0; i < count; ++i) {
      const float error = select(live[i], values[i] - returns[i]);
      const float near = clamp_keep_nan(values[i], old_values[i] - in.clip, old_values[i] + in.clip);
      const float near_loss = rule.loss(select(live[i], near - returns[i]));
      const float plain_loss = rule.loss(error);
      const uint32_t active = mask_of(near_loss > plain_loss);
      clipped += active & 1u;
      loss[i] = select(active, near_loss, plain_loss);
      grad[i] = select(~active, rule.slope(error));
    }
    return clipped;
  }
}

template <class Rule>
int64_t run(const Arrays& in, int64_t n, Rule rule) {
  int64_t clipped = 0;
  for_each_tile(n, [&](int64_t at, auto count) {
    clipped += in.old_values ? tile<true>(in, at, count, rule) : tile<false>(in, at, count, rule);
  });
  return clipped;
}

int64_t count_live(std::span<const uint8_t> mask, std::size_t n) {
  if (mask.empty()) return static_cast<int64_t>(n);
  int64_t live = 0;
  for (const uint8_t flag : mask) live += flag != 0;
  return live;
}

}  // namespace

ValueLossKind find_value_loss(std::string_view name, std::string_view path) {
  static constexpr std::array<std::string_view, 2> kNames = {"l2", "huber"};
  return static_cast<ValueLossKind>(find_name(path, name, kNames));
}

double value_loss(std::span<const float> values, std::span<const float> old_values, std::span<const float> returns,
                  std::span<const uint8_t> mask, const ValueLossParams& params, std::span<float> loss,
                  std::span<float> grad) {
  const std::size_t n = values.size();
  TROUPE_CHECK(returns.size() == n && fits_or_empty(mask, n) && loss.size() == n && grad.size() == n, "values", n,
               "returns", returns.size(), "mask", mask.size(), "loss", loss.size(), "grad", grad.size());
  TROUPE_CHECK(params.clip >= 0 && params.huber_delta > 0, "clip", params.clip, "huber_delta", params.huber_delta);
  const bool clips = params.clip > 0;
  TROUPE_CHECK(old_values.size() == n || (!clips && old_values.empty()), "values", n, "old_values", old_values.size());
  const float* old = clips ? old_values.data() : nullptr;
  const uint8_t* flags = mask.empty() ? nullptr : mask.data();
  const Arrays in{values.data(), returns.data(), flags, loss.data(), grad.data(), old, params.clip};
  const auto count = static_cast<int64_t>(n);
  const int64_t clipped =
      params.kind == ValueLossKind::l2 ? run(in, count, L2{}) : run(in, count, Huber{params.huber_delta});
  const int64_t live = count_live(mask, n);
  return live == 0 ? 0.0 : static_cast<double>(clipped) / static_cast<double>(live);
}

ValueFit value_fit(std::span<const float> values, std::span<const float> returns, std::span<const uint8_t> mask) {
  const std::size_t n = values.size();
  TROUPE_CHECK(returns.size() == n && fits_or_empty(mask, n), "values", n, "returns", returns.size(), "mask",
               mask.size());
  ValueFit fit;
  for (std::size_t i = 0; i < n; ++i) {
    if (!mask.empty() && mask[i] == 0) continue;
    fit.error.add(double{returns[i]} - double{values[i]});
    fit.target.add(returns[i]);
  }
  return fit;
}

double explained_variance(std::span<const float> values, std::span<const float> returns,
                          std::span<const uint8_t> mask) {
  return explained_variance(value_fit(values, returns, mask));
}

double explained_variance(const ValueFit& fit) {
  return fit.target.variance() < 1e-12 ? 0.0 : 1.0 - fit.error.variance() / fit.target.variance();
}

}  // namespace troupe
