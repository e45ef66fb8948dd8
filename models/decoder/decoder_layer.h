#pragma once
// DecoderLayer: one layer of a decoder, forward and backward: x + attention(norm(x)), then that + swiglu(norm(that)).
// Owned by a Decoder; one thread at a time.

#include <cstdint>
#include <span>

#include "models/decoder/attention.h"
#include "models/decoder/batch.h"
#include "models/decoder/decoder_tensors.h"
#include "models/decoder/kv_store.h"
#include "models/decoder/lora_linear.h"
#include "models/decoder/matrix_product.h"
#include "models/decoder/packed_decoder.h"
#include "models/decoder/rope_table.h"

namespace troupe {

// What a layer computes between its input and its output, kept for the backward pass. P tokens.
struct LayerActivations {
  FloatBuffer inverse;       // [P] of the first norm
  FloatBuffer unrotated;     // [P, (heads + kv_heads) * head_dim] queries and keys before their norm; only with qk_norm
  FloatBuffer head_inverse;  // [P, heads + kv_heads] of those norms
  FloatBuffer qkv;           // [P, (heads + 2 kv_heads) * head_dim]: queries and keys rotated, values
  AttentionState attention;
  FloatBuffer attended;      // [P, heads * head_dim]
  FloatBuffer middle;        // [P, hidden] after attention
  FloatBuffer post_inverse;  // [P] of the second norm
  FloatBuffer gate_up;       // [P, 2 intermediate]

  size_t bytes() const;
};

// Memory that all layers share.
struct LayerScratch {
  FloatBuffer normed;      // [P, hidden]
  FloatBuffer activation;  // [P, intermediate]
  FloatBuffer rows;        // [outputs, inputs] of a matrix of a layer that has it only packed
  PackedWeights packed;    // of a layer that has no packed form
  LoraScratch lora;
  // Gradients.
  FloatBuffer d_normed;      // [P, hidden]
  FloatBuffer d_attended;    // [P, heads * head_dim]
  FloatBuffer d_qkv;         // [P, (heads + 2 kv_heads) * head_dim]
  FloatBuffer d_activation;  // [P, intermediate]
  FloatBuffer d_gate_up;     // [P, 2 intermediate]
};

// What every layer of a pass gets.
struct LayerPass {
  const LmShape& shape;
  const RopeTable& rope;
  const LmBatch& batch;
  std::span<const TokenPlace> places;  // of the batch's tokens
  LayerScratch& scratch;
  ParallelFor& parallel;
};

class DecoderLayer {
 public:
  // The weights, which stay in use until the next load(): matrices, which are then packed for each pass, or `packed`,
  // which backward() unpacks. Packs the adapters.
  void load(const LmShape& shape, const LayerTensors<const float>& weights, const PackedLayer* packed,
            ParallelFor& parallel);

  // Packs the adapters of these weights, whose other tensors are those of the last load().
  void load_adapters(const LmShape& shape, const LayerTensors<const float>& weights, ParallelFor& parallel);

  // Everything up to the SwiGLU's inputs: fills `a` and the cells of the batch's tokens. x: [P, hidden].
  void compute(const LayerPass& pass, const float* x, KvLayer& cells, LayerActivations& a) const;
  // The layer's output from what compute() has filled in. out: [P, hidden], may be its x.
  void finish(const LayerPass& pass, const LayerActivations& a, float* out) const;

  // Adds the gradients of the parameters. d: [P, hidden]: the gradient of the output, replaced by that of x. The
  // batch's token i has cell i.
  void backward(const LayerPass& pass, const float* x, const KvLayer& cells, const LayerActivations& a, float* d,
                const LayerTensors<float>& gradients) const;

 private:
  // Valid until the next call.
  const PackedWeights& packed(const LayerPass& pass, LayerProduct product) const;
  // The matrix `loaded` [outputs, inputs], which is empty if there is only the packed form, where it begins at output
  // `first`. Valid until the next call.
  MatrixView rows_of(const LayerPass& pass, std::span<const float> loaded, const LinearSize& size, LayerProduct product,
                     int64_t first = 0) const;
  const LoraLinear& adapter(LmLinear linear) const { return adapters_[static_cast<size_t>(linear)]; }
  void finish_heads(const LayerPass& pass, KvLayer& cells, LayerActivations& a) const;
  void backward_swiglu(const LayerPass& pass, const LayerActivations& a, float* d,
                       const LayerTensors<float>& gradients) const;
  void backward_attention(const LayerPass& pass, const KvLayer& cells, const LayerActivations& a, const float* d,
                          const LayerTensors<float>& gradients) const;
  void backward_heads(const LayerPass& pass, const LayerActivations& a, const LayerTensors<float>& gradients) const;
  void backward_inputs(const LayerPass& pass, const float* x, const LayerActivations& a, float* d,
                       const LayerTensors<float>& gradients) const;

  LayerTensors<const float> weights_;
  const PackedLayer* packed_ = nullptr;
  std::array<LoraLinear, kLmLinears> adapters_;  // by LmLinear
};

}  // namespace troupe
