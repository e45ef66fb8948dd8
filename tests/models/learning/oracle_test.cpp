// The learner's gradients and steps compared with the same loss written with LibTorch's autograd, modules and
// optimizer.

#include <cmath>
#include <functional>

#include "actors/config/run_config.h"
#include "algorithms/common/moments.h"
#include "tests/models/learning/batches.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using TensorMap = std::map<std::string, torch::Tensor>;

torch::Tensor tensor_of(const Array& array) {
  const auto type = array.dtype() == DType::f32  ? torch::kFloat
                    : array.dtype() == DType::u8 ? torch::kByte
                                                 : torch::kInt;
  return torch::from_blob(const_cast<std::byte*>(array.data()), {array.shape().begin(), array.shape().end()}, type)
      .clone();
}

TensorMap parameters_of(const Learner& learner) {
  TensorMap result;
  for (const auto& [name, array] : learner.save().model)
    result[name] = tensor_of(array).to(torch::kDouble).requires_grad_(true);
  return result;
}

torch::Tensor activate(const std::string& name, const torch::Tensor& x) {
  if (name == "tanh") return x.tanh();
  if (name == "relu") return x.relu();
  if (name == "elu") return torch::elu(x);
  if (name == "gelu") return torch::gelu(x);
  return torch::silu(x);
}

torch::Tensor run(const TensorMap& p, const ModelConfig& model, const std::string& net, torch::Tensor x) {
  const std::string trunk = model.shared_trunk ? "trunk" : net;
  for (size_t i = 0; i < model.hidden.size(); ++i) {
    const std::string layer = trunk + '.' + std::to_string(i);
    x = activate(model.activation, torch::linear(x, p.at(layer + ".weight"), p.at(layer + ".bias")));
  }
  return torch::linear(x, p.at(net + ".head.weight"), p.at(net + ".head.bias"));
}

// Log-probabilities [B, D] and entropies [B].
std::pair<torch::Tensor, torch::Tensor> distribution(const TensorMap& p, const EnvSpec& spec, const Rollout& rollout,
                                                     const torch::Tensor& outputs) {
  const int64_t samples = outputs.size(0), decisions = spec.action.decisions();
  const torch::Tensor actions = tensor_of(rollout.grid().actions).reshape({samples, decisions});
  if (spec.action.kind == ActionKind::continuous) {
    const torch::Tensor log_std = p.at("policy.log_std");
    const torch::Tensor z = (actions.to(torch::kDouble) - outputs) / log_std.exp();
    const double half_log_two_pi = 0.5 * std::log(2 * M_PI);
    return {-0.5 * z * z - log_std - half_log_two_pi, (log_std + 0.5 + half_log_two_pi).sum().expand({samples})};
  }
  torch::Tensor logits = outputs;
  if (spec.action.masked)
    logits = logits.masked_fill(tensor_of(rollout.grid().action_mask).reshape({samples, -1}) == 0, -1e30);
  std::vector<torch::Tensor> log_probs;
  torch::Tensor entropy = torch::zeros({samples}, torch::kDouble);
  int64_t first = 0;
  for (int64_t d = 0; d < decisions; ++d) {
    const int64_t bins = spec.action.bins[d % spec.action.dims()];
    const torch::Tensor all = torch::log_softmax(logits.narrow(1, first, bins), 1);
    log_probs.push_back(all.gather(1, actions.narrow(1, d, 1).to(torch::kLong)));
    entropy = entropy - (all.exp() * all).sum(1);
    first += bins;
  }
  return {torch::cat(log_probs, 1), entropy};
}

// KL(behaviour || current) in closed form [B, D], from the policy parameters in the rollout.
torch::Tensor divergence(const TensorMap& p, const EnvSpec& spec, const Rollout& rollout,
                         const torch::Tensor& outputs) {
  const int64_t samples = outputs.size(0), decisions = spec.action.decisions();
  const torch::Tensor old = tensor_of(rollout.grid().policy_parameters).reshape({samples, -1}).to(torch::kDouble);
  if (spec.action.kind == ActionKind::continuous) {
    const torch::Tensor mean = old.narrow(1, 0, decisions), old_log_std = old.narrow(1, decisions, decisions),
                        log_std = p.at("policy.log_std");
    return log_std - old_log_std + ((2 * old_log_std).exp() + (mean - outputs).pow(2)) / (2 * (2 * log_std).exp()) -
           0.5;
  }
  const auto logits_of = [&](const torch::Tensor& all) {
    return spec.action.masked
               ? all.masked_fill(tensor_of(rollout.grid().action_mask).reshape({samples, -1}) == 0, -1e30)
               : all;
  };
  std::vector<torch::Tensor> result;
  int64_t first = 0;
  for (int64_t d = 0; d < decisions; ++d) {
    const int64_t bins = spec.action.bins[d % spec.action.dims()];
    const torch::Tensor before = torch::log_softmax(logits_of(old).narrow(1, first, bins), 1),
                        now = torch::log_softmax(logits_of(outputs).narrow(1, first, bins), 1);
    result.push_back((before.exp() * (before - now)).sum(1, true));
    first += bins;
  }
  return torch::cat(result, 1);
}

