#pragma once
// Decoder: a decoder transformer (Llama, Qwen2, Qwen3) on the CPU in float32. Owned by a generator or a learner; one
// thread at a time, which computes on the threads of its ParallelFor.
//
// Generating token by token, computing a prompt at once, and the forward pass of training give the same bits for the
// same tokens before them: a token's results depend neither on the rest of the batch, nor on cells, threads or
// instruction set.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/decoder/batch.h"
#include "models/decoder/decoder_layer.h"
#include "models/decoder/decoder_tensors.h"
#include "models/decoder/kv_store.h"
#include "models/decoder/lm_shape.h"
#include "models/decoder/packed_decoder.h"
#include "models/decoder/parallel_for.h"
#include "models/decoder/rope_table.h"

namespace troupe {

// What a training forward keeps for its backward. Reused from one pass to the next of the same decoder.
struct Activations {
  // Above this many tokens only each layer's input is kept, and the backward pass computes the layers again. The
  // gradients have the same bits either way.
  int64_t recompute_above = INT64_MAX;

  std::vector<FloatBuffer> inputs;       // [layers + 1][P, hidden]: each layer's input, and the last output
  std::vector<LayerActivations> layers;  // one per layer, or a single one that every layer overwrites
  std::vector<KvLayer> cells;            // likewise
  FloatBuffer inverse;                   // [P] of the last norm
  bool recompute = false;                // in the last forward

  // Of activations; the cells are not counted.
  size_t bytes() const;
};

class Decoder {
 public:
  // Throws ConfigError that begins with "decoder" unless check_lm_shape() accepts the shape. `parallel` must outlive
  // this.
  Decoder(const LmShape& shape, ParallelFor& parallel);

  const LmShape& shape() const { return shape_; }

  // Uses these weights from now on. Their memory must stay valid and unchanged until the next load(). Of the matrices
  // only the output layer is packed here; those of layers are packed for each pass, which spares the memory of packed
  // copies: on one thread, training has 0.94 of the speed that it has with these, and on two the same.
  void load(const DecoderWeights& weights);
  // The same with a packed form on which keep_rest() was called, and which others may use too. There is no gradient of
  // the matrices, and backward() unpacks them.
  void load(std::shared_ptr<const PackedDecoder> packed);
  // Gives up the packed form. The next use comes after load().
  void release();

  // Uses the adapters of these weights, whose other tensors are those of the last load().
  void load_adapters(const DecoderWeights& weights);
  // Whether adapters count; the decoder without them is the frozen model.
  void use_adapters(bool used);

  // Computes the batch's tokens and stores their keys and values. hidden: [P, hidden] after the last norm.
  void forward(const LmBatch& batch, KvStore& store, std::span<float> hidden);

  // The same with activations for backward(). Token i has cell i: the sequences' own ranges follow each other from cell
  // 0 on with own_before 0; a prefix is the cells of a sequence before.
  void forward_training(const LmBatch& batch, Activations& activations, std::span<float> hidden);
  // Adds the gradients of all parameters but the output layer, except those that are empty. The batch and the
  // activations are those of the last forward_training(). d_hidden: [P, hidden]. d_given: written, laid out as the
  // batch's given inputs, or empty. `complete`, if there is one, is called with each layer whose gradients were added.
  using LayerComplete = std::function<void(const LayerTensors<float>& gradients)>;
  void backward(const LmBatch& batch, Activations& activations, std::span<const float> d_hidden,
                const DecoderGradients& gradients, std::span<float> d_given = {}, const LayerComplete& complete = {});

  // Logits of rows of `hidden`. hidden: [R, hidden]; logits: [R, vocabulary].
  void logits(std::span<const float> hidden, std::span<float> logits);
  // Adds the gradient of the output layer; writes d_hidden: [R, hidden]. Two calls with parts of the rows give the bits
  // of one call with all of them.
  void logits_backward(std::span<const float> hidden, std::span<const float> d_logits, std::span<float> d_hidden,
                       const DecoderGradients& gradients);

 private:
  void use(const DecoderWeights& weights);
  const PackedWeights& output() const { return packed_ ? packed_->output() : output_; }
  void embed(const LmBatch& batch, float* x);
  void embed_backward(const LmBatch& batch, const DecoderGradients& gradients, std::span<float> d_given);
  void check_training(const LmBatch& batch) const;
  void multiply_output(const MatrixView& d_logits, std::span<float> d_hidden);

  LmShape shape_;
  ParallelFor& parallel_;
  RopeTable rope_;
  DecoderWeights weights_;
  std::vector<DecoderLayer> layers_;
  std::shared_ptr<const PackedDecoder> packed_;  // null: the matrices are in weights_ and output_
  PackedWeights output_;
  LayerScratch scratch_;
  LayerActivations work_;  // of forward()
  FloatBuffer x_, inverse_, d_;
};

}  // namespace troupe
