// The bias of an update with answers of an older policy, on a task that is small enough to enumerate: the expected
// gradient against the exact gradient of the expected reward.

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/support/torch_test.h"

#include "tests/models/learning/answers/answers.h"
#include "tests/models/learning/answers/torch_answers.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int32_t kEnd = 0, kVocabulary = 4;
constexpr size_t kLongest = 3;
const std::vector<int32_t> kPrompt = {2, 1};

LmShape small_shape() {
  LmShape shape = tiny_shape(LmFamily::llama, 5);
  shape.vocabulary = kVocabulary;
  return shape;
}

// All answers that end with kEnd, or at kLongest tokens.
void add_answers(std::vector<int32_t>& so_far, std::vector<std::vector<int32_t>>& all) {
  for (int32_t id = 0; id < kVocabulary; ++id) {
    so_far.push_back(id);
    id == kEnd || so_far.size() == kLongest ? all.push_back(so_far) : add_answers(so_far, all);
    so_far.pop_back();
  }
}

std::vector<std::vector<int32_t>> every_answer() {
  std::vector<std::vector<int32_t>> all;
  std::vector<int32_t> so_far;
  add_answers(so_far, all);
  return all;
}

double reward_of(const std::vector<int32_t>& answer) {
  return static_cast<double>(answer.size()) - 1.5 + (answer.front() == 3 ? 1.0 : 0.0);
}

// The weights of a policy. `away` moves it from the one with 0.
std::map<std::string, Array> weights_of(const LmShape& shape, float away) {
  LearnerConfig config;
  config.algorithm.advantage = "rloo";
  std::map<std::string, Array> weights =
      make_answer_learner(config, shape, {.seed = 1, .answer_tokens = kLongest})->save().model;
  for (auto& [name, tensor] : weights) {
    Rng first(derive_key(9, name)), second(derive_key(10, name));
    const bool norm = name.ends_with("norm.weight");
    for (float& x : tensor.mutable_view<float>())
      x = (norm ? 1.0f : 0.0f) + (norm ? 0.1f : 0.25f) * (first.normal() + away * second.normal());
  }
  return weights;
}

// Every answer as a prompt's only one, with these log-probabilities of its tokens. Its reward is multiplied by its
// probability and the number of answers, so that the mean over them is the expectation over what the policy samples.
SuperBatch expectation(const LmShape& shape, const Parameters& rollout) {
  std::vector<int32_t> ids, tokens, group;
  std::vector<int64_t> prompt_offsets{0}, offsets{0}, version;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> flags;
  const auto all = every_answer();
  for (const std::vector<int32_t>& answer : all) {
    const torch::Tensor of_tokens = answer_log_probs(shape, rollout, kPrompt, answer).detach();
    for (int64_t t = 0; t < of_tokens.size(0); ++t) log_probs.push_back(of_tokens[t].item<float>());
    rewards.push_back(static_cast<float>(reward_of(answer) * std::exp(of_tokens.sum().item<double>()) *
                                         static_cast<double>(all.size())));
    ids.insert(ids.end(), kPrompt.begin(), kPrompt.end());
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    prompt_offsets.push_back(static_cast<int64_t>(ids.size()));
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    group.push_back(static_cast<int32_t>(group.size()));
    flags.push_back(0);
  }
  version.resize(tokens.size(), 0);
  auto result = std::make_shared<Rollout>();
  result->body = Answers{.prompts = array_of(ids),
                         .prompt_offsets = array_of(prompt_offsets),
                         .sampled = {.tokens = array_of(tokens),
                                     .offsets = array_of(offsets),
                                     .log_probs = array_of(log_probs),
                                     .version = array_of(version),
                                     .finish = array_of(flags)},
                         .group = array_of(group),
                         .rewards = array_of(rewards),
                         .right = array_of(flags)};
  SuperBatch batch = whole(result);
  batch.index = 4;
  return batch;
}

using Gradients = std::map<std::string, std::vector<double>>;

// Of -E[reward] under the policy, over all answers.
Gradients exact(const LmShape& shape, const std::map<std::string, Array>& weights) {
  const Parameters p = parameters_of(weights);
  torch::Tensor expected = torch::zeros({}, torch::kDouble), total = expected;
  for (const std::vector<int32_t>& answer : every_answer()) {
    const torch::Tensor probability = answer_log_probs(shape, p, kPrompt, answer).sum().exp();
    total = total + probability;
    expected = expected + probability * reward_of(answer);
  }
  REQUIRE(total.item<double>() == doctest::Approx(1.0).epsilon(1e-9));
  (-expected).backward();
  Gradients result;
  for (const auto& [name, parameter] : p) {
    const torch::Tensor flat = parameter.grad().reshape({-1}).contiguous();
    result[name] = {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
  }
  return result;
}

// Of the first step of an update with answers of the policy `rollout`.
Gradients expected(const LmShape& shape, const std::map<std::string, Array>& weights,
                   const std::map<std::string, Array>& rollout, const std::string& correction,
                   const std::string& proximal = "computed") {
  LearnerConfig config;
  config.algorithm.advantage = "rloo";
  config.algorithm.advantage_params = R"({"singleton": "score"})";
  config.algorithm.aggregation = "seq-mean-token-sum";
  config.algorithm.rollout_correction = correction;
  config.algorithm.proximal = proximal;
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient
  const auto learner = make_answer_learner(config, shape, {.seed = 1, .answer_tokens = kLongest});
  learner->begin_from(weights);
  learner->update(*learner->stager()->stage(expectation(shape, parameters_of(rollout))), 0);
  const LearnerState state = learner->save();
  Gradients result;
  for (const auto& [name, unused] : weights) {
    const std::span<const float> gradient = state.optimizer.at("first." + name).view<float>();
    result[name] = {gradient.begin(), gradient.end()};
  }
  return result;
}

// Relative to the length of b.
double distance(const Gradients& a, const Gradients& b) {
  double apart = 0, length = 0;
  for (const auto& [name, values] : b)
    for (size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(a.at(name)[i] - values[i], 2);
      length += std::pow(values[i], 2);
    }
  return std::sqrt(apart / length);
}

}  // namespace

TEST_CASE("answer_bias: answers of the current policy have the exact gradient") {
  torch::set_num_threads(1);
  const LmShape shape = small_shape();
  const auto now = weights_of(shape, 0);
  CHECK(every_answer().size() == 40);
  CHECK(distance(expected(shape, now, now, "{}"), exact(shape, now)) < 1e-4);
}

TEST_CASE("answer_bias: weights take away at least half of the bias of an older policy's answers") {
  torch::set_num_threads(1);
  const LmShape shape = small_shape();
  for (const float away : {0.1f, 0.3f}) {
    CAPTURE(away);
    const auto now = weights_of(shape, 0), older = weights_of(shape, away);
    const Gradients wanted = exact(shape, now);
    const auto bias = [&](const char* correction, const char* proximal = "computed") {
      return distance(expected(shape, now, older, correction, proximal), wanted);
    };
    const double without = bias(R"({"is": "none"})");
    MESSAGE("bias without weights ", without, ", weights of sequences up to 2 ", bias(R"({"is": "sequence"})"),
            ", of tokens ", bias(R"({"is": "token"})"), ", interpolated ", bias(R"({"is": "token"})", "interpolated"),
            ", ratios to the policy that sampled ", bias("{}"));
    CHECK(without > 0.02);
    CHECK(bias(R"({"is": "sequence", "is_threshold": 1000})") < 1e-4);
    CHECK(bias(R"({"is": "sequence"})") < without / 2);
  }
}
