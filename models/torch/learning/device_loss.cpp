#include "models/torch/learning/device_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/torch/device_losses.h"
#include "algorithms/losses/torch/upload.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// The places of the figures that follow the surrogate's sums in a result.
enum Figure : int64_t {
  kOutputs = kSurrogateSums,  // 0, or NaN when one is not finite
  kLogStdFigure,              // the same for log_std
  kPolicyLoss,                // aggregate
  kKl,                        // aggregate
  kEntropy,                   // sum over samples
  kValueLoss,                 // sum over samples
  kValueClipped,              // samples
  kByLag,                     // kLagFigures: the sums of each class of lags
};

at::Tensor sum_of(const at::Tensor& x) { return x.sum(at::kDouble); }

// 0, or NaN when a number is not finite.
at::Tensor zero_or_nan(const at::Tensor& x) { return sum_of(x * 0); }

int64_t live_tokens(std::span<const uint8_t> kept, int64_t tokens) {
  return kept.empty() ? tokens : std::ranges::count_if(kept, [](uint8_t flag) { return flag != 0; });
}

// Flattened, if it is defined.
at::Tensor flat(const at::Tensor& x) { return x.defined() ? x.reshape({-1}) : x; }

}  // namespace

DevicePolicyLoss::DevicePolicyLoss(const AlgorithmChoice& choice, double value_coef, double length,
                                   const DeviceHead& head)
    : head_(head),
      choice_(choice),
      value_coef_(value_coef),
      length_(choice.aggregation_length.value_or(length)),
      per_sample_(choice.per_decision ? head.host().decisions() : 1) {
  const DeviceSurrogateEntry* entry = find_device_surrogate(choice.surrogate.entry->name);
  if (entry == nullptr)
    throw ConfigError("algorithm.surrogate: \"" + std::string(choice.surrogate.entry->name) +
                      "\" is computed on the CPU only; set trainer.device to \"cpu\"");
  surrogate_ = entry->function;
  if (choice.kl.kind == KlKind::full)
    throw ConfigError("algorithm.kl: \"full\" is computed on the CPU only; set trainer.device to \"cpu\"");
}

DevicePolicyLoss::Tokens DevicePolicyLoss::tokens_of(const DeviceLossInput& input,
                                                     const DeviceHead::Evaluation& evaluation) const {
  const auto per_token = [&](const at::Tensor& log_probs) {
    if (per_sample_ > 1) return log_probs.reshape({-1});
    // The stored numbers of decisions that were not executed may have any value.
    return (evaluation.cut.defined() ? log_probs.masked_fill(evaluation.cut, 0) : log_probs).sum(1);
  };
  Tokens result;
  result.new_log_probs = per_token(evaluation.log_probs);
  result.old_log_probs = per_token(input.old_log_probs);
  result.behaviour_log_probs = per_token(input.behaviour_log_probs);
  const at::Tensor& advantages = input.advantages;
  const int64_t samples = input.head.outputs.size(0);
  TROUPE_CHECK(advantages.numel() == samples || advantages.numel() == samples * per_sample_, advantages.numel(),
               samples);
  result.advantages =
      advantages.numel() == samples ? advantages.reshape({samples, 1}).expand({samples, per_sample_}) : advantages;
  result.advantages = flat(result.advantages);
  result.kept = flat(input.kept);
  result.rollout_weights = flat(input.rollout_weights);
  return result;
}

// Data of one computation, shared by its steps.
struct DevicePolicyLoss::Call {
  const DeviceLossInput& input;
  const LossTotals& totals;
  const LossSettings& settings;
  DeviceHead::Evaluation evaluation;
  std::vector<int64_t> offsets;  // of tokens
  DeviceSequences sequences;
  Tokens tokens;
};

DeviceSurrogateOutput DevicePolicyLoss::run_surrogate(const Call& call, int64_t live) const {
  std::vector<uint8_t> lags;
  token_lags(call.input.lags, per_sample_, lags);
  at::Tensor classes;
  const std::vector<int64_t> numbers(lags.begin(), lags.end());
  if (!lags.empty()) classes = upload(std::span<const int64_t>(numbers), call.input.head.outputs.device());
  return surrogate_({.log_probs = call.tokens.new_log_probs,
                     .old_log_probs = call.tokens.old_log_probs,
                     .advantages = call.tokens.advantages,
                     .mask = call.tokens.kept,
                     .rollout_weights = call.tokens.rollout_weights,
                     .sequences = call.sequences,
                     .live = live,
                     .key = call.settings.key,
                     .classes = classes,
                     .class_count = static_cast<int64_t>(kLagClasses)},
                    choice_.surrogate.parameters);
}

// [B * C] float64 the weight of every token's sequence.
at::Tensor DevicePolicyLoss::token_weights(const Call& call) const {
  std::vector<double> weights(call.offsets.size() - 1);
  const Normalizers normalizers{
      .tokens = call.totals.counts.tokens, .sequences = call.totals.counts.sequences, .length = length_};
  aggregation_weights(choice_.aggregation, TokenSequences(call.offsets), call.input.host_kept, normalizers, weights);
  return call.sequences.spread(upload(std::span<const double>(weights), call.input.head.outputs.device()));
}

