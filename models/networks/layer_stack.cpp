#include "models/networks/layer_stack.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

LayerStack::LayerStack(NetworkLayout& layout, std::string prefix, Shape input, TensorGroup group)
    : layout_(layout), prefix_(std::move(prefix)), shape_(input), group_(group) {}

NetLayer& LayerStack::add(NetLayer::Kind kind) {
  NetLayer layer;
  layer.kind = kind;
  if (kind != NetLayer::Kind::image) layer.name = prefix_ + '.' + std::to_string(named_++);
  return layers_.emplace_back(std::move(layer));
}

void LayerStack::image(bool channels_last) {
  TROUPE_CHECK(shape_.rank() == 2 || shape_.rank() == 3, shape_.text());
  if (shape_.rank() == 2)
    shape_ = shape_.prepended(1);
  else if (channels_last)
    shape_ = {shape_[2], shape_[0], shape_[1]};
  add(NetLayer::Kind::image).channels_last = channels_last;
}

void LayerStack::conv(const ConvSettings& settings, const std::string& path) {
  TROUPE_CHECK(shape_.rank() == 3, shape_.text());
  const auto& [channels, kernel, stride, padding] = settings;
  const int64_t inputs = shape_[0], height = shape_[1] + 2 * padding, width = shape_[2] + 2 * padding;
  if (kernel > std::min(height, width))
    throw ConfigError(path + ".kernel: " + std::to_string(kernel) + " is larger than its input of " +
                      std::to_string(shape_[1]) + " x " + std::to_string(shape_[2]) +
                      (padding > 0 ? " with padding " + std::to_string(padding) : ""));
  NetLayer& layer = add(NetLayer::Kind::conv);
  layer.stride = stride;
  layer.padding = padding;
  layout_.tensors.push_back({layer.name + ".bias", {channels}, group_});
  layout_.tensors.push_back({layer.name + ".weight", {channels, inputs, kernel, kernel}, group_, std::numbers::sqrt2});
  shape_ = {channels, (height - kernel) / stride + 1, (width - kernel) / stride + 1};
  layout_.units += shape_.elements();
}

// The initial values have a mean square of 1, as in torch.nn.Embedding.
void LayerStack::embedding(int64_t values, int64_t size) {
  const NetLayer& layer = add(NetLayer::Kind::embedding);
  const double gain = std::sqrt(static_cast<double>(std::max(values, size)));
  layout_.tensors.push_back({layer.name + ".weight", {values, size}, group_, gain});
  shape_ = {shape_.elements() * size};
  layout_.units += shape_.elements();
}

void LayerStack::linear(int64_t units) {
  const NetLayer& layer = add(NetLayer::Kind::linear);
  add_linear(layout_, layer.name, units, shape_.elements(), group_, std::numbers::sqrt2);
  shape_ = {units};
}

}  // namespace troupe
