#include "models/torch/net_layers.h"

#include <ATen/ATen.h>

#include <limits>

namespace troupe {

namespace {

// [B, C, H, W] float32 from samples [C, H, W], [H, W, C] or [H, W].
at::Tensor image_of(const at::Tensor& samples, bool channels_last) {
  at::Tensor x = samples.to(at::kFloat);
  if (samples.scalar_type() == at::kByte) x.mul_(1.0f / 255.0f);
  if (x.dim() == 3) return x.unsqueeze(1);
  return channels_last ? x.permute({0, 3, 1, 2}) : x;
}

at::Tensor flat_rows(const at::Tensor& x) { return x.dim() > 2 ? x.flatten(1) : x.dim() == 1 ? x.unsqueeze(1) : x; }

// A number that has no vector gives NaN: on a GPU, an index out of range would end the process. NaN is refused later,
// as in an observation, by an error that names the sample.
at::Tensor embed(const at::Tensor& weight, const at::Tensor& samples) {
  const int64_t values = weight.size(0);
  const at::Tensor numbers = flat_rows(samples).to(at::kLong);
  const at::Tensor unknown = numbers.lt(0).logical_or_(numbers.ge(values));
  const at::Tensor vectors = at::embedding(weight, numbers.clamp(0, values - 1));
  return vectors.masked_fill(unknown.unsqueeze(-1), std::numeric_limits<float>::quiet_NaN()).flatten(1);
}

}  // namespace

NetLayers::NetLayers(const std::vector<NetLayer>& layers, Leaves& leaves, Activation activation)
    : activation_(activation) {
  for (const NetLayer& plan : layers) {
    Layer& layer = layers_.emplace_back(Layer{plan, {}, {}});
    if (plan.kind == NetLayer::Kind::image) continue;
    layer.weight = leaves.leaf(plan.name + ".weight");
    if (plan.kind != NetLayer::Kind::embedding) layer.bias = leaves.leaf(plan.name + ".bias");
  }
}

at::Tensor NetLayers::run(at::Tensor x) const {
  for (const Layer& layer : layers_) x = run_layer(layer, x);
  return flat_rows(x);
}

at::Tensor NetLayers::run_layer(const Layer& layer, const at::Tensor& x) const {
  const NetLayer& plan = layer.plan;
  switch (plan.kind) {
    case NetLayer::Kind::image: return image_of(x, plan.channels_last);
    case NetLayer::Kind::conv:
      return activated(activation_, at::conv2d(x, layer.weight, layer.bias, plan.stride, plan.padding));
    case NetLayer::Kind::embedding: return embed(layer.weight, x);
    case NetLayer::Kind::linear: return activated(activation_, at::linear(flat_rows(x), layer.weight, layer.bias));
  }
  return x;
}

}  // namespace troupe
