// The device form of the loss compared with the host form: every surrogate with every head, KL estimate and
// aggregation. Other settings are random.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "algorithms/losses/torch/device_surrogate.h"
#include "models/torch/learning/device_loss.h"
#include "tests/support/torch_test.h"

#include "tests/models/torch/learning/loss_case.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

template <class T>
torch::Tensor matrix(const std::vector<T>& values, int64_t samples) {
  const auto type = std::is_same_v<T, float> ? torch::kFloat : std::is_same_v<T, int32_t> ? torch::kInt : torch::kByte;
  if (values.empty()) return {};
  return torch::from_blob(const_cast<T*>(values.data()), {samples, static_cast<int64_t>(values.size()) / samples}, type)
      .clone();
}
torch::Tensor column(const std::vector<float>& values) { return matrix(values, 1).view({-1}); }

struct LossResult {
  LossReport report;
  torch::Tensor outputs, values, log_std;
};

LossResult on_host(const Case& c) {
  PolicyLoss loss(c.choice, 0.5, 20, c.head);
  LossInput in;
  in.head = {c.samples, c.outputs, c.log_std, c.mask, c.executed};
  in.actions = {c.discrete, c.continuous};
  in.old_log_probs = c.old_log_probs;
  in.behaviour_log_probs = c.behaviour;
  in.advantages = c.advantages;
  in.values = c.values;
  in.old_values = c.old_values;
  in.returns = c.returns;
  in.rollout_weights = c.weights;
  in.kept = c.kept;
  in.offsets = c.offsets;
  in.lags = c.lags;
  std::vector<float> outputs(c.outputs.size()), values(c.values.size()), log_std(c.log_std.size(), 0.0f);
  LossResult result;
  result.report = loss.compute(in, c.totals, c.settings, {outputs, values, log_std});
  result.outputs = matrix(outputs, c.samples);
  result.values = column(values);
  if (!log_std.empty()) result.log_std = column(log_std);
  return result;
}

DeviceLossInput device_input(const Case& c, const DeviceHead& head) {
  const auto tokens = [&](const std::vector<float>& x) {
    return static_cast<int64_t>(x.size()) == c.samples ? column(x) : matrix(x, c.samples);
  };
  DeviceLossInput in;
  in.head = {matrix(c.outputs, c.samples), c.log_std.empty() ? torch::Tensor() : column(c.log_std),
             matrix(c.mask, c.samples), matrix(c.executed, c.samples)};
  if (in.head.mask.defined()) in.head.mask = in.head.mask.to(torch::kBool);
  if (in.head.executed.defined()) in.head.executed = in.head.executed.view({-1});
  in.actions = head.actions(c.head.continuous() ? matrix(c.continuous, c.samples) : matrix(c.discrete, c.samples));
  in.old_log_probs = matrix(c.old_log_probs, c.samples);
  in.behaviour_log_probs = matrix(c.behaviour, c.samples);
  in.advantages = tokens(c.advantages);
  in.values = column(c.values);
  in.old_values = column(c.old_values);
  in.returns = column(c.returns);
  if (!c.weights.empty()) in.rollout_weights = tokens(c.weights);
  if (!c.kept.empty()) in.kept = matrix(c.kept, c.samples).to(torch::kBool);
  in.host_kept = c.kept;
  in.offsets = c.offsets;
  in.lags = c.lags;
  return in;
}

LossResult on_device(const Case& c) {
  const DeviceHead head(c.head, torch::kCPU);
  const DevicePolicyLoss loss(c.choice, 0.5, 20, head);
  const DeviceLossResult result = loss.compute(device_input(c, head), c.totals, c.settings);
  const std::span<const double> figures(result.figures.const_data_ptr<double>(),
                                        static_cast<size_t>(result.figures.numel()));
  return {loss.report(result, figures, c.totals, c.settings), result.outputs, result.values, result.log_std};
}

