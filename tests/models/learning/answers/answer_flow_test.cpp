// An update of a token run as a script in float64 that uses LibTorch's gradients: scores, rewards, values, advantages,
// the losses of actor and critic, and the gradients of head and trunk.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_learner.h"
#include "tests/support/torch_test.h"

#include "tests/models/decoder/torch_decoder.h"
#include "tests/models/learning/answers/answers.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-5;
constexpr double kTemperature = 0.9, kClip = 0.2, kValueClip = 0.05, kValueCoef = 0.7;
constexpr double kGamma = 0.97, kLambda = 0.9, kRewardClip = 0.75, kKlCoef = 0.3;

Parameters parameters_of(const std::map<std::string, Array>& weights, const std::string& prefix) {
  Parameters result;
  for (const auto& [name, tensor] : weights) {
    if (!name.starts_with(prefix) || tensor.dtype() != DType::f32) continue;
    const std::span<const float> values = tensor.view<float>();
    const std::vector<int64_t> sizes(tensor.shape().begin(), tensor.shape().end());
    result[name.substr(prefix.size())] =
        torch::tensor(std::vector<float>(values.begin(), values.end())).to(torch::kDouble).reshape(sizes);
    result[name.substr(prefix.size())].requires_grad_();
  }
  return result;
}

// The models of a run.
struct Models {
  LmShape shape;
  Parameters policy, critic;  // names without "critic."; a shared critic has only the head
  bool separate = false;

  Models(const LmShape& of, const std::map<std::string, Array>& weights)
      : shape(of), policy(parameters_of(weights, "")), critic(parameters_of(weights, "critic.")) {
    separate = critic.contains("model.norm.weight");
  }
};

struct Said {
  torch::Tensor all, log_probs, values;  // of the tokens of an answer: of all ids [T, V], of the sampled ones, V
};

