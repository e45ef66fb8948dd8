#pragma once
// A decoder written with LibTorch in float64, for tests. Include it after tests/support/torch_test.h.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/models/decoder/tiny_models.h"

namespace troupe::test {

using Parameters = std::map<std::string, torch::Tensor>;

inline Parameters parameters_of(TinyModel& model) {
  Parameters result;
  for (const LmTensor& tensor : lm_tensors(model.shape)) {
    const std::vector<int64_t> sizes(tensor.shape.begin(), tensor.shape.end());
    result[tensor.name] =
        torch::from_blob(model.values.at(tensor.name).data(), sizes).to(torch::kDouble).requires_grad_();
  }
  return result;
}

inline torch::Tensor rms_norm(const torch::Tensor& x, const torch::Tensor& weight, double eps) {
  return x * torch::rsqrt(x.square().mean(-1, true) + eps) * weight;
}

// x: [heads, T, head_dim].
inline torch::Tensor rotated(const LmShape& shape, const torch::Tensor& x) {
  const std::vector<float> frequencies = rope_frequencies(shape);
  const torch::Tensor angles = torch::arange(x.size(1), torch::kDouble).unsqueeze(1) *
                               torch::tensor(frequencies).to(torch::kDouble).unsqueeze(0);
  const torch::Tensor cos = angles.cos().repeat({1, 2}), sin = angles.sin().repeat({1, 2});
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return x * cos + torch::cat({-halves[1], halves[0]}, -1) * sin;
}

// One sequence on its own: hidden rows after the last norm, [T, hidden].
inline torch::Tensor reference_hidden(const LmShape& shape, const Parameters& p, const std::vector<int32_t>& ids) {
  const auto tokens = static_cast<int64_t>(ids.size());
  const torch::Tensor index = torch::tensor(std::vector<int64_t>(ids.begin(), ids.end()));
  torch::Tensor x = p.at("model.embed_tokens.weight").index_select(0, index);
  const torch::Tensor later = torch::ones({tokens, tokens}, torch::kBool).triu(1);
  for (int64_t layer = 0; layer < shape.layers; ++layer) {
    const auto get = [&](const std::string& name) { return p.at(lm_layer_prefix(layer) + name); };
    const auto heads = [&](const std::string& name, int64_t count, const torch::Tensor& in) {
      torch::Tensor y = torch::matmul(in, get("self_attn." + name + "_proj.weight").t());
      if (shape.qkv_bias) y = y + get("self_attn." + name + "_proj.bias");
      y = y.view({tokens, count, shape.head_dim});
      if (shape.qk_norm && name != "v") y = rms_norm(y, get("self_attn." + name + "_norm.weight"), shape.rms_eps);
      return y.transpose(0, 1);
    };
    const torch::Tensor in = rms_norm(x, get("input_layernorm.weight"), shape.rms_eps);
    const torch::Tensor q = rotated(shape, heads("q", shape.heads, in));
    const torch::Tensor k = rotated(shape, heads("k", shape.kv_heads, in)).repeat_interleave(shape.group(), 0);
    const torch::Tensor v = heads("v", shape.kv_heads, in).repeat_interleave(shape.group(), 0);
    const torch::Tensor scores = torch::matmul(q, k.transpose(1, 2)) / std::sqrt(static_cast<double>(shape.head_dim));
    const torch::Tensor weights = torch::softmax(scores.masked_fill(later, -INFINITY), -1);
    const torch::Tensor out = torch::matmul(weights, v).transpose(0, 1).reshape({tokens, shape.query_width()});
    x = x + torch::matmul(out, get("self_attn.o_proj.weight").t());
    const torch::Tensor mid = rms_norm(x, get("post_attention_layernorm.weight"), shape.rms_eps);
    const torch::Tensor gate = torch::matmul(mid, get("mlp.gate_proj.weight").t());
    const torch::Tensor up = torch::matmul(mid, get("mlp.up_proj.weight").t());
    x = x + torch::matmul(torch::silu(gate) * up, get("mlp.down_proj.weight").t());
  }
  return rms_norm(x, p.at("model.norm.weight"), shape.rms_eps);
}

// The largest difference, relative to the largest value.
inline double difference(const std::vector<float>& is, const torch::Tensor& should) {
  const torch::Tensor expected = should.detach().reshape({-1});
  TROUPE_CHECK(static_cast<int64_t>(is.size()) == expected.numel(), is.size(), expected.numel());
  const torch::Tensor found = torch::tensor(is).to(torch::kDouble);
  return (found - expected).abs().max().item<double>() / std::max(1e-30, expected.abs().max().item<double>());
}

}  // namespace troupe::test
