#pragma once
// LayerStack: describes layers one after another, with the shape of one sample between them and their tensors. A
// description only: models/torch/net_layers.h computes it. No LibTorch. Used by one thread at a time.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/networks/network_layout.h"

namespace troupe {

struct NetLayer {
  enum class Kind : uint8_t {
    image,      // of numbers or bytes (divided by 255) as float32 [B, C, H, W]
    conv,       // with the activation
    embedding,  // of integers: [B, n] -> [B, n * size]; a number that is not one of the values becomes NaN
    linear,     // flattens its input; with the activation
  };
  Kind kind = Kind::linear;
  std::string name;            // of its tensors, `name`.weight and `name`.bias
  bool channels_last = false;  // image: the samples are [H, W, C]
  int64_t stride = 1;          // conv
  int64_t padding = 0;         // conv: zeros around the image

  friend bool operator==(const NetLayer&, const NetLayer&) = default;
};

struct ConvSettings {
  int64_t channels = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
};

class LayerStack {
 public:
  // Layers called `prefix`.0, `prefix`.1 and so on, for samples of shape `input`. Their tensors, of `group`, are added
  // to `layout`, which must outlive this.
  LayerStack(NetworkLayout& layout, std::string prefix, Shape input, TensorGroup group);

  // The sample as an image, [H, W, C], [C, H, W] or, of rank 2, one channel of [H, W]. Comes before conv().
  void image(bool channels_last);
  // Throws ConfigError "`path`.kernel: ..." when the kernel is larger than its input.
  void conv(const ConvSettings& settings, const std::string& path);
  void embedding(int64_t values, int64_t size);
  void linear(int64_t units);

  // Of one sample now; an image is [C, H, W].
  const Shape& shape() const { return shape_; }
  int64_t width() const { return shape_.elements(); }
  std::vector<NetLayer> take() { return std::move(layers_); }

 private:
  NetLayer& add(NetLayer::Kind kind);

  NetworkLayout& layout_;
  std::string prefix_;
  Shape shape_;
  TensorGroup group_;
  std::vector<NetLayer> layers_;
  int64_t named_ = 0;
};

}  // namespace troupe
