#include "models/decoder/decoder.h"

#include <algorithm>
#include <utility>

#include "models/decoder/norm_rows.h"
#include "runtime/base/errors.h"

namespace troupe {
size_t Activations::bytes() const {
  size_t result = inverse.bytes();
  for (const FloatBuffer& buffer : inputs) result += buffer.bytes();
  for (const LayerActivations& layer : layers) result += layer.bytes();
  return result;
}

Decoder::Decoder(const LmShape& shape, ParallelFor& parallel) : shape_(shape), parallel_(parallel), rope_(shape) {
  check_lm_shape(shape, "decoder");
  layers_.resize(static_cast<size_t>(shape.layers));
}

void Decoder::load(const DecoderWeights& weights) {
  packed_ = nullptr;
  output_.pack({&weights.output, 1}, shape_.hidden, parallel_);
  use(weights);
}

void Decoder::load(std::shared_ptr<const PackedDecoder> packed) {
  TROUPE_CHECK(packed->layers().size() == layers_.size(), packed->layers().size(), layers_.size());
  output_ = {};
  packed_ = std::move(packed);
  use(packed_->rest());
}

void Decoder::use(const DecoderWeights& weights) {
  TROUPE_CHECK(weights.layers.size() == layers_.size(), weights.layers.size(), layers_.size());
  weights_ = weights;
  for (size_t i = 0; i < layers_.size(); ++i)
    layers_[i].load(shape_, weights.layers[i], packed_ ? &packed_->layers()[i] : nullptr, parallel_);
}

void Decoder::release() {
  packed_ = nullptr;
  weights_ = {};
}

void Decoder::load_adapters(const DecoderWeights& weights) {
  TROUPE_CHECK(weights_.layers.size() == layers_.size(), "load() comes first");
  TROUPE_CHECK(weights.layers.size() == layers_.size(), weights.layers.size(), layers_.size());
  for (size_t i = 0; i < layers_.size(); ++i) weights_.layers[i].lora = weights.layers[i].lora;
  use_adapters(true);
}

void Decoder::use_adapters(bool used) {
  const LayerTensors<const float> none;
  for (size_t i = 0; i < layers_.size(); ++i)
    layers_[i].load_adapters(shape_, used ? weights_.layers[i] : none, parallel_);
}

void Decoder::embed(const LmBatch& batch, float* x) {
  TROUPE_CHECK(!weights_.layers.empty(), "load() comes first");
  for_parts(batch.tokens(), rows_per_part(shape_.hidden), parallel_, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      const int32_t id = batch.ids[static_cast<size_t>(i)];
      if (id == kGivenInput) continue;
      if (weights_.embedding.empty())
        output().unpack(id, x + i * shape_.hidden);
      else
        std::copy_n(weights_.embedding.data() + id * shape_.hidden, shape_.hidden, x + i * shape_.hidden);
    }
  });
  const float* given = batch.given.data();
  if (batch.given.empty()) return;
  for (int64_t i = 0; i < batch.tokens(); ++i) {
    if (batch.ids[static_cast<size_t>(i)] != kGivenInput) continue;
    std::copy_n(given, shape_.hidden, x + i * shape_.hidden);
    given += shape_.hidden;
  }
}

void Decoder::forward(const LmBatch& batch, KvStore& store, std::span<float> hidden) {
  TROUPE_CHECK(store.layers.size() == layers_.size(), store.layers.size(), layers_.size());
  TROUPE_CHECK(static_cast<int64_t>(hidden.size()) == batch.tokens() * shape_.hidden, hidden.size(), batch.tokens());
  rope_.grow(check_batch(batch, shape_, store.layers.front().cells()));
  x_.resize(batch.tokens() * shape_.hidden);
  inverse_.resize(batch.tokens());
  embed(batch, x_.data());
  const std::vector<TokenPlace> places = token_places(batch);
  const LayerPass pass{shape_, rope_, batch, places, scratch_, parallel_};
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].compute(pass, x_.data(), store.layers[i], work_);
    layers_[i].finish(pass, work_, x_.data());
  }
  norm_rows(shape_, x_.data(), weights_.norm, batch.tokens(), inverse_.data(), hidden.data(), parallel_);
}

void Decoder::check_training(const LmBatch& batch) const {
  int64_t cell = 0;
  for (const LmSequence& s : batch.sequences) {
    TROUPE_CHECK(s.own_begin == cell && s.own_before == 0, "own_begin", s.own_begin, "own_before", s.own_before,
                 "first token", cell);
    TROUPE_CHECK(s.prefix_end <= cell, "prefix_end", s.prefix_end, "first token", cell);
    cell += s.tokens;
  }
}

void Decoder::forward_training(const LmBatch& batch, Activations& activations, std::span<float> hidden) {
  const int64_t tokens = batch.tokens();
  TROUPE_CHECK(static_cast<int64_t>(hidden.size()) == tokens * shape_.hidden, hidden.size(), tokens);
  rope_.grow(check_batch(batch, shape_, tokens));
  check_training(batch);
  activations.recompute = tokens > activations.recompute_above;
  const size_t kept = activations.recompute ? 1 : layers_.size();
  activations.inputs.resize(layers_.size() + 1);
  activations.layers.resize(kept);
  if (activations.cells.size() != kept || activations.cells.front().cells() < tokens) {
    activations.cells.clear();
    for (size_t i = 0; i < kept; ++i) activations.cells.emplace_back(shape_, tokens);
  }
  for (FloatBuffer& input : activations.inputs) input.resize(tokens * shape_.hidden);
  activations.inverse.resize(tokens);
  embed(batch, activations.inputs.front().data());
  const std::vector<TokenPlace> places = token_places(batch);
  const LayerPass pass{shape_, rope_, batch, places, scratch_, parallel_};
  for (size_t i = 0; i < layers_.size(); ++i) {
    const size_t at = activations.recompute ? 0 : i;
    layers_[i].compute(pass, activations.inputs[i].data(), activations.cells[at], activations.layers[at]);
    layers_[i].finish(pass, activations.layers[at], activations.inputs[i + 1].data());
  }
  norm_rows(shape_, activations.inputs.back().data(), weights_.norm, tokens, activations.inverse.data(), hidden.data(),
            parallel_);
}

