#pragma once
// The network of model.kind "token_transformer" written with functions of torch, and small models of it.

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "models/heads/heads.h"
#include "tests/models/torch/nets.h"
#include "tests/support/torch_test.h"

namespace troupe::test {

inline constexpr const char* kSmall = R"({"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4,
                                   "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 24})";

inline ModelConfig transformer_config(const std::string& decoder = kSmall) {
  ModelConfig config;
  config.kind = "token_transformer";
  config.hidden = {12};
  config.decoder = decoder;
  return config;
}

// Decisions with 5, 3 and 4 bins, `chunk` times.
inline EnvSpec decisions_spec(int64_t chunk = 1) {
  EnvSpec spec = env_of({{"state", DType::f32, {6}}, {"goal", DType::f32, {2}}});
  spec.action.kind = ActionKind::multi_discrete;
  spec.action.bins = {5, 3, 4};
  spec.action.chunk = chunk;
  return spec;
}

inline torch::Tensor random_actions(const Head& head, int64_t samples, uint64_t seed) {
  torch::Tensor result = torch::empty({samples, head.decisions()}, torch::kInt);
  auto generator = at::detail::createCPUGenerator(seed);
  for (int64_t d = 0; d < head.decisions(); ++d)
    result.select(1, d).copy_(
        torch::randint(0, head.layout()[static_cast<size_t>(d)].bins, {samples}, generator, torch::kInt));
  return result;
}

inline torch::Tensor norm(const TensorMap& p, const std::string& name, const torch::Tensor& x) {
  return x * torch::rsqrt(x.pow(2).mean(-1, true) + 1e-6) * p.at(name + ".weight");
}

// x [B, D, heads, head_dim], position d at index d.
inline torch::Tensor rotated(const torch::Tensor& x) {
  const int64_t half = x.size(3) / 2;
  const torch::Tensor frequencies =
      torch::pow(10000.0, -torch::arange(half, torch::kFloat) / static_cast<double>(half));
  const torch::Tensor angles = torch::arange(x.size(1), torch::kFloat).unsqueeze(1) * frequencies;  // [D, half]
  const torch::Tensor cos = angles.cos().unsqueeze(1), sin = angles.sin().unsqueeze(1);
  const torch::Tensor a = x.narrow(3, 0, half), b = x.narrow(3, half, half);
  return torch::cat({a * cos - b * sin, b * cos + a * sin}, 3);
}

inline torch::Tensor layer(const TensorMap& p, const LmShape& shape, const std::string& name, const torch::Tensor& x) {
  const int64_t samples = x.size(0), tokens = x.size(1);
  const auto product = [&](const std::string& matrix, const torch::Tensor& in) {
    return torch::linear(in, p.at(name + matrix + ".weight"));
  };
  const torch::Tensor in = norm(p, name + "input_layernorm", x);
  const auto heads = [&](const std::string& matrix, int64_t count) {
    return product("self_attn." + matrix, in).view({samples, tokens, count, shape.head_dim});
  };
  const torch::Tensor q = rotated(heads("q_proj", shape.heads)).transpose(1, 2);
  const torch::Tensor k = rotated(heads("k_proj", shape.kv_heads)).repeat_interleave(shape.group(), 2).transpose(1, 2);
  const torch::Tensor v = heads("v_proj", shape.kv_heads).repeat_interleave(shape.group(), 2).transpose(1, 2);
  const torch::Tensor later = torch::ones({tokens, tokens}, torch::kBool).triu(1);
  const torch::Tensor scores = (q.matmul(k.transpose(2, 3)) / std::sqrt(static_cast<double>(shape.head_dim)))
                                   .masked_fill(later, -std::numeric_limits<float>::infinity());
  const torch::Tensor attended = scores.softmax(-1).matmul(v).transpose(1, 2).reshape({samples, tokens, -1});
  const torch::Tensor middle = x + product("self_attn.o_proj", attended);
  const torch::Tensor up = norm(p, name + "post_attention_layernorm", middle);
  return middle + product("mlp.down_proj", torch::silu(product("mlp.gate_proj", up)) * product("mlp.up_proj", up));
}

struct Reference {
  torch::Tensor policy, values;
};

inline Reference reference(const TensorMap& p, const LmShape& shape, const Head& head,
                           const torch::Tensor& observations, const torch::Tensor& actions) {
  const torch::Tensor observed = linear(p, "policy.input", linear(p, "policy.0", observations).tanh());
  std::vector<torch::Tensor> inputs = {observed};
  for (int64_t d = 0; d + 1 < head.decisions(); ++d)
    inputs.push_back(observed + torch::embedding(p.at("policy.model.embed_tokens.weight"),
                                                 actions.select(1, d).to(torch::kLong) + head.layout()[d].first));
  torch::Tensor x = torch::stack(inputs, 1);
  for (int64_t i = 0; i < shape.layers; ++i) x = layer(p, shape, "policy." + lm_layer_prefix(i), x);
  const torch::Tensor logits =
      torch::linear(norm(p, "policy.model.norm", x), p.at("policy.lm_head.weight"));  // [B, D, P]
  std::vector<torch::Tensor> decisions;
  for (int64_t d = 0; d < head.decisions(); ++d)
    decisions.push_back(logits.select(1, d).narrow(1, head.layout()[d].first, head.layout()[d].bins));
  return {torch::cat(decisions, 1), linear(p, "value.head", linear(p, "value.0", observations).tanh())};
}

}  // namespace troupe::test
