#pragma once
// PackedDecoder: the weights of a decoder in the form that its forward pass multiplies with. Decoders with the same
// weights can share one. Made by one thread; constant from then on, for any thread.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "models/decoder/buffer.h"
#include "models/decoder/decoder_tensors.h"
#include "models/decoder/lm_shape.h"
#include "models/decoder/matrix_product.h"
#include "models/decoder/parallel_for.h"

namespace troupe {

// The products of a layer with its weights: queries, keys and values, the output of attention, gate and up, and down.
enum class LayerProduct : uint8_t { qkv = 0, output = 1, gate_up = 2, down = 3 };
inline constexpr std::array kLayerProducts = {LayerProduct::qkv, LayerProduct::output, LayerProduct::gate_up,
                                              LayerProduct::down};

struct PackedLayer {
  std::array<PackedWeights, kLayerProducts.size()> of;  // by LayerProduct

  const PackedWeights& operator[](LayerProduct product) const { return of[static_cast<size_t>(product)]; }
};

// Packs the matrices of one product.
void pack(const LmShape& shape, const LayerTensors<const float>& weights, LayerProduct product, PackedWeights& to,
          ParallelFor& parallel);

class PackedDecoder {
 public:
  // Packs the matrices of all layers and the output layer, unless that is empty.
  void pack(const LmShape& shape, const DecoderWeights& weights, ParallelFor& parallel);
  // Copies what else a forward pass needs, so that it needs no other weights: norms, biases, and the embedding unless
  // it is the output layer that pack() has packed.
  void keep_rest(const DecoderWeights& weights);

  const std::vector<PackedLayer>& layers() const { return layers_; }
  const PackedWeights& output() const { return output_; }
  // What keep_rest() has copied; everything else is empty.
  const DecoderWeights& rest() const { return rest_; }

 private:
  void keep(std::span<const float> values, std::span<const float>& copy);

  std::vector<PackedLayer> layers_;
  PackedWeights output_;
  DecoderWeights rest_;
  std::vector<FloatBuffer> copies_;
};

}  // namespace troupe