// The largest difference divided by the largest number, or by `terms` if that is larger: an upper bound of the terms of
// a sum.
double distance(const torch::Tensor& a, const torch::Tensor& b, double terms = 0) {
  if (!a.defined() || a.numel() == 0) return a.defined() == b.defined() ? 0.0 : 1.0;
  return (a - b).abs().max().item<double>() / std::max({b.abs().max().item<double>(), terms, 1e-12});
}

// In sums and means of numbers with both signs, terms can cancel. So differences are compared with the size of the
// terms, which is about 1 times the largest ratio.
void check_report(const LossReport& a, const LossReport& b) {
  const double size = std::max(1.0, b.surrogate.ratio_max);
  const auto same = [&](double x, double y, double terms) {
    CHECK(x == doctest::Approx(y).epsilon(1e-5).scale(std::max(terms, 1e-6) * size));
  };
  CHECK(a.count == b.count);
  for (auto member : LossReport::means()) same(a.*member, b.*member, 1.0);
  const SurrogateSums &x = a.surrogate, &y = b.surrogate;
  for (auto member : {&SurrogateSums::loss, &SurrogateSums::log_ratio}) same(x.*member, y.*member, y.count);
  for (auto member : {&SurrogateSums::ratio, &SurrogateSums::ratio_squared, &SurrogateSums::clamped,
                      &SurrogateSums::clamped_squared, &SurrogateSums::ratio_max, &SurrogateSums::ratio_min})
    same(x.*member, y.*member, 1e-6);
  same(x.log_ratio_squared, y.log_ratio_squared, std::sqrt(y.count * y.log_ratio_squared));
  same(x.k3, y.k3, 0.1 * y.count);  // ratio - 1 - log(ratio), where terms nearly cancel for ratios close to 1
  for (auto member : {&SurrogateSums::count, &SurrogateSums::clipped, &SurrogateSums::clipped_lower,
                      &SurrogateSums::outside, &SurrogateSums::dead, &SurrogateSums::saturated})
    CHECK(x.*member == y.*member);
  for (size_t lag = 0; lag < kLagClasses; ++lag) {
    const ClassSums &of_a = a.by_lag[lag], &of_b = b.by_lag[lag];
    for (auto member : {&ClassSums::count, &ClassSums::clipped, &ClassSums::dead}) CHECK(of_a.*member == of_b.*member);
    same(of_a.ratio, of_b.ratio, 1e-6);
    // A square has twice the relative error, which few tokens do not average out.
    same(of_a.ratio_squared, of_b.ratio_squared, of_b.ratio_squared / size);
    same(of_a.k3, of_b.k3,
         std::max(0.1 * of_b.count, of_b.ratio / size));  // of few tokens, the ratio is the largest term
  }
}

// Gradients agree to 1e-5. In a few of them terms nearly cancel in float32, and these agree to 1e-4.
struct Agreement {
  int gradients = 0, close = 0;

  void add(double distance) {
    CHECK(distance < 1e-4);
    ++gradients;
    close += distance < 1e-5;
  }
};

void check_case(const Case& c, Agreement& agreement) {
  const LossResult host = on_host(c), device = on_device(c);
  agreement.add(distance(device.outputs, host.outputs));
  agreement.add(distance(device.values, host.values));
  agreement.add(distance(device.log_std, host.log_std, host.outputs.abs().sum(0).max().item<double>()));
  check_report(device.report, host.report);
}

// Every surrogate, and the variants that its parameters select.
const std::vector<std::pair<std::string, std::string>>& surrogates() {
  static const auto result = [] {
    std::vector<std::pair<std::string, std::string>> all;
    for (const SurrogateEntry& entry : surrogate_table()) all.emplace_back(entry.name, "{}");
    all.insert(all.end(), {{"clip", R"({"clip_low": 0.1, "clip_high": 0.3, "dual_clip": 1.2})"},
                           {"soft_clip", R"({"dynamic_alpha": true, "alpha": 0.7})"},
                           {"sapo", R"({"ratio_min": 0.7, "ratio_max": 1.4, "saturation": 0.9})"},
                           {"ce_gppo", R"({"dual_clip": 1.3})"},
                           {"cispo", R"({"form": "ratio", "ratio_max": 1.5})"},
                           {"cispo", R"({"verl_compat": true})"},
                           {"clip_cov", R"({"fraction": 0.2, "cov_low": -1, "cov_high": 2})"},
                           {"kl_cov", R"({"fraction": 0.3})"}});
    return all;
  }();
  return result;
}