void Decoder::backward(const LmBatch& batch, Activations& activations, std::span<const float> d_hidden,
                       const DecoderGradients& gradients, std::span<float> d_given, const LayerComplete& complete) {
  const int64_t tokens = batch.tokens(), hidden = shape_.hidden;
  TROUPE_CHECK(static_cast<int64_t>(d_hidden.size()) == tokens * hidden, d_hidden.size(), tokens);
  TROUPE_CHECK(activations.inputs.size() == layers_.size() + 1 && activations.inverse.size() == tokens,
               "activations of another batch", activations.inverse.size(), tokens);
  d_.resize(tokens * hidden);
  norm_rows_backward(shape_, activations.inputs.back().data(), weights_.norm, activations.inverse.data(),
                     d_hidden.data(), tokens, false, d_.data(), gradients.norm, parallel_);
  const std::vector<TokenPlace> places = token_places(batch);
  const LayerPass pass{shape_, rope_, batch, places, scratch_, parallel_};
  for (size_t i = layers_.size(); i-- > 0;) {
    const size_t at = activations.recompute ? 0 : i;
    const float* x = activations.inputs[i].data();
    if (activations.recompute) layers_[i].compute(pass, x, activations.cells[at], activations.layers[at]);
    layers_[i].backward(pass, x, activations.cells[at], activations.layers[at], d_.data(), gradients.layers[i]);
    if (complete) complete(gradients.layers[i]);
  }
  embed_backward(batch, gradients, d_given);
}

// From the gradient of the first layer's input, d_.
void Decoder::embed_backward(const LmBatch& batch, const DecoderGradients& gradients, std::span<float> d_given) {
  const int64_t tokens = batch.tokens(), hidden = shape_.hidden;
  if (!d_given.empty()) {
    TROUPE_CHECK(d_given.size() == batch.given.size(), d_given.size(), batch.given.size());
    float* out = d_given.data();
    for (int64_t i = 0; i < tokens; ++i)
      if (batch.ids[static_cast<size_t>(i)] == kGivenInput) out = std::copy_n(d_.data() + i * hidden, hidden, out);
  }
  if (gradients.embedding.empty()) return;
  const LmKernels& kernels = lm_kernels();
  for_parts(hidden, columns_per_part(tokens), parallel_, [&](int64_t from, int64_t to) {
    for (int64_t i = 0; i < tokens; ++i) {
      const int32_t id = batch.ids[static_cast<size_t>(i)];
      if (id != kGivenInput)
        kernels.add(d_.data() + i * hidden + from, to - from, gradients.embedding.data() + id * hidden + from);
    }
  });
}

void Decoder::logits(std::span<const float> hidden, std::span<float> logits) {
  const int64_t rows = static_cast<int64_t>(hidden.size()) / shape_.hidden;
  TROUPE_CHECK(static_cast<int64_t>(logits.size()) == rows * shape_.vocabulary, logits.size(), rows);
  multiply_packed({hidden.data(), rows, shape_.hidden, shape_.hidden}, output(), logits.data(), shape_.vocabulary,
                  parallel_);
}

// d_hidden = d_logits W. In parts of the vocabulary where W is only packed; each continues the chains of the one
// before.
void Decoder::multiply_output(const MatrixView& d_logits, std::span<float> d_hidden) {
  constexpr int64_t kPart = 4096;
  const int64_t hidden = shape_.hidden, vocabulary = shape_.vocabulary;
  if (!weights_.output.empty())
    return multiply_rows(d_logits, {weights_.output.data(), vocabulary, hidden, hidden}, d_hidden.data(), hidden, false,
                         parallel_);
  for (int64_t first = 0; first < vocabulary; first += kPart) {
    const int64_t count = std::min(kPart, vocabulary - first);
    scratch_.rows.resize(count * hidden);
    output().unpack(first, count, scratch_.rows.data(), parallel_);
    multiply_rows({d_logits.data + first, d_logits.rows, count, d_logits.stride},
                  {scratch_.rows.data(), count, hidden, hidden}, d_hidden.data(), hidden, first > 0, parallel_);
  }
}

void Decoder::logits_backward(std::span<const float> hidden, std::span<const float> d_logits, std::span<float> d_hidden,
                              const DecoderGradients& gradients) {
  const int64_t rows = static_cast<int64_t>(hidden.size()) / shape_.hidden;
  TROUPE_CHECK(static_cast<int64_t>(d_logits.size()) == rows * shape_.vocabulary && d_hidden.size() == hidden.size(),
               d_logits.size(), d_hidden.size(), rows);
  const MatrixView d{d_logits.data(), rows, shape_.vocabulary, shape_.vocabulary};
  multiply_output(d, d_hidden);
  if (gradients.output.empty()) return;
  add_outer_products(d, {hidden.data(), rows, shape_.hidden, shape_.hidden}, gradients.output.data(), parallel_);
}

}  // namespace troupe