DevicePolicyLoss::PolicyTerm DevicePolicyLoss::policy_term(const Call& call, const DeviceSurrogateOutput& surrogate,
                                                           const at::Tensor& zero) const {
  const DeviceHeadInput& head = call.input.head;
  if (!call.settings.train_policy)
    return {{at::zeros_like(head.outputs), head.log_std.defined() ? at::zeros_like(head.log_std) : at::Tensor()},
            zero,
            zero};
  const int64_t samples = head.outputs.size(0);
  const at::Tensor weights = token_weights(call);
  PolicyTerm result = {{}, sum_of(surrogate.loss * weights), zero};
  at::Tensor gradients = surrogate.grad;
  if (call.settings.kl_coef != 0.0) {
    // The samples come from the behaviour policy: see TokenLoss::compute().
    const auto [loss, slope] =
        kl_on_device(choice_.kl, call.tokens.behaviour_log_probs, call.tokens.new_log_probs, call.tokens.kept);
    gradients = gradients - slope * static_cast<float>(call.settings.kl_coef);
    result.kl = sum_of(loss * weights);
  }
  gradients =
      (gradients * weights.to(at::kFloat)).view({samples, per_sample_}).expand({samples, head_.host().decisions()});
  result.gradients = head_.backward(call.evaluation, gradients,
                                    -call.settings.entropy_coef / static_cast<double>(call.totals.samples));
  return result;
}

DeviceLossResult DevicePolicyLoss::compute(const DeviceLossInput& input, const LossTotals& totals,
                                           const LossSettings& settings) const {
  const at::NoGradGuard guard;
  const int64_t samples = input.head.outputs.size(0);
  TROUPE_CHECK(totals.samples >= samples && samples >= 1, totals.samples, samples);
  TROUPE_CHECK(per_sample_ == 1 || !input.head.executed.defined() || input.kept.defined(), per_sample_);
  DeviceHead::Evaluation evaluation = head_.evaluate(input.head, input.actions);
  Tokens tokens = tokens_of(input, evaluation);
  std::vector<int64_t> offsets;
  token_offsets(samples, input.offsets, per_sample_, offsets);
  const DeviceSequences sequences(offsets, input.head.outputs.device());
  const Call call = {input, totals, settings, std::move(evaluation), std::move(offsets), sequences, std::move(tokens)};
  DeviceLossResult result;
  result.samples = samples;
  result.live = live_tokens(input.host_kept, samples * per_sample_);
  const DeviceSurrogateOutput surrogate = run_surrogate(call, result.live);
  const at::Tensor zero = at::zeros({}, surrogate.sums.options());
  const PolicyTerm policy = policy_term(call, surrogate, zero);
  const DeviceValueLoss value = value_loss_on_device(input.values, input.old_values, input.returns, choice_.value_loss);
  result.outputs = policy.gradients.outputs;
  result.log_std = policy.gradients.log_std;
  result.values = value.of.slope * static_cast<float>(value_coef_ / static_cast<double>(totals.samples));
  const at::Tensor rest =
      at::stack({zero_or_nan(input.head.outputs), input.head.log_std.defined() ? zero_or_nan(input.head.log_std) : zero,
                 policy.loss, policy.kl, sum_of(call.evaluation.entropy), sum_of(value.of.loss),
                 value.clipped.defined() ? sum_of(value.clipped) : zero});
  const at::Tensor by_lag =
      surrogate.by_class.defined() ? surrogate.by_class.flatten() : at::zeros({kLagFigures}, surrogate.sums.options());
  result.figures = at::cat({surrogate.sums, rest, by_lag});
  return result;
}

LossReport DevicePolicyLoss::report(const DeviceLossResult& result, std::span<const double> figures,
                                    const LossTotals& totals, const LossSettings& settings) const {
  TROUPE_CHECK(static_cast<int64_t>(figures.size()) == kFigures, figures.size());
  if (std::isnan(figures[kLogStdFigure])) throw InvariantError("policy log_std is not finite");
  LossReport report;
  report.count = static_cast<double>(result.samples);
  const double share = report.count / static_cast<double>(totals.samples);
  report.surrogate = read_sums(figures.first(kSurrogateSums), result.live);
  for (size_t lag = 0; lag < kLagClasses; ++lag)
    report.by_lag[lag] = read_class_sums(figures.subspan(kByLag + lag * kClassSums, kClassSums));
  report.entropy = figures[kEntropy] / report.count;
  if (settings.train_policy) {
    report.policy_loss = figures[kPolicyLoss] / share;
    report.loss = report.policy_loss - settings.entropy_coef * report.entropy;
    report.kl = figures[kKl] / share;
    report.loss += settings.kl_coef * report.kl;
  }
  report.value_loss = figures[kValueLoss] / report.count;
  report.value_clip_fraction = figures[kValueClipped] / report.count;
  report.loss += value_coef_ * report.value_loss + figures[kOutputs];
  return report;
}

}  // namespace troupe