std::vector<EnvSpec> heads() {
  return {discrete_spec(),
          token_spec(),
          spec_of(ActionKind::multi_discrete, {3, 3}),
          masked_spec(),
          continuous_spec(),
          spec_of(ActionKind::continuous, {0, 0}, 2),
          spec_of(ActionKind::discrete, {40})};
}

AlgorithmConfig random_settings(Rng& rng) {
  AlgorithmConfig config;
  config.ratio = flip(rng, 0.5f) ? "joint" : "per_dimension";
  config.value_loss = flip(rng, 0.5f) ? "l2" : "huber";
  config.value_clip = flip(rng, 0.5f) ? 0.3 : 0.0;
  config.huber_delta = 0.7;
  return config;
}

}  // namespace

TEST_CASE("device loss: every surrogate of the table has a device form") {
  for (const SurrogateEntry& entry : surrogate_table()) {
    CAPTURE(entry.name);
    CHECK(find_device_surrogate(entry.name) != nullptr);
  }
  CHECK(device_surrogate_table().size() == surrogate_table().size());
  CHECK(find_device_surrogate("unheard-of") == nullptr);
}

TEST_CASE("device loss: gradients and report equal those of the host form, for random combinations of settings") {
  uint64_t seed = 0;
  Agreement agreement;
  for (const auto& [surrogate, parameters] : surrogates()) {
    for (const EnvSpec& spec : heads()) {
      for (const char* kl : {"", "k1", "abs", "k2", "k3", "low_var_kl", "k1+", "k3+"}) {
        for (const std::string_view aggregation : aggregation_names()) {
          Rng rng(derive_key(++seed, "settings"));
          AlgorithmConfig config = random_settings(rng);
          config.surrogate = surrogate;
          config.surrogate_params = parameters;
          config.aggregation = aggregation;
          if (*kl != '\0') config.kl = kl, config.kl_coef = 0.3;
          CAPTURE(seed);
          CAPTURE(surrogate);
          CAPTURE(parameters);
          CAPTURE(kl);
          CAPTURE(aggregation);
          CAPTURE(config.ratio);
          check_case(Case(spec, config, seed), agreement);
        }
      }
    }
  }
  CHECK(agreement.close >= 0.995 * agreement.gradients);
}

TEST_CASE("device loss: a non-finite output or return makes the loss non-finite, and a non-finite log_std is refused") {
  for (const EnvSpec& spec : heads()) {
    Rng rng(1);
    Case c(spec, random_settings(rng), 5);
    c.settings.train_policy = true;
    const DeviceHead head(c.head, torch::kCPU);
    const DevicePolicyLoss loss(c.choice, 0.5, 20, head);
    const auto loss_of = [&](const DeviceLossInput& in) {
      const DeviceLossResult result = loss.compute(in, c.totals, c.settings);
      return loss
          .report(result, {result.figures.const_data_ptr<double>(), static_cast<size_t>(result.figures.numel())},
                  c.totals, c.settings)
          .loss;
    };
    for (const float bad : {kNaN, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
      DeviceLossInput in = device_input(c, head);
      in.head.outputs[c.samples - 1][0] = bad;
      CHECK_FALSE(std::isfinite(loss_of(in)));
      in = device_input(c, head);
      in.returns[0] = bad;
      CHECK_FALSE(std::isfinite(loss_of(in)));
    }
  }
  Rng rng(1);
  Case c(continuous_spec(), random_settings(rng), 5);
  c.log_std[1] = kNaN;
  CHECK_THROWS_WITH_AS(on_device(c), "policy log_std is not finite", InvariantError);
}
