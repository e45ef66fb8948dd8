// Advantage estimators, whitening, reward shaping, group filters, schedules and task weights.

#include <pybind11/stl.h>

#include <algorithm>
#include <tuple>

#include "algorithms/advantages/advantages.h"
#include "algorithms/advantages/reward_shaping.h"
#include "algorithms/common/groups.h"
#include "algorithms/common/moments.h"
#include "algorithms/common/schedule.h"
#include "python/src/bind.h"
#include "python/src/settings.h"
#include "runtime/base/task_sampler.h"

namespace troupe::python {

namespace {

namespace py = pybind11;
using Indices = std::vector<int64_t>;

// The sequences of [B, T] tokens, or sequences of different lengths given by offsets [B + 1].
TokenSequences sequences_of(const View& tokens, const View* offsets) {
  if (offsets != nullptr) return TokenSequences(offsets->in<int64_t>());
  return TokenSequences(tokens.dim(0), tokens.dim(1));
}

// -- Advantages

void advantages(const std::string& name, const Settings& settings, const View& rewards, const View* mask,
                const View* offsets, const View* groups, const View* values, const View* baselines,
                const View* old_logp, const View* sum_pi_squared, const View* rollout_is_weights,
                const View& advantages, const View& returns) {
  const AdvantageEntry& entry = find_advantage(name, "name");
  AdvantageInput in;
  in.sequences = sequences_of(rewards, offsets);
  in.rewards = rewards.in<float>();
  in.mask = in_or_empty<uint8_t>(mask);
  in.groups = in_or_empty<int64_t>(groups);
  in.values = in_or_empty<float>(values);
  in.baselines = in_or_empty<float>(baselines);
  in.old_log_probs = in_or_empty<float>(old_logp);
  in.sum_pi_squared = in_or_empty<float>(sum_pi_squared);
  in.rollout_is_weights = in_or_empty<float>(rollout_is_weights);
  estimate_advantages(entry, in, values_of(entry.parameters, name, settings),
                      {advantages.out<float>(), returns.out<float>()});
}

// Every estimator of sequences: its aliases, required arguments in addition to rewards and mask, and parameters.
py::dict table() {
  py::dict out;
  for (const AdvantageEntry& entry : advantage_table()) {
    if (entry.function == nullptr) continue;
    py::dict parameters;
    for (const Setting& parameter : entry.parameters)
      parameters[py::str(parameter.key)] =
          py::dict(py::arg("default") = default_value(parameter), py::arg("expected") = expected(parameter),
                   py::arg("doc") = help_text(parameter), py::arg("source") = parameter.source);
    py::list needs;
    for (const auto& [flag, argument] :
         {std::pair(kNeedsGroups, "groups"), std::pair(kNeedsValues, "values"), std::pair(kNeedsBaselines, "baselines"),
          std::pair(kNeedsPolicy, "old_logp"), std::pair(kNeedsPolicy, "sum_pi_squared")})
      if (entry.needs & flag) needs.append(argument);
    py::list aliases;
    for (const std::string_view alias : entry.aliases) aliases.append(alias);
    out[py::str(entry.name)] =
        py::dict(py::arg("aliases") = aliases, py::arg("needs") = needs, py::arg("parameters") = parameters);
  }
  return out;
}

// -- Whitening

std::tuple<double, double, double> moments(const View& x, const View* mask) {
  const Moments m = masked_moments(x.in<float>(), in_or_empty<uint8_t>(mask));
  return {m.count, m.mean, m.m2};
}

// Whitens in place. parts: moments to merge; empty = the array's own.
void whiten_with(const View& x, const View* mask, const std::vector<std::tuple<double, double, double>>& parts,
                 const std::string& variant, bool shift_mean, bool scale, bool zero_outside, bool strict) {
  WhitenParams params = find_whiten_variant(variant);
  params.shift_mean = shift_mean;
  params.scale = scale;
  params.zero_masked = zero_outside;
  params.strict = strict;
  Moments merged;
  for (const auto& [count, mean, m2] : parts) merged.merge({count, mean, m2});
  whiten(x.out<float>(), in_or_empty<uint8_t>(mask), merged, params);
}

// -- Reward shaping

void shape(const View& scores, bool per_token, const View* kl, const View* mask, const View* offsets, double kl_coef,
           double low, double high, const View& rewards) {
  const RewardShaping shaping{kl_coef, low, high};
  const auto divergence = in_or_empty<float>(kl);
  const auto flags = in_or_empty<uint8_t>(mask);
  if (per_token) return shape_token_rewards(scores.in<float>(), divergence, flags, shaping, rewards.out<float>());
  shape_rewards(sequences_of(rewards, offsets), scores.in<float>(), divergence, flags, shaping, rewards.out<float>());
}

void overlong(const View& lengths, double max_length, double buffer, double factor, bool bounded,
              const View& penalties) {
  overlong_penalty(lengths.in<int64_t>(), {max_length, buffer, factor, bounded}, penalties.out<float>());
}

void truncated(const View& scores, const View& flags, double coefficient) {
  penalize_truncated(scores.out<float>(), flags.in<uint8_t>(), coefficient);
}

// -- Groups

Indices filter(const View& metric, const View& groups, int64_t max_groups) {
  return filter_groups(metric.in<float>(), groups.in<int64_t>(), max_groups);
}

Indices resample(const View& scores, const std::string& method, double power, int64_t count, uint64_t seed) {
  return draw_sequences(resample_weights(scores.in<float>(), find_resample_weight(method), power), count, seed);
}

// -- Schedules

double rate(const std::string& kind, double step, double peak, double start, double warmup, double total,
            double min_ratio, double stable_ratio) {
  return learning_rate({find_learning_rate_kind(kind), start, warmup, total, min_ratio, stable_ratio}, peak, step);
}

void weights_of_tasks(const View& failures, const View& weights) {
  const std::vector<double> result = task_weights(failures.in<double>());
  std::copy(result.begin(), result.end(), weights.out<double>().begin());
}

}  // namespace

void bind_estimators(py::module_& module) {
  module.def("advantages", &advantages, NoGil());
  module.def("advantage_table", &table);
  module.def("moments", &moments, NoGil());
  module.def("whiten", &whiten_with, NoGil());
  module.def("shape_rewards", &shape, NoGil());
  module.def("overlong_penalty", &overlong, NoGil());
  module.def("penalize_truncated", &truncated, NoGil());
  module.def("filter_groups", &filter, NoGil());
  module.def("resample_pf_ppo", &resample, NoGil());
  module.def("learning_rate", &rate, NoGil());
  module.def("task_weights", &weights_of_tasks, NoGil());
}

}  // namespace troupe::python
