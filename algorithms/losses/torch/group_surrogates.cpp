// The surrogates of algorithms/losses/sequence_surrogate.cpp and covariance_surrogate.cpp as tensor operations.
// Formulas and papers are named there.

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "algorithms/common/subset_draw.h"
#include "algorithms/losses/torch/surrogate_tokens.h"
#include "algorithms/losses/torch/upload.h"

namespace troupe {

namespace {

using Input = DeviceSurrogateInput;
using Output = DeviceSurrogateOutput;
using Job = DeviceSurrogateJob;
using Tokens = SurrogateTokens;

// Log-ratios, not clamped: [n] float64, 0 where masked.
at::Tensor log_ratios(const Input& in) { return live_only(in.log_probs - in.old_log_probs, in.mask).to(at::kDouble); }

// The number of unmasked tokens of each sequence: [S] float64.
at::Tensor live_counts(const Input& in) {
  const at::Tensor all = at::ones_like(in.log_probs, at::TensorOptions().dtype(at::kDouble));
  return in.sequences.sum(live_only(all, in.mask));
}

// (A - mean A) (log_prob - mean log_prob): [n] float32; undefined values at masked tokens.
at::Tensor covariances(const Input& in, const Tokens& t) {
  const auto n = static_cast<double>(std::max<int64_t>(in.live, 1));
  const at::Tensor advantage = t.advantage.to(at::kDouble), log_prob = t.log_prob.to(at::kDouble);
  return ((advantage - advantage.sum() / n) * (log_prob - log_prob.sum() / n)).to(at::kFloat);
}

// A fraction of the tokens, rounded down, but at least one.
int64_t share(const Input& in, double fraction) {
  return std::max<int64_t>(1, static_cast<int64_t>(fraction * static_cast<double>(in.live)));
}

void widen(Job& job) { job.lowest_log_ratio = -kExpLimit, job.highest_log_ratio = kExpLimit; }

// A random subset of the candidates, drawn on the host from the same stream as in the host version. Only the number of
// candidates is copied to the host, and only the ranks of the drawn ones are copied back.
at::Tensor draw_some(const at::Tensor& candidates, int64_t wanted, uint64_t key) {
  const auto count = candidates.sum().item<int64_t>();
  SubsetDraw draw(key, wanted, count);
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < count && static_cast<int64_t>(ranks.size()) < wanted; ++i)
    if (draw.next()) ranks.push_back(i);
  const at::Tensor drawn = upload(std::span<const int64_t>(ranks), candidates.device());
  const at::Tensor by_rank = at::zeros({count + 1}, candidates.options()).index_fill_(0, drawn, 1);
  const at::Tensor rank = (candidates.cumsum(0, at::kLong) - 1).clamp_min_(0);
  return candidates & by_rank.index_select(0, rank);
}

// The `wanted` unmasked tokens with the largest values; among equal ones the first. Ordered by bits like in the host
// version: NaN below all, -0 below 0.
at::Tensor largest_of(const Input& in, const at::Tensor& values, int64_t wanted) {
  const at::Tensor bits = values.contiguous().view(at::kInt);
  at::Tensor order = at::where(bits < 0, bits.bitwise_xor(0x7fffffff), bits).to(at::kLong);
  order.masked_fill_(values.isnan(), std::numeric_limits<int32_t>::min());
  at::Tensor taken = at::zeros_like(values, at::TensorOptions().dtype(at::kBool));
  if (in.mask.defined()) order.masked_fill_(in.mask.logical_not(), std::numeric_limits<int64_t>::min());
  const at::Tensor sorted = std::get<1>(order.sort(/*stable=*/true, 0, /*descending=*/true));
  return taken.index_fill_(0, sorted.slice(0, 0, std::min(wanted, in.live)), 1);
}

}  // namespace

