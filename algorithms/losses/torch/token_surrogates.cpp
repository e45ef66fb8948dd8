// The surrogates of algorithms/losses/surrogate.cpp as tensor operations. Formulas and papers are named there.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "algorithms/losses/surrogate_table.h"
#include "algorithms/losses/torch/surrogate_tokens.h"

namespace troupe {

namespace {

using Input = DeviceSurrogateInput;
using Output = DeviceSurrogateOutput;
using Job = DeviceSurrogateJob;
using Tokens = SurrogateTokens;

// A loss that depends on the ratio has no gradient where the log-ratio is clamped.
SurrogateTerms of_ratio(const Tokens& t, const at::Tensor& loss, const at::Tensor& grad) {
  return {loss, grad.masked_fill(t.beyond, 0)};
}

at::Tensor bounded_exp(const at::Tensor& x) { return x.clamp(-kExpLimit, kExpLimit).exp(); }

// Narrows the clamp of the log-ratio to the given bounds of the ratio.
void bound_ratio(Job& job, const ParameterValues& p) {
  const auto log_of = [](double ratio) { return static_cast<float>(std::log(ratio)); };
  job.lowest_log_ratio = std::max(-kMaxLogRatio, log_of(p.number_or("ratio_min", 1e-30)));
  job.highest_log_ratio = std::min(kMaxLogRatio, log_of(p.number_or("ratio_max", 1e30)));
  if (!(job.lowest_log_ratio < job.highest_log_ratio)) refuse_ratio_bounds(p);
}

}  // namespace

Output clip_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  const at::Tensor high = t.gain & t.high, low = t.loss & t.low, dual = t.loss & t.dual;
  const at::Tensor used =
      t.ratio.masked_fill(high, job.bounds.high).masked_fill(low, job.bounds.low).masked_fill(dual, job.bounds.dual);
  const at::Tensor loss = -t.advantage * used, clipped = high | low;
  SurrogateTerms terms = of_ratio(t, loss, loss.masked_fill(clipped | dual, 0));
  terms.clipped = clipped;
  terms.lower = dual;
  return finish(job, t, terms);
}

Output soft_clip_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  const double alpha = static_cast<float>(p.number("alpha"));
  at::Tensor penalty = t.log_ratio.abs() * alpha;
  if (p.flag("dynamic_alpha")) penalty = penalty * (t.advantage.neg().sigmoid() + 1);
  const at::Tensor loss = -t.advantage * bounded_exp(t.log_ratio - penalty);
  return finish(job, t, of_ratio(t, loss, loss));
}

Output sapo_on_device(const Input& in, const ParameterValues& p) {
  Job job(in, p);
  bound_ratio(job, p);
  const Tokens t(job);
  const float positive = static_cast<float>(p.number("tau_pos")), negative = static_cast<float>(p.number("tau_neg"));
  const at::Tensor tau = t.ratio.new_full({}, negative).expand_as(t.ratio).masked_fill(t.gain, positive);
  const at::Tensor x = tau * (t.ratio - 1), gate = x.sigmoid(), weight = gate * x.neg().sigmoid() * 4;
  SurrogateTerms terms = of_ratio(t, -t.advantage * (4 / tau) * gate, -t.advantage * weight * t.ratio);
  terms.saturated = weight < static_cast<float>(p.number("saturation"));
  return finish(job, t, terms);
}

Output ce_gppo_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  const at::Tensor high = t.gain & t.high, low = t.loss & t.low;
  const at::Tensor used = t.ratio.masked_fill(high, static_cast<float>(p.number("beta2") * job.bounds.high))
                              .masked_fill(low, static_cast<float>(p.number("beta1") * job.bounds.low));
  const at::Tensor dual = t.loss & (used > job.bounds.dual);
  const at::Tensor loss = -t.advantage * used.masked_fill(dual, job.bounds.dual);
  SurrogateTerms terms = of_ratio(t, loss, loss.masked_fill(dual, 0));
  terms.clipped = high | low;
  terms.lower = dual;
  return finish(job, t, terms);
}

Output cispo_on_device(const Input& in, const ParameterValues& p) {
  Job job(in, p);
  bound_ratio(job, p);
  const double unbounded = p.flag("verl_compat") ? p.number("clip") : std::numeric_limits<double>::infinity();
  job.bounds.low = static_cast<float>(1 - p.number_or("clip_low", unbounded));
  const Tokens t(job);
  const at::Tensor slope = -t.advantage * t.ratio.clamp(job.bounds.low, job.bounds.high);
  SurrogateTerms terms =
      p.text("form") == "ratio" ? of_ratio(t, slope, slope) : SurrogateTerms{slope * t.log_prob, slope};
  terms.clipped = t.high | t.low;
  return finish(job, t, terms);
}

Output log_prob_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  return finish(job, t, {-t.advantage * t.log_prob, -t.advantage});
}

Output gipo_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  const at::Tensor scaled = t.log_ratio * static_cast<double>(static_cast<float>(1 / p.number("sigma")));
  const at::Tensor loss = -t.advantage * bounded_exp(t.log_ratio - scaled * scaled * 0.5);
  return finish(job, t, of_ratio(t, loss, loss));
}

Output unclipped_on_device(const Input& in, const ParameterValues& p) {
  const Job job(in, p);
  const Tokens t(job);
  const at::Tensor loss = -t.advantage * t.ratio;
  return finish(job, t, of_ratio(t, loss, loss));
}

}  // namespace troupe