torch::Tensor ppo_loss(const TensorMap& p, const RunConfig& config, const EnvSpec& spec, const Rollout& rollout) {
  const AlgorithmConfig& a = config.algorithm;
  const int64_t samples = rollout.grid().values.size();
  const auto column = [&](const Array& array) { return tensor_of(array).reshape({samples}).to(torch::kDouble); };
  const torch::Tensor x = tensor_of(rollout.grid().observations.at("state")).reshape({samples, 5}).to(torch::kDouble);
  const torch::Tensor outputs = run(p, config.model, "policy", x);
  auto [log_probs, entropy] = distribution(p, spec, rollout, outputs);
  torch::Tensor old = tensor_of(rollout.grid().log_probs).reshape({samples, -1}).to(torch::kDouble);
  torch::Tensor advantages = column(rollout.grid().advantages);
  if (a.normalize_advantages) advantages = (advantages - advantages.mean()) / (advantages.std(false) + 1e-8);
  if (a.ratio == "joint") {
    log_probs = log_probs.sum(1, true);
    old = old.sum(1, true);
  }
  const torch::Tensor ratio = (log_probs - old).exp(), adv = advantages.unsqueeze(1).expand_as(ratio);
  torch::Tensor surrogate =
      torch::max(-adv * ratio, -adv * ratio.clamp(1 - a.clip_low.value_or(0.2), 1 + a.clip_high.value_or(0.2)));
  const double dual_clip = a.dual_clip.value_or(0);
  if (dual_clip > 0) surrogate = torch::where(adv < 0, torch::min(surrogate, -adv * dual_clip), surrogate);
  torch::Tensor kl = ratio - 1 - (log_probs - old);
  if (a.kl == "full") {
    kl = divergence(p, spec, rollout, outputs);
    if (a.ratio == "joint") kl = kl.sum(1);
  }
  const torch::Tensor values = run(p, config.model, "value", x).squeeze(1), returns = column(rollout.grid().returns),
                      old_values = column(rollout.grid().values);
  const auto value_error = [&](const torch::Tensor& v) {
    const torch::Tensor e = (v - returns).abs();
    if (a.value_loss == "l2") return 0.5 * e * e;
    return torch::where(e <= a.huber_delta, 0.5 * e * e, a.huber_delta * (e - 0.5 * a.huber_delta));
  };
  torch::Tensor value_loss = value_error(values);
  if (a.value_clip > 0)
    value_loss =
        torch::max(value_loss, value_error(old_values + (values - old_values).clamp(-a.value_clip, a.value_clip)));
  return surrogate.mean() + a.kl_coef * kl.mean() - a.entropy_coef * entropy.mean() + a.value_coef * value_loss.mean();
}

// The gradients the learner used, recovered from Adam's first moments after one step.
TensorMap gradients_of(const Learner& learner, const RunConfig& config) {
  TensorMap result;
  for (const auto& [name, array] : learner.save().optimizer)
    if (name.starts_with("first."))
      result[name.substr(6)] = tensor_of(array).to(torch::kDouble) / (1 - config.trainer.adam_beta1);
  return result;
}

void check_against_autograd(RunConfig config, const EnvSpec& spec) {
  config.trainer.max_grad_norm = 0.0;
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  const auto rollout = random_rollout(spec, *policy, 16, 8, 3);
  TensorMap parameters = parameters_of(*learner);
  ppo_loss(parameters, config, spec, *rollout).backward();
  update_with(*learner, whole_batch(rollout));
  for (const auto& [name, gradient] : gradients_of(*learner, config)) {
    const torch::Tensor wanted = parameters.at(name).grad();
    const double error = (gradient - wanted).abs().max().item<double>(), size = wanted.abs().max().item<double>();
    INFO(name << ": error " << error << " of " << size);
    CHECK(size > 0.0);
    CHECK(error < 2e-5 * size + 1e-8);
  }
}

}  // namespace

TEST_CASE("learner: the gradients of every head are those of autograd") {
  RunConfig config = small_config();
  config.algorithm.entropy_coef = 0.05;
  for (const EnvSpec& spec : {discrete_spec(), continuous_spec(), token_spec(), masked_spec()})
    check_against_autograd(config, spec);
}

