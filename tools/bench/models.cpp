// Times a policy's act() and a learner's update() on CartPole's shapes, and the same work written directly
// with LibTorch's modules, autograd and Adam. Prints one JSON object; every key names its unit.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/experience/rollout.h"
#include "models/torch/compute.h"
#include "models/torch/learning/make_model.h"

namespace {

using namespace troupe;

double median_us(int repeats, const std::function<void()>& work) {
  for (int i = 0; i < repeats / 4 + 1; ++i) work();
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    work();
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[repeats / 2];
}

EnvSpec cart_pole() {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {4}}};
  spec.action.bins = {2};
  return spec;
}

ActInput act_input(int64_t rows) {
  ActInput input;
  input.observations.set("state", Array(DType::f32, {rows, 4}));
  for (float& x : input.observations.at("state").mutable_view<float>()) x = 0.3f;
  input.seeds = Array(DType::i64, {rows});
  std::iota(input.seeds.mutable_view<int64_t>().begin(), input.seeds.mutable_view<int64_t>().end(), 0);
  input.deterministic = Array(DType::u8, {rows});
  return input;
}

RolloutPtr rollout_of(Policy& policy, int64_t steps, int64_t columns) {
  const ActInput input = act_input(steps * columns);
  const ActOutput output = policy.act(input);
  auto rollout = std::make_shared<Rollout>();
  rollout->grid().observations.set("state", input.observations.at("state").reshaped({steps, columns, 4}));
  rollout->grid().actions = output.actions.reshaped({steps, columns, 1, 1});
  rollout->grid().log_probs = output.log_probs.reshaped({steps, columns, 1});
  rollout->grid().values = output.values.reshaped({steps, columns});
  rollout->grid().advantages = Array(DType::f32, {steps, columns});
  rollout->grid().returns = Array(DType::f32, {steps, columns});
  for (int64_t i = 0; i < steps * columns; ++i) {
    rollout->grid().advantages.mutable_view<float>()[i] = static_cast<float>(i % 7) - 3.0f;
    rollout->grid().returns.mutable_view<float>()[i] = static_cast<float>(i % 11);
  }
  rollout->grid().valid = Array(DType::u8, {steps, columns});
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), 1);
  rollout->samples = static_cast<uint64_t>(steps * columns);
  return rollout;
}

torch::nn::Sequential tower(int64_t outputs) {
  return torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64),
                               torch::nn::Tanh(), torch::nn::Linear(64, outputs));
}

// The same update as a plain script would write it.
class BareLoop {
 public:
  explicit BareLoop(const Rollout& rollout) {
    const int64_t n = rollout.grid().values.size();
    const auto view = [](const Array& a, at::IntArrayRef shape, at::ScalarType type) {
      return torch::from_blob(const_cast<std::byte*>(a.data()), shape, type);
    };
    x_ = view(rollout.grid().observations.at("state"), {n, 4}, torch::kFloat);
    actions_ = view(rollout.grid().actions, {n, 1}, torch::kInt).to(torch::kLong);
    old_ = view(rollout.grid().log_probs, {n}, torch::kFloat);
    advantages_ = view(rollout.grid().advantages, {n}, torch::kFloat);
    returns_ = view(rollout.grid().returns, {n}, torch::kFloat);
    std::vector<torch::Tensor> parameters = policy_->parameters();
    for (const auto& p : value_->parameters()) parameters.push_back(p);
    parameters_ = parameters;
    optimizer_ = std::make_unique<torch::optim::Adam>(parameters, torch::optim::AdamOptions(3e-4));
  }

  void update() {
    const torch::Tensor advantages = (advantages_ - advantages_.mean()) / (advantages_.std() + 1e-8);
    const int64_t n = x_.size(0);
    for (int epoch = 0; epoch < 4; ++epoch) {
      const torch::Tensor order = torch::randperm(n);
      for (int i = 0; i < 4; ++i) {
        const torch::Tensor rows = order.narrow(0, i * n / 4, n / 4);
        const torch::Tensor x = x_.index_select(0, rows), a = advantages.index_select(0, rows);
        const torch::Tensor log_probs = torch::log_softmax(policy_->forward(x), 1);
        const torch::Tensor entropy = -(log_probs.exp() * log_probs).sum(1).mean();
        const torch::Tensor chosen = log_probs.gather(1, actions_.index_select(0, rows)).squeeze(1);
        const torch::Tensor ratio = (chosen - old_.index_select(0, rows)).exp();
        const torch::Tensor policy_loss = torch::max(-a * ratio, -a * ratio.clamp(0.8, 1.2)).mean();
        const torch::Tensor error = value_->forward(x).squeeze(1) - returns_.index_select(0, rows);
        const torch::Tensor loss = policy_loss + 0.5 * 0.5 * error.square().mean() - 0.0 * entropy;
        optimizer_->zero_grad();
        loss.backward();
        torch::nn::utils::clip_grad_norm_(parameters_, 0.5);
        optimizer_->step();
      }
    }
  }

 private:
  torch::nn::Sequential policy_ = tower(2), value_ = tower(1);
  torch::Tensor x_, actions_, old_, advantages_, returns_;
  std::vector<torch::Tensor> parameters_;
  std::unique_ptr<torch::optim::Adam> optimizer_;
};

double bare_act_us(int64_t rows, int repeats) {
  const torch::NoGradGuard guard;
  auto policy = tower(2), value = tower(1);
  const torch::Tensor x = torch::full({rows, 4}, 0.3f);
  return median_us(repeats, [&] {
    const torch::Tensor probabilities = torch::softmax(policy->forward(x), 1);
    const torch::Tensor actions = torch::multinomial(probabilities, 1);
    const torch::Tensor log_probs = probabilities.gather(1, actions).log();
    const torch::Tensor values = value->forward(x);
  });
}

}  // namespace

int main() {
  set_compute_threads(1);
  RunConfig config;
  const EnvSpec spec = cart_pole();
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  const auto stager = learner->stager();
  std::string json = "{";
  const auto add = [&](const std::string& key, double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3f", value);
    json += (json.size() > 1 ? ", \"" : "\"") + key + "\": " + text;
  };
  for (int64_t rows : {1, 64, 256, 1024}) {
    const ActInput input = act_input(rows);
    add("act_" + std::to_string(rows) + "_rows_us", median_us(400, [&] { policy->act(input); }));
    add("bare_act_" + std::to_string(rows) + "_rows_us", bare_act_us(rows, 400));
  }
  SuperBatch batch;
  const RolloutPtr rollout = rollout_of(*policy, 64, 32);
  std::vector<int32_t> columns(32);
  std::iota(columns.begin(), columns.end(), 0);
  batch.parts.push_back({rollout, columns});
  add("stage_2048_us", median_us(100, [&] { stager->stage(batch); }));
  const auto staged = stager->stage(batch);
  BareLoop bare(*rollout);
  // In turns, so that a slow phase of the machine affects both.
  std::vector<double> ours, theirs;
  for (int i = 0; i < 10; ++i) {
    ours.push_back(median_us(5, [&] { learner->update(*staged, 0.0); }));
    theirs.push_back(median_us(5, [&] { bare.update(); }));
  }
  std::ranges::sort(ours);
  std::ranges::sort(theirs);
  add("update_2048_us", ours[5]);
  add("bare_update_2048_us", theirs[5]);
  add("update_ratio_to_bare_loop", ours[5] / theirs[5]);
  add("snapshot_us", median_us(100, [&] { learner->snapshot({0, 1}); }));
  std::printf("%s}\n", json.c_str());
}