// The rows before the tokens of an answer, each of which predicts its token and has the value of the state before it.
Said say(const Models& models, const std::vector<int32_t>& prompt, const std::vector<int32_t>& answer) {
  std::vector<int32_t> ids = prompt;
  ids.insert(ids.end(), answer.begin(), answer.end());
  const auto rows = [&](const Parameters& p) {
    return reference_hidden(models.shape, p, ids).slice(0, static_cast<int64_t>(prompt.size()) - 1, -1);
  };
  const torch::Tensor hidden = rows(models.policy);
  const torch::Tensor& output =
      models.policy.at(models.shape.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight");
  const torch::Tensor all = torch::log_softmax(torch::matmul(hidden, output.t()) / kTemperature, -1);
  const torch::Tensor labels = torch::tensor(std::vector<int64_t>(answer.begin(), answer.end())).unsqueeze(1);
  const torch::Tensor of_critic = models.separate ? rows(models.critic) : hidden;
  return {all, all.gather(1, labels).squeeze(1),
          torch::matmul(of_critic, models.critic.at("value_head.weight").t()).squeeze(1) +
              models.critic.at("value_head.bias")};
}

struct Loss {
  torch::Tensor actor, critic, kl;  // kl: in the loss
  double return_mean = 0;
};

// The KL in the loss as `estimate` says.
torch::Tensor kl_of(const std::string& estimate, const Said& now, const Said& reference) {
  if (estimate == "full") return (now.all.exp() * (now.all - reference.all)).sum(-1);
  const torch::Tensor d = now.log_probs - reference.log_probs;
  return torch::exp(-d) + d - 1;
}

// The losses with the weights `now` of an update that began with the weights `start`, which are the reference, too.
Loss losses(const Models& start, const Models& now, const AnswerBatch& batch, const ReferenceConfig& reference) {
  std::vector<torch::Tensor> actor, critic, kl, all_returns;
  for (int64_t g = 0; g < batch.groups(); ++g)
    for (int64_t a = batch.group_offsets[static_cast<size_t>(g)]; a < batch.group_offsets[static_cast<size_t>(g) + 1];
         ++a) {
      const auto at = [](int64_t i) { return static_cast<size_t>(i); };
      const std::vector<int32_t> prompt(batch.prompts.begin() + batch.prompt_offsets[at(g)],
                                        batch.prompts.begin() + batch.prompt_offsets[at(g + 1)]);
      const int64_t first = batch.offsets[at(a)], end = batch.offsets[at(a + 1)];
      const std::vector<int32_t> answer(batch.tokens.begin() + first, batch.tokens.begin() + end);
      const torch::Tensor sampled =
          torch::tensor(std::vector<float>(batch.log_probs.begin() + first, batch.log_probs.begin() + end))
              .to(torch::kDouble);
      Said before = say(start, prompt, answer);
      for (torch::Tensor* x : {&before.all, &before.log_probs, &before.values}) *x = x->detach();
      const torch::Tensor values = before.values;
      torch::Tensor rewards = torch::zeros({end - first}, torch::kDouble);
      if (reference.in_reward()) rewards = -kKlCoef * (sampled - before.log_probs);
      rewards[-1] += std::clamp<double>(batch.rewards[at(a)], -kRewardClip, kRewardClip);
      torch::Tensor advantages = torch::zeros_like(values);
      double advantage = 0;
      for (int64_t t = end - first; t-- > 0;) {
        const double next = t + 1 < end - first ? values[t + 1].item<double>() : 0.0;
        const double delta = rewards[t].item<double>() + kGamma * next - values[t].item<double>();
        advantage = delta + kGamma * kLambda * advantage;
        advantages[t] = advantage;
      }
      const torch::Tensor returns = advantages + values;
      const Said said = say(now, prompt, answer);
      const torch::Tensor ratio = torch::exp(said.log_probs - sampled);
      actor.push_back(torch::max(-advantages * ratio, -advantages * torch::clamp(ratio, 1 - kClip, 1 + kClip)));
      const torch::Tensor clipped = values + torch::clamp(said.values - values, -kValueClip, kValueClip);
      critic.push_back(0.5 * torch::max((said.values - returns).square(), (clipped - returns).square()));
      kl.push_back(kl_of(reference.kl, said, before));
      all_returns.push_back(returns);
    }
  return {torch::cat(actor).mean(), torch::cat(critic).mean(), torch::cat(kl).mean(),
          torch::cat(all_returns).mean().item<double>()};
}

LearnerConfig config_of(int64_t epochs, const ReferenceConfig& reference) {
  LearnerConfig config;
  config.reference = reference;
  config.algorithm.reward_clip = kRewardClip;
  config.algorithm.advantage = "gae";
  config.algorithm.gamma = kGamma;
  config.algorithm.lambda = kLambda;
  config.algorithm.normalize_advantages = false;
  config.algorithm.value_clip = kValueClip;
  config.algorithm.value_coef = kValueCoef;
  config.trainer.epochs = epochs;
  config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  config.trainer.policy_lr = config.trainer.value_lr = 1e-2;
  config.trainer.max_grad_norm = 0;
  config.trainer.adam_beta1 = 0;  // the first moment is the gradient of the last step
  return config;
}

std::map<std::string, Array> first_weights(const LmModel& model) {
  std::map<std::string, Array> result =
      make_answer_learner(config_of(1, {}), model, {.seed = 1, .answer_tokens = 13})->save().model;
  for (auto& [name, tensor] : result) {
    Rng random(derive_key(9, name));
    const bool norm = name.ends_with("norm.weight");
    for (float& x : tensor.mutable_view<float>()) x = (norm ? 1.0f : 0.0f) + (norm ? 0.1f : 0.25f) * random.normal();
  }
  return result;
}

void check_flow(const LmModel& model, const ReferenceConfig& reference) {
  const auto first = first_weights(model);
  const RolloutPtr rollout = random_answers(4, model.shape.vocabulary, 3);
  const auto batch = gather_answers(whole(rollout));
  const Models start(model.shape, first);
  std::map<std::string, Array> now = first;
  for (const int64_t epochs : {1, 2}) {
    const auto learner =
        make_answer_learner(config_of(epochs, reference), model,
                            {.seed = 1, .temperature = kTemperature, .answer_tokens = 13, .threads = 2});
    learner->begin_from(first);
    const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
    Models models(model.shape, now);  // before the last step
    const Loss expected = losses(start, models, *batch, reference);
    CHECK(report.metrics.at("return_mean") == doctest::Approx(expected.return_mean).epsilon(kTolerance));
    CHECK(report.metrics.at("policy_loss") == doctest::Approx(expected.actor.item<double>()).epsilon(kTolerance));
    CHECK(report.metrics.at("value_loss") == doctest::Approx(expected.critic.item<double>()).epsilon(kTolerance));
    torch::Tensor loss = expected.actor + kValueCoef * expected.critic;
    if (!reference.in_reward()) loss = loss + kKlCoef * expected.kl;
    loss.backward();
    const LearnerState state = learner->save();
    const auto check = [&](const Parameters& parameters, const std::string& prefix) {
      for (const auto& [name, parameter] : parameters) {
        if (prefix.empty() && name.starts_with("critic.")) continue;
        CAPTURE(name);
        const std::span<const float> gradient = state.optimizer.at("first." + prefix + name).view<float>();
        REQUIRE(parameter.grad().defined());
        CHECK(difference(std::vector<float>(gradient.begin(), gradient.end()), parameter.grad()) < kTolerance);
      }
    };
    check(models.policy, "");
    check(models.critic, "critic.");
    now = state.model;
  }
}

}  // namespace

TEST_CASE("answer_learner: the flow of PPO with a critic and a reference is that of a script in float64") {
  torch::set_num_threads(1);
  for (const LmFamily family : kFamilies)
    for (const CriticKind critic : {CriticKind::shared, CriticKind::separate})
      for (const auto& [place, kl] : {std::pair{"reward", "k1"}, {"loss", "k3"}, {"loss", "full"}}) {
        LmModel model(tiny_shape(family, 21));
        model.critic = critic;
        CAPTURE(name_of(family));
        CAPTURE(static_cast<int>(critic));
        CAPTURE(kl);
        check_flow(model, {.model = "start", .place = place, .kl = kl, .kl_coef = kKlCoef});
      }
}