TEST_CASE("learner: the gradients of every activation are those of autograd, with separate and shared trunks") {
  for (const char* activation : {"tanh", "relu", "elu", "gelu", "silu"}) {
    for (bool shared : {false, true}) {
      RunConfig config = small_config();
      config.model.activation = activation;
      config.model.shared_trunk = shared;
      check_against_autograd(config, discrete_spec());
    }
  }
}

TEST_CASE("learner: the gradients of every loss setting are those of autograd") {
  const std::vector<std::function<void(AlgorithmConfig&)>> settings = {
      [](AlgorithmConfig& a) { a.ratio = "per_dimension"; },
      [](AlgorithmConfig& a) { a.clip_low = 0.1, a.clip_high = 0.28; },
      [](AlgorithmConfig& a) { a.dual_clip = 1.3; },
      [](AlgorithmConfig& a) { a.kl_coef = 0.5; },
      [](AlgorithmConfig& a) { a.kl_coef = 0.5, a.ratio = "per_dimension", a.entropy_coef = 0.1; },
      [](AlgorithmConfig& a) { a.kl = "full", a.kl_coef = 0.5; },
      [](AlgorithmConfig& a) { a.kl = "full", a.kl_coef = 0.5, a.ratio = "per_dimension", a.entropy_coef = 0.1; },
      [](AlgorithmConfig& a) { a.value_clip = 0.3; },
      [](AlgorithmConfig& a) { a.value_loss = "huber", a.huber_delta = 0.5; },
      [](AlgorithmConfig& a) { a.normalize_advantages = false; },
  };
  for (const auto& change : settings) {
    RunConfig config = small_config();
    change(config.algorithm);
    check_against_autograd(config, token_spec());
    check_against_autograd(config, continuous_spec());
  }
}

TEST_CASE("learner: the closed-form KL divergence ignores masked actions, and is used as metric and as penalty") {
  RunConfig config = small_config();
  config.algorithm.kl = "full";
  config.algorithm.kl_coef = 0.5;
  check_against_autograd(config, masked_spec());
  for (const EnvSpec& spec : {masked_spec(), token_spec(), continuous_spec()}) {
    const auto policy = make_policy(config, spec);
    const auto learner = make_learner(config, spec);
    const auto rollout = random_rollout(spec, *policy, 16, 8, 3);
    const TensorMap parameters = parameters_of(*learner);
    const torch::Tensor x = tensor_of(rollout->grid().observations.at("state")).reshape({128, 5}).to(torch::kDouble);
    const double wanted =
        divergence(parameters, spec, *rollout, run(parameters, config.model, "policy", x)).sum(1).mean().item<double>();
    const UpdateReport report = update_with(*learner, whole_batch(rollout));
    CHECK(wanted > 1e-3);
    CHECK(report.metrics.at("kl_exact") == doctest::Approx(wanted).epsilon(1e-5));
    CHECK(report.metrics.at("kl_penalty") == doctest::Approx(wanted).epsilon(1e-5));
  }
}

TEST_CASE("learner: three clipped steps with weight decay are those of LibTorch's AdamW") {
  RunConfig config = small_config();
  config.trainer.weight_decay = 0.1;
  config.trainer.max_grad_norm = 0.2;
  config.trainer.policy_lr = 1e-2;
  config.trainer.value_lr = 2e-2;
  config.trainer.epochs = 3;
  const EnvSpec spec = continuous_spec();
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  const auto rollout = random_rollout(spec, *policy, 16, 8, 3);
  TensorMap parameters = parameters_of(*learner);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  std::vector<torch::Tensor> all;
  for (auto& [name, tensor] : parameters) {
    auto options = std::make_unique<torch::optim::AdamWOptions>(name.starts_with("value.") ? 2e-2 : 1e-2);
    options->eps(config.trainer.adam_epsilon).weight_decay(tensor.dim() >= 2 ? 0.1 : 0.0);
    groups.emplace_back(std::vector<torch::Tensor>{tensor}, std::move(options));
    all.push_back(tensor);
  }
  torch::optim::AdamW optimizer(groups, torch::optim::AdamWOptions(1e-2));
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    ppo_loss(parameters, config, spec, *rollout).backward();
    torch::nn::utils::clip_grad_norm_(all, config.trainer.max_grad_norm);
    optimizer.step();
  }
  const UpdateReport report = update_with(*learner, whole_batch(rollout));
  CHECK(report.steps == 3);
  for (const auto& [name, array] : learner->save().model) {
    const double error = (tensor_of(array).to(torch::kDouble) - parameters.at(name)).abs().max().item<double>();
    INFO(name << ": error " << error);
    CHECK(error < 1e-5);
  }
}
