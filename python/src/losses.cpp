// Surrogates, aggregation, value losses, KL, rollout correction, log-probabilities and entropy.

#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "algorithms/common/subset_draw.h"
#include "algorithms/losses/aggregation.h"
#include "algorithms/losses/kl.h"
#include "algorithms/losses/logprob.h"
#include "algorithms/losses/rollout_correction.h"
#include "algorithms/losses/surrogate.h"
#include "algorithms/losses/value_loss.h"
#include "python/src/bind.h"
#include "python/src/settings.h"

namespace troupe::python {

namespace {

using Metrics = std::map<std::string, double>;

template <class T>
std::span<T> out_or_empty(const View* view) {
  return view == nullptr ? std::span<T>() : view->out<T>();
}

// The sequences of an array: given by offsets, or along its last dimension.
TokenSequences sequences_of(const View& tokens, const View* offsets) {
  if (offsets != nullptr) return TokenSequences(offsets->in<int64_t>());
  if (tokens.rank() == 0) return TokenSequences(1, 1);
  const int64_t length = tokens.dim(tokens.rank() - 1);
  int64_t count = 1;
  for (std::size_t i = 0; i + 1 < tokens.rank(); ++i) count *= tokens.dim(i);
  return TokenSequences(count, length);
}

// num_tokens, num_sequences, length, dp_size, verl_compat.
using Norms = std::tuple<std::optional<double>, std::optional<double>, std::optional<double>, double, bool>;

std::vector<double> sequence_weights(const std::string& mode, const TokenSequences& sequences,
                                     std::span<const uint8_t> mask, const Norms& norms) {
  std::vector<double> weights(static_cast<std::size_t>(sequences.count()));
  const auto& [tokens, count, length, dp_size, verl_compat] = norms;
  aggregation_weights(find_aggregation(mode, "aggregation"), sequences, mask,
                      {tokens, count, length, dp_size, verl_compat}, weights);
  return weights;
}

// The aliases of a parameter, separated by commas.
std::string joined_aliases(const Setting& parameter) {
  std::string all;
  for (const std::string_view alias : parameter.aliases) all += (all.empty() ? "" : ",") + std::string(alias);
  return all;
}

// One dict per surrogate of the table, for the checks and texts of the Python layer.
std::vector<std::map<std::string, pybind11::object>> surrogates() {
  std::vector<std::map<std::string, pybind11::object>> all;
  for (const SurrogateEntry& entry : surrogate_table()) {
    pybind11::list aliases, parameters;
    for (const SurrogateAlias& alias : entry.aliases)
      if (!alias.name.empty()) aliases.append(std::string(alias.name));
    for (const Setting& parameter : entry.parameters)
      parameters.append(pybind11::dict(
          pybind11::arg("key") = std::string(parameter.key), pybind11::arg("default") = default_value(parameter),
          pybind11::arg("expected") = expected(parameter), pybind11::arg("doc") = help_text(parameter),
          pybind11::arg("source") = std::string(parameter.source),
          pybind11::arg("aliases") = joined_aliases(parameter)));
    all.push_back({{"name", pybind11::str(std::string(entry.name))},
                   {"aliases", aliases},
                   {"parameters", parameters},
                   {"aggregation",
                    pybind11::str(std::string(aggregation_names()[static_cast<std::size_t>(entry.aggregation)]))}});
  }
  return all;
}

Metrics metrics_of(const SurrogateSums& sums) {
  const SurrogateDiagnostics d = diagnostics_of(sums);
  return {{"kl_k1", d.kl_k1},
          {"kl_k2", d.kl_k2},
          {"kl_k3", d.kl_k3},
          {"clip_fraction", d.clip_fraction},
          {"clip_fraction_lower", d.clip_fraction_lower},
          {"outside_fraction", d.outside_fraction},
          {"dead_gradient_fraction", d.dead_gradient_fraction},
          {"saturated_fraction", d.saturated_fraction},
          {"ess", d.ess},
          {"ess_clamped", d.ess_clamped},
          {"ratio_mean", d.ratio_mean},
          {"ratio_max", d.ratio_max},
          {"ratio_min", d.ratio_min},
          {"count", d.count}};
}

// The table name of a surrogate, and the value of each of its parameters with these settings; NaN if unset.
std::pair<std::string, Settings> surrogate_settings(const std::string& name, const Settings& settings) {
  Surrogate surrogate = make_surrogate(name, "policy_loss");
  Settings all;
  for (const auto& [parameter, value] : settings) surrogate.parameters.set("policy_loss", parameter, value);
  for (const Setting& parameter : surrogate.parameters.declared()) {
    ParameterValue& value = all[std::string(parameter.key)];
    switch (parameter.kind) {
      case Setting::Kind::number: value = surrogate.parameters.number(parameter.key); break;
      case Setting::Kind::integer: value = surrogate.parameters.integer(parameter.key); break;
      case Setting::Kind::boolean: value = surrogate.parameters.flag(parameter.key); break;
      case Setting::Kind::text: value = std::string(surrogate.parameters.text(parameter.key)); break;
      default: break;  // no surrogate has another kind
    }
  }
  return {std::string(surrogate.entry->name), all};
}

// The subset of the candidates that clip_cov draws: writes 1 for `wanted` of them, in the order of the candidates.
void draw_subset(uint64_t key, int64_t wanted, const View& taken) {
  const auto flags = taken.out<uint8_t>();
  SubsetDraw draw(key, wanted, static_cast<int64_t>(flags.size()));
  for (uint8_t& flag : flags) flag = draw.next();
}

// The aggregated loss and the metrics. Without an aggregation, writes the loss and gradient of each token.
std::pair<double, Metrics> policy_loss(const std::string& name, const Settings& settings, const View& log_probs,
                                       const View& old_log_probs, const View& advantages, const View* mask,
                                       const View* rollout_weights, const View* offsets,
                                       const std::optional<std::string>& aggregation, const Norms& norms, uint64_t key,
                                       const View* loss, const View* grad) {
  Surrogate surrogate = make_surrogate(name, "policy_loss");
  for (const auto& [parameter, value] : settings) surrogate.parameters.set("policy_loss", parameter, value);
  SurrogateInput in{.log_probs = log_probs.in<float>(),
                    .old_log_probs = old_log_probs.in<float>(),
                    .advantages = advantages.in<float>(),
                    .mask = in_or_empty<uint8_t>(mask),
                    .rollout_weights = in_or_empty<float>(rollout_weights),
                    .sequences = sequences_of(log_probs, offsets),
                    .sequence_weights = {},
                    .key = key};
  std::vector<double> weights;
  if (aggregation) weights = sequence_weights(*aggregation, *in.sequences, in.mask, norms);
  in.sequence_weights = weights;
  const SurrogateSums sums = surrogate(in, {out_or_empty<float>(loss), out_or_empty<float>(grad)});
  return {sums.loss, metrics_of(sums)};
}

// The metrics from sums that were computed elsewhere, by the member names of SurrogateSums.
Metrics surrogate_metrics(const Metrics& sums) {
  return metrics_of({.count = sums.at("count"),
                     .log_ratio = sums.at("log_ratio"),
                     .log_ratio_squared = sums.at("log_ratio_squared"),
                     .k3 = sums.at("k3"),
                     .clipped = sums.at("clipped"),
                     .clipped_lower = sums.at("clipped_lower"),
                     .outside = sums.at("outside"),
                     .dead = sums.at("dead"),
                     .saturated = sums.at("saturated"),
                     .ratio = sums.at("ratio"),
                     .ratio_squared = sums.at("ratio_squared"),
                     .clamped = sums.at("clamped"),
                     .clamped_squared = sums.at("clamped_squared"),
                     .ratio_max = sums.at("ratio_max"),
                     .ratio_min = sums.at("ratio_min")});
}

// The aggregate of values; writes the weight of each token to grad.
double aggregate_values(const View& values, const View* mask, const View* offsets, const std::string& mode,
                        const Norms& norms, const View* grad) {
  const TokenSequences sequences = sequences_of(values, offsets);
  const auto flags = in_or_empty<uint8_t>(mask);
  const std::vector<double> weights = sequence_weights(mode, sequences, flags, norms);
  if (grad != nullptr) aggregate_backward(sequences, flags, weights, 1.0, grad->out<float>());
  return aggregate(values.in<float>(), sequences, flags, weights);
}

// The aggregated loss and the metrics. Without an aggregation, writes the loss and gradient of each element. `scale`
// multiplies all of them; `loss` is only written without an aggregation.
std::pair<double, Metrics> value_loss_of(const View& values, const View* old_values, const View& returns,
                                         const View* mask, const View* offsets, const std::string& kind, double clip,
                                         double huber_delta, double scale,
                                         const std::optional<std::string>& aggregation, const Norms& norms,
                                         const View* loss, const View* grad) {
  const ValueLossParams params{find_value_loss(kind, "kind"), static_cast<float>(clip),
                               static_cast<float>(huber_delta)};
  const auto predicted = values.in<float>();
  const auto flags = in_or_empty<uint8_t>(mask);
  std::vector<float> own_loss(loss == nullptr ? predicted.size() : 0), own_grad(grad == nullptr ? predicted.size() : 0);
  const std::span<float> losses = loss == nullptr ? std::span<float>(own_loss) : loss->out<float>();
  const std::span<float> grads = grad == nullptr ? std::span<float>(own_grad) : grad->out<float>();
  const double clipped =
      value_loss(predicted, in_or_empty<float>(old_values), returns.in<float>(), flags, params, losses, grads);
  double total = 0;
  if (aggregation) {
    const TokenSequences sequences = sequences_of(values, offsets);
    std::vector<double> weights = sequence_weights(*aggregation, sequences, flags, norms);
    for (double& weight : weights) weight *= scale;
    total = aggregate(losses, sequences, flags, weights);
    for (int64_t i = 0; i < sequences.count(); ++i) {
      const auto weight = static_cast<float>(weights[static_cast<std::size_t>(i)]);
      for (int64_t t = sequences.begin(i); t < sequences.end(i); ++t) grads[static_cast<std::size_t>(t)] *= weight;
    }
  } else if (scale != 1) {
    for (float& x : losses) x *= static_cast<float>(scale);
    for (float& x : grads) x *= static_cast<float>(scale);
  }
  return {
      total,
      {{"clip_fraction", clipped}, {"explained_variance", explained_variance(predicted, returns.in<float>(), flags)}}};
}

void kl_of(const std::string& name, const View& log_probs, const View& reference, const View* mask, const View& value,
           const View* grad) {
  kl_estimate(find_kl(name, "name"), log_probs.in<float>(), reference.in<float>(), in_or_empty<uint8_t>(mask),
              value.out<float>(), out_or_empty<float>(grad));
}

template <class Element>
LogitRows<Element> logits_of(const View& view) {
  const auto* data = reinterpret_cast<const Element*>(
      view.data<std::conditional_t<std::is_same_v<Element, float>, float, uint16_t>>());
  const int64_t vocabulary = view.dim(1);
  return {data, view.dim(0), vocabulary, view.dim(0) > 1 ? view.stride(0) : vocabulary};
}

template <class Element>
Element* gradient_of(const View& view) {
  return reinterpret_cast<Element*>(
      view.out<std::conditional_t<std::is_same_v<Element, float>, float, uint16_t>>().data());
}

// Calls body with a value of the logits' element type.
template <class Body>
void with_element(const View& logits, Body body) {
  if (logits.dtype() == DType::bf16) return body(BFloat16{});
  body(float{});
}

// Python allocates a SoftmaxRow as two float64.
static_assert(sizeof(SoftmaxRow) == 2 * sizeof(double));
std::span<SoftmaxRow> state_of(const View* view) {
  if (view == nullptr) return {};
  const std::span<double> memory = view->out<double>();
  return {reinterpret_cast<SoftmaxRow*>(memory.data()), memory.size() / 2};
}

void log_probs_entropy_of(const View& logits, const View& labels, double temperature, const View& log_probs,
                          const View& entropy, const View* state) {
  with_element(logits, [&](auto element) {
    log_probs_entropy(logits_of<decltype(element)>(logits), labels.in<int64_t>(), temperature, log_probs.out<float>(),
                      entropy.out<float>(), state_of(state));
  });
}

void log_probs_entropy_backward_of(const View& logits, const View& labels, double temperature, const View& state,
                                   const View* d_log_probs, const View* d_entropy, const View& grad) {
  with_element(logits, [&](auto element) {
    const auto memory = state.in<double>();
    log_probs_entropy_backward(logits_of<decltype(element)>(logits), labels.in<int64_t>(), temperature,
                               {reinterpret_cast<const SoftmaxRow*>(memory.data()), memory.size() / 2},
                               in_or_empty<float>(d_log_probs), in_or_empty<float>(d_entropy),
                               gradient_of<decltype(element)>(grad));
  });
}

void kl_from_logits_of(const View& logits, const View& reference, double temperature, const View& kl) {
  with_element(logits, [&](auto element) {
    using Element = decltype(element);
    kl_from_logits(logits_of<Element>(logits), logits_of<Element>(reference), temperature, kl.out<float>());
  });
}

void kl_from_logits_backward_of(const View& logits, const View& reference, double temperature, const View& d_kl,
                                const View& grad) {
  with_element(logits, [&](auto element) {
    using Element = decltype(element);
    kl_from_logits_backward(logits_of<Element>(logits), logits_of<Element>(reference), temperature, d_kl.in<float>(),
                            gradient_of<Element>(grad));
  });
}

Metrics rollout_correction_of(const View& log_probs, const View& rollout_log_probs, const View* mask,
                              const View* advantages, const View* offsets, const std::string& level,
                              const std::string& bound, double low, double high, bool batch_normalize,
                              const std::string& rules, const std::string& thresholds, double opsm_delta,
                              const View& weights, const View& kept) {
  RolloutCorrection params{.level = level == "token"      ? WeightLevel::token
                                    : level == "sequence" ? WeightLevel::sequence
                                                          : WeightLevel::none,
                           .bound = bound == "zero" ? WeightBound::zero : WeightBound::truncate,
                           .low = low,
                           .high = high,
                           .batch_normalize = batch_normalize,
                           .rules = parse_rejection_rules(rules, thresholds, "rollout_rs"),
                           .opsm_delta = opsm_delta};
  const OffPolicyMetrics m = rollout_correction(
      log_probs.in<float>(), rollout_log_probs.in<float>(), sequences_of(log_probs, offsets),
      in_or_empty<uint8_t>(mask), in_or_empty<float>(advantages), params, weights.out<float>(), kept.out<uint8_t>());
  return {{"kl", m.kl},
          {"k3_kl", m.k3_kl},
          {"training_log_ppl", m.training_log_ppl},
          {"rollout_log_ppl", m.rollout_log_ppl},
          {"training_ppl", m.training_ppl},
          {"rollout_ppl", m.rollout_ppl},
          {"log_ppl_diff", m.log_ppl_diff},
          {"log_ppl_abs_diff", m.log_ppl_abs_diff},
          {"log_ppl_diff_max", m.log_ppl_diff_max},
          {"log_ppl_diff_min", m.log_ppl_diff_min},
          {"ppl_ratio", m.ppl_ratio},
          {"chi2_token", m.chi2_token},
          {"chi2_seq", m.chi2_seq},
          {"weight_mean", m.weight_mean},
          {"weight_std", m.weight_std},
          {"weight_min", m.weight_min},
          {"weight_max", m.weight_max},
          {"weight_high_fraction", m.weight_high_fraction},
          {"weight_low_fraction", m.weight_low_fraction},
          {"ess", m.ess},
          {"rejected_token_fraction", m.rejected_token_fraction},
          {"rejected_sequence_fraction", m.rejected_sequence_fraction}};
}

}  // namespace

void bind_losses(pybind11::module_& module) {
  module.def("surrogates", &surrogates);
  module.def("surrogate_settings", &surrogate_settings);
  module.def("draw_subset", &draw_subset, NoGil());
  module.def("surrogate_metrics", &surrogate_metrics);
  module.attr("IGNORED_LABEL") = kIgnoredLabel;
  module.def("policy_loss", &policy_loss, NoGil());
  module.def("aggregate", &aggregate_values, NoGil());
  module.def("value_loss", &value_loss_of, NoGil());
  module.def("kl", &kl_of, NoGil());
  module.def("log_probs_entropy", &log_probs_entropy_of, NoGil());
  module.def("log_probs_entropy_backward", &log_probs_entropy_backward_of, NoGil());
  module.def("kl_from_logits", &kl_from_logits_of, NoGil());
  module.def("kl_from_logits_backward", &kl_from_logits_backward_of, NoGil());
  module.def("rollout_correction", &rollout_correction_of, NoGil());
  pybind11::class_<AdaptiveKl>(module, "AdaptiveKl")
      .def(pybind11::init<double, double, double>())
      .def("update", &AdaptiveKl::update)
      .def_property_readonly("value", &AdaptiveKl::value);
}

}  // namespace troupe::python
