// model.kind "token_transformer" with model.lora: adapters beside the frozen decoder of a base, compared with the
// decoder into which they are merged, written with functions of torch.

#include <cstring>

#include "models/networks/token_transformer_base.h"
#include "models/networks/token_transformer_layout.h"
#include "models/networks/token_transformer_merge.h"
#include "models/torch/learning/make_model.h"
#include "models/torch/replica.h"
#include "models/torch/token_transformer.h"
#include "runtime/base/errors.h"
#include "runtime/run_folder/safetensors.h"
#include "tests/models/learning/batches.h"
#include "tests/models/torch/nets.h"
#include "tests/models/torch/token_reference.h"
#include "tests/support/temp_folder.h"
#include "tests/support/torch_test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr double kTolerance = 1e-5;  // relative, in float32
constexpr const char* kAllTargets = R"({"rank": 3, "alpha": 2, "targets": ["q_proj", "k_proj", "v_proj", "o_proj",
                                        "gate_proj", "up_proj", "down_proj"]})";

using Tensors = std::map<std::string, Array>;

// A file with the weights of a model without adapters.
struct BaseFile {
  TempFolder folder;
  std::string path = folder / "base.safetensors";

  explicit BaseFile(const Tensors& tensors) { write_safetensors(posix_disk(), path, tensors); }
  ModelConfig adapted(ModelConfig config, const std::string& lora = kAllTargets) const {
    config.path = path;
    config.lora = lora;
    return config;
  }
};

NetworkInput input_of(const EnvSpec& spec, int64_t samples) {
  NetworkInput input;
  input.observations = {torch::randn({samples, 8}, at::detail::createCPUGenerator(1))};
  input.actions = random_actions(Head(spec.action), samples, 2);
  return input;
}

// The parameters of the base's decoder with the adapters merged, by the names of a model without adapters.
TensorMap merged(const TensorMap& p, const Tensors& base, const ModelConfig& config, const LmShape& shape) {
  const LoraConfig lora = lora_from_config(config.lora, "model.lora");
  TensorMap result = p;
  for (const LmTensor& tensor : lm_tensors(shape)) {
    const std::string name = kTokenDecoderPrefix + tensor.name;
    if (result.contains(name)) continue;
    torch::Tensor weight = tensor_view(base.at(name)).clone();
    const std::string layer = name.substr(0, name.size() - std::strlen("weight"));
    if (p.contains(layer + "lora_A.weight"))
      weight = weight + lora.scale() * p.at(layer + "lora_B.weight").matmul(p.at(layer + "lora_A.weight"));
    result[name] = weight;
  }
  return result;
}

bool is_equal(const Tensors& a, const Tensors& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.bytes() == y.second.bytes() &&
           std::memcmp(x.second.data(), y.second.data(), x.second.bytes()) == 0;
  });
}

// What a learner with this config begins with.
Tensors begun(const RunConfig& config, const EnvSpec& spec) { return make_learner(config, spec)->save().model; }

RunConfig transformer_run() {
  RunConfig config = small_config();
  config.model = transformer_config();
  config.model.policy_gain = 1.0;
  return config;
}

}  // namespace

TEST_CASE("token_adapters: outputs and every gradient equal those of the merged decoder") {
  for (const std::string lora : {R"({"rank": 2})", kAllTargets}) {
    const EnvSpec spec = decisions_spec(2);
    const NetModel base(transformer_config(), spec, 5);
    const BaseFile file(base.weights.save());
    NetModel model(file.adapted(transformer_config(), lora), spec, 6);
    const NetworkInput input = input_of(spec, 17);
    const NetworkOutput actual = model.network->forward(input, true);
    const torch::Tensor a = random_tensor({17, Head(spec.action).outputs()}, 3), b = random_tensor({17, 1}, 4);
    model.device.zero_gradients();
    model.network->backward(a, b);

    const TensorMap parameters = model.parameters(torch::kFloat);
    const LmShape shape = token_transformer_shape(model.config, spec);
    const Reference wanted = reference(merged(parameters, base.weights.save(), model.config, shape), shape,
                                       Head(spec.action), input.observations.front(), input.actions);
    ((wanted.policy * a).sum() + (wanted.values * b).sum()).backward();
    CAPTURE(lora);
    CHECK(relative_error(actual.policy, wanted.policy) < kTolerance);
    for (const auto& [name, parameter] : parameters) {
      INFO(name);
      REQUIRE(parameter.grad().defined());
      CHECK(parameter.grad().abs().max().item<double>() > 0.0);
      CHECK(relative_error(model.device.gradient(name), parameter.grad()) < kTolerance);
    }
  }
}