Output gspo_on_device(const Input& in, const ParameterValues& p) {
  constexpr double kLargest = 10;  // upper bound of log s (verl, github.com/volcengine/verl)
  const Job job(in, p);
  const Tokens t(job);
  const at::Tensor mean = in.sequences.sum(log_ratios(in)) / live_counts(in).clamp_min_(1);
  const at::Tensor ratio = in.sequences.spread(mean.clamp_max(kLargest).exp().to(at::kFloat));
  const at::Tensor unbounded = in.sequences.spread(mean > kLargest);
  const at::Tensor high = t.gain & (ratio > job.bounds.high), low = t.loss & (ratio < job.bounds.low);
  const at::Tensor used = ratio.masked_fill(high, job.bounds.high).masked_fill(low, job.bounds.low);
  const at::Tensor loss = -t.advantage * used, clipped = high | low;
  return finish(job, t, {loss, loss.masked_fill(clipped | unbounded, 0), clipped});
}

Output geo_mean_on_device(const Input& in, const ParameterValues& p) {
  Job job(in, p);
  job.weigh_rollout = false;
  const Tokens t(job);
  const double low = -p.number_or("clip_low", p.number("clip")), high = p.number_or("clip_high", p.number("clip"));
  const at::Tensor advantage = t.advantage.to(at::kDouble), d = log_ratios(in);
  const at::Tensor sign = advantage.masked_fill(t.gain, 1).masked_fill(t.loss, -1);
  at::Tensor exponent = sign * at::minimum(sign * d, sign * d.clamp(low, high));
  if (in.rollout_weights.defined())
    exponent = exponent + live_only((in.rollout_weights.to(at::kDouble) + 1e-10).log(), in.mask);
  const at::Tensor n = live_counts(in), some = n.clamp_min(1);
  const at::Tensor mean_advantage = in.sequences.sum(advantage) / some;
  constexpr double kLargest = 20;  // of the logarithm, as on the host
  const at::Tensor log_mean = in.sequences.sum(exponent) / some;
  const at::Tensor of_sequence = -mean_advantage * log_mean.clamp_max(kLargest).exp();
  const at::Tensor unbounded = in.sequences.spread(log_mean > kLargest).logical_not();
  const at::Tensor loss = in.sequences.spread(of_sequence.masked_fill(n == 0, 0).to(at::kFloat)).contiguous();
  const at::Tensor above = t.log_ratio > static_cast<float>(high), below = t.log_ratio < static_cast<float>(low);
  // A gradient unless the clamped value is the smaller one; none where A is 0; NaN stays NaN.
  const at::Tensor with_gradient =
      (((t.gain & above.logical_not()) | (t.loss & below.logical_not())) & unbounded) | t.advantage.isnan();
  return finish(
      job, t,
      {loss, loss.masked_fill(with_gradient.logical_not(), 0), t.gain & (above | below), t.loss & (above | below)});
}

// Waits for the device once, to get the number of candidates.
Output clip_cov_on_device(const Input& in, const ParameterValues& p) {
  Job job(in, p);
  widen(job);
  const Tokens t(job);
  const at::Tensor covariance = covariances(in, t);
  const at::Tensor high = t.gain & t.high, low = t.loss & t.low, clipped = high | low;
  const at::Tensor candidates =
      live_only((covariance > static_cast<float>(p.number("cov_low"))) &
                    (covariance < static_cast<float>(p.number("cov_high"))) & clipped.logical_not(),
                in.mask);
  const at::Tensor taken = draw_some(candidates, share(in, p.number("fraction")), in.key);
  const at::Tensor used = t.ratio.masked_fill(high, job.bounds.high).masked_fill(low, job.bounds.low);
  const at::Tensor loss = -t.advantage * used;
  return finish(job, t, {loss.masked_fill(taken, 0), loss.masked_fill(taken | clipped | t.beyond, 0), taken});
}

Output kl_cov_on_device(const Input& in, const ParameterValues& p) {
  Job job(in, p);
  widen(job);
  const Tokens t(job);
  const double weight = static_cast<float>(p.number("kl_coef"));
  const at::Tensor taken = largest_of(in, covariances(in, t), share(in, p.number("fraction")));
  const at::Tensor untaken = taken.logical_not(), plain = -t.advantage * t.ratio;
  const at::Tensor penalty = (t.log_ratio.abs() * weight).masked_fill(untaken, 0);
  const at::Tensor slope = (t.log_ratio.sign() * weight).masked_fill(untaken, 0);
  return finish(job, t, {plain + penalty, (plain + slope).masked_fill(t.beyond, 0), taken});
}

}  // namespace troupe
