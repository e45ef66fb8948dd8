#include "algorithms/losses/torch/surrogate_tokens.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace troupe {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One entry per entry of surrogate_table(). A new surrogate needs both versions.
constexpr std::array kTable = {
    DeviceSurrogateEntry{"clip", clip_on_device},           DeviceSurrogateEntry{"dual_clip", clip_on_device},
    DeviceSurrogateEntry{"soft_clip", soft_clip_on_device}, DeviceSurrogateEntry{"sapo", sapo_on_device},
    DeviceSurrogateEntry{"ce_gppo", ce_gppo_on_device},     DeviceSurrogateEntry{"cispo", cispo_on_device},
    DeviceSurrogateEntry{"gspo", gspo_on_device},           DeviceSurrogateEntry{"gpg", log_prob_on_device},
    DeviceSurrogateEntry{"clip_cov", clip_cov_on_device},   DeviceSurrogateEntry{"kl_cov", kl_cov_on_device},
    DeviceSurrogateEntry{"geo_mean", geo_mean_on_device},   DeviceSurrogateEntry{"reinforce", log_prob_on_device},
    DeviceSurrogateEntry{"gipo", gipo_on_device},           DeviceSurrogateEntry{"none", unclipped_on_device},
};

// exp(x) - 1 - x in double: near 0 float32 would lose all digits.
at::Tensor k3_of(const at::Tensor& log_ratio) {
  const at::Tensor wide = log_ratio.to(at::kDouble);
  return wide.expm1().sub_(wide);
}

// [8] and [5] sums, in the order of read_sums().
at::Tensor sum_all(const std::vector<at::Tensor>& tensors) { return at::stack(tensors).to(at::kDouble).sum(1); }

// [K, kClassSums]: of [n] numbers of all tokens, the sums over those of each class. `rows` are in the order of
// read_class_sums(), each 0 where masked.
at::Tensor sum_by_class(const DeviceSurrogateInput& in, const std::vector<at::Tensor>& rows) {
  std::vector<at::Tensor> numbers;
  for (const at::Tensor& row : rows) numbers.push_back(row.to(at::kDouble));
  const at::Tensor all = at::arange(in.class_count, in.classes.options());
  return (all.unsqueeze(1) == in.classes.unsqueeze(0)).to(at::kDouble).matmul(at::stack(numbers, 1));
}

}  // namespace

std::span<const DeviceSurrogateEntry> device_surrogate_table() { return kTable; }

const DeviceSurrogateEntry* find_device_surrogate(std::string_view name) {
  const auto found = std::ranges::find(kTable, name, &DeviceSurrogateEntry::name);
  return found == kTable.end() ? nullptr : &*found;
}

at::Tensor live_only(const at::Tensor& x, const at::Tensor& mask) {
  return mask.defined() ? x.masked_fill(mask.logical_not(), 0) : x;
}

SurrogateTokens::SurrogateTokens(const DeviceSurrogateJob& job)
    : log_prob(live_only(job.in.log_probs, job.in.mask)), advantage(live_only(job.in.advantages, job.in.mask)) {
  const at::Tensor raw = live_only(job.in.log_probs - job.in.old_log_probs, job.in.mask);
  above = raw > job.highest_log_ratio;
  below = raw < job.lowest_log_ratio;
  beyond = above | below;
  log_ratio = raw.clamp(job.lowest_log_ratio, job.highest_log_ratio);
  ratio = log_ratio.exp();
  gain = advantage > 0;
  loss = advantage < 0;
  high = ratio > job.bounds.high;
  low = ratio < job.bounds.low;
  dual = ratio > job.bounds.dual;
}

DeviceSurrogateOutput finish(const DeviceSurrogateJob& job, const SurrogateTokens& tokens,
                             const SurrogateTerms& terms) {
  const DeviceSurrogateInput& in = job.in;
  DeviceSurrogateOutput out{terms.loss, terms.grad, {}};
  if (in.rollout_weights.defined() && job.weigh_rollout) {
    out.loss = out.loss * in.rollout_weights;
    out.grad = out.grad * in.rollout_weights;
  }
  out.loss = live_only(out.loss, in.mask);
  out.grad = live_only(out.grad, in.mask);
  const at::Tensor none = at::zeros_like(tokens.gain);
  const auto flag = [&](const at::Tensor& x) { return live_only(x.defined() ? x : none, in.mask); };
  const at::Tensor dead = (tokens.gain & tokens.high) | (tokens.loss & (tokens.low | tokens.dual)) | tokens.beyond;
  const at::Tensor flags = sum_all(
      {flag(terms.clipped), flag(terms.lower), flag(tokens.high | tokens.low), flag(dead), flag(terms.saturated)});
  const at::Tensor ratio = live_only(tokens.ratio, in.mask).to(at::kDouble);
  const at::Tensor clamped = live_only(tokens.ratio.clamp(job.bounds.low, job.bounds.high), in.mask).to(at::kDouble);
  const at::Tensor log_ratio = tokens.log_ratio.to(at::kDouble);
  const at::Tensor numbers = sum_all({out.loss.to(at::kDouble), log_ratio, log_ratio * log_ratio,
                                      k3_of(tokens.log_ratio), ratio, ratio * ratio, clamped, clamped * clamped});
  at::Tensor largest = tokens.ratio, smallest = tokens.ratio;
  if (in.mask.defined()) {
    const at::Tensor masked = in.mask.logical_not();
    largest = largest.masked_fill(masked, -kInfinity);
    smallest = smallest.masked_fill(masked, kInfinity);
  }
  const at::Tensor extremes = at::stack({largest.amax(), smallest.amin()}).to(at::kDouble);
  out.sums = at::cat({numbers, flags, extremes});
  if (in.classes.defined())
    out.by_class = sum_by_class(in, {flag(at::ones_like(tokens.gain)), live_only(k3_of(tokens.log_ratio), in.mask),
                                     flag(terms.clipped), flag(dead), ratio, ratio * ratio});
  return out;
}

SurrogateSums read_sums(std::span<const double> sums, int64_t live) {
  TROUPE_CHECK(static_cast<int64_t>(sums.size()) == kSurrogateSums, sums.size());
  SurrogateSums out;
  out.count = static_cast<double>(live);
  const double* next = sums.data();
  for (auto member : {&SurrogateSums::loss, &SurrogateSums::log_ratio, &SurrogateSums::log_ratio_squared,
                      &SurrogateSums::k3, &SurrogateSums::ratio, &SurrogateSums::ratio_squared, &SurrogateSums::clamped,
                      &SurrogateSums::clamped_squared, &SurrogateSums::clipped, &SurrogateSums::clipped_lower,
                      &SurrogateSums::outside, &SurrogateSums::dead, &SurrogateSums::saturated})
    out.*member = *next++;
  out.ratio_max = live == 0 ? 0.0 : next[0];
  out.ratio_min = live == 0 ? 0.0 : next[1];
  return out;
}

ClassSums read_class_sums(std::span<const double> sums) {
  TROUPE_CHECK(static_cast<int64_t>(sums.size()) == kClassSums, sums.size());
  return {
      .count = sums[0], .k3 = sums[1], .clipped = sums[2], .dead = sums[3], .ratio = sums[4], .ratio_squared = sums[5]};
}

}  // namespace troupe