TEST_CASE("token_adapters: a model with the merged weights gives the outputs of the adapters") {
  for (const std::string lora : {R"({"rank": 2})", kAllTargets}) {
    const EnvSpec spec = decisions_spec(2);
    const NetModel base(transformer_config(), spec, 5);
    const BaseFile file(base.weights.save());
    NetModel adapted(file.adapted(transformer_config(), lora), spec, 6), merged(transformer_config(), spec, 7);
    const Tensors whole = merged_token_transformer(adapted.config, spec, adapted.weights.save());
    REQUIRE(std::ranges::equal(
        whole, base.weights.save(), {}, [](const auto& x) { return x.first; }, [](const auto& x) { return x.first; }));
    merged.weights.load(whole);
    merged.network->weights_changed();
    const NetworkInput input = input_of(spec, 17);
    const NetworkOutput of_adapters = adapted.network->forward(input, false);
    const NetworkOutput of_merged = merged.network->forward(input, false);
    CAPTURE(lora);
    CHECK(relative_error(of_merged.policy, of_adapters.policy) < kTolerance);
    CHECK(torch::equal(of_merged.values, of_adapters.values));
  }
}

TEST_CASE("token_adapters: new adapters give the bits of the base") {
  const EnvSpec spec = decisions_spec(2);
  NetModel base(transformer_config(), spec, 5);
  const BaseFile file(base.weights.save());
  const ModelConfig config = file.adapted(transformer_config());
  WeightBlock weights = initial_weights(config, spec, 6);
  const DeviceWeights device(weights, at::kCPU, false);
  const NetworkInput input = input_of(spec, 9);
  const NetworkOutput adapted = make_network(config, spec, device)->forward(input, false);
  const NetworkOutput of_base = base.network->forward(input, false);
  CHECK(torch::equal(adapted.policy, of_base.policy));
  CHECK(torch::equal(adapted.values, of_base.values));
}

TEST_CASE("token_adapters: what is drawn has the same bits in training, also after new weights") {
  const EnvSpec spec = decisions_spec(2);
  const BaseFile file(NetModel(transformer_config(), spec, 5).weights.save());
  NetModel model(file.adapted(transformer_config()), spec, 7);
  const NetworkInput input = input_of(spec, 5);
  for (int turn = 0; turn < 2; ++turn) {
    const Network::Draw draw = [&](const torch::Tensor&, std::optional<int64_t>) { return input.actions; };
    const torch::Tensor drawn = model.network->act(input, draw).policy.clone();
    CHECK(torch::equal(model.network->forward(input, true).policy, drawn));
    for (float& x : model.weights.parameters()) x *= 1.5f;
    model.network->weights_changed();
    CHECK_FALSE(torch::equal(model.network->forward(input, true).policy, drawn));
  }
}

TEST_CASE("token_adapters: an update trains adapters and heads, and not a bit of the base") {
  RunConfig config = transformer_run();
  const EnvSpec spec = token_spec();
  const BaseFile file(begun(config, spec));
  config.model = file.adapted(config.model);
  const Tensors base = token_transformer_base(file.path)->tensors;
  Tensors kept;
  for (const auto& [name, array] : base) kept[name] = array.clone();
  Pair pair(config, spec);
  const Tensors before = pair.learner->save().model;
  const auto rollout = random_rollout(spec, *pair.policy, 8, 4, 1, /*log_prob_noise=*/0.0f);
  const UpdateReport report = update_with(*pair.learner, whole_batch(rollout));
  for (const char* ratio : {"ratio_min", "ratio_mean", "ratio_max"}) CHECK(report.metrics.at(ratio) == 1.0);
  CHECK(is_equal(base, kept));
  for (const auto& [name, array] : pair.learner->save().model) {
    INFO(name);
    CHECK_FALSE(name.find("proj.weight") != std::string::npos);
    // A gets no gradient while B is 0.
    const bool moves = !name.ends_with("lora_A.weight") && !name.starts_with("frozen.");
    CHECK(is_equal({{name, array}}, {{name, before.at(name)}}) != moves);
  }
  update_with(*pair.learner, whole_batch(rollout));
  const std::string a = "policy.model.layers.0.self_attn.q_proj.lora_A.weight";
  CHECK_FALSE(is_equal({{a, pair.learner->save().model.at(a)}}, {{a, before.at(a)}}));
}

TEST_CASE("token_adapters: a policy that takes new adapters has the log-probabilities of the learner") {
  RunConfig config = transformer_run();
  const EnvSpec spec = token_spec();
  const BaseFile file(begun(config, spec));
  config.model = file.adapted(config.model);
  Pair pair(config, spec);
  for (uint64_t version = 0; version < 3; ++version) {
    pair.policy->load(*pair.learner->snapshot({0, version}));
    const auto rollout = random_rollout(spec, *pair.policy, 8, 4, version, /*log_prob_noise=*/0.0f);
    const UpdateReport report = update_with(*pair.learner, whole_batch(rollout));
    CAPTURE(version);
    for (const char* ratio : {"ratio_min", "ratio_mean", "ratio_max"}) CHECK(report.metrics.at(ratio) == 1.0);
  }
}

TEST_CASE("token_adapters: a snapshot has adapters and heads, and fits only a model with the same base") {
  RunConfig config = transformer_run();
  const EnvSpec spec = token_spec();
  const BaseFile file(begun(config, spec));
  config.seed = 2;
  const BaseFile other_file(begun(config, spec));
  RunConfig adapted = config, other = config;
  adapted.model = file.adapted(config.model);
  other.model = other_file.adapted(config.model);
  const WeightsPtr snapshot = make_learner(adapted, spec)->snapshot({0, 1});
  for (const TensorSpec& tensor : snapshot->signature->tensors) {
    INFO(tensor.name);
    CHECK_FALSE(tensor.name == "policy.model.embed_tokens.weight");
    CHECK_FALSE(tensor.name.ends_with("_proj.weight"));
  }
  CHECK_NOTHROW(make_policy(adapted, spec)->load(*snapshot));
  CHECK_THROWS_WITH_AS(make_policy(other, spec)->load(*snapshot), doctest::Contains("frozen."), ConfigError);
}

TEST_CASE("token_adapters: a base that does not fit is refused by name") {
  RunConfig config = transformer_run();
  const EnvSpec spec = token_spec();
  const auto refusal = [&](const Tensors& tensors, const auto& change) {
    const BaseFile file(tensors);
    ModelConfig model = file.adapted(config.model);
    change(model);
    try {
      model_signature(model, spec);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto as_it_is = [](ModelConfig&) {};
  Tensors base = begun(config, spec);
  CHECK(refusal(base, as_it_is) == "");
  CHECK(refusal(base, [](ModelConfig& m) { m.path = "nowhere"; }).starts_with("model.path: nowhere: "));
  CHECK(refusal(base, [](ModelConfig& m) { m.hidden = {13}; })
            .find("tensor policy.0.bias is float32 [12], this run's "
                  "model has float32 [13]") != std::string::npos);
  CHECK(refusal(base, [](ModelConfig& m) { m.normalize_observations = true; }) ==
        "model.path: was trained with model.normalize_observations false, this run has true; give this run the same "
        "value");
  CHECK(refusal(base, [](ModelConfig& m) { m.lora = R"({"rank": 0})"; }) ==
        "model.lora.rank: 0, expected a whole number from 1 to 1024");
  base.erase("policy.model.norm.weight");
  CHECK(refusal(base, as_it_is).find("tensor policy.model.norm.weight is missing") != std::string::npos);
}

TEST_CASE("token_adapters: a run begins with the heads, the value function and the normalisers of its base") {
  RunConfig config = transformer_run();
  config.model.normalize_observations = config.model.normalize_returns = true;
  const EnvSpec spec = token_spec();
  Pair trained(config, spec);
  update_with(*trained.learner, trained.batch(1));
  const Tensors base = trained.learner->save().model;
  const BaseFile file(base);
  config.seed = 9;
  config.model = file.adapted(config.model);
  for (const auto& [name, array] : begun(config, spec)) {
    INFO(name);
    const bool own = name.find("lora_") != std::string::npos || name.starts_with("frozen.");
    CHECK(base.contains(name) != own);
    if (!own) CHECK(is_equal({{name, array}}, {{name, base.at(name)}}));
  }
}
