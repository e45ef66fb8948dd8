#pragma once
// Small random decoders for tests: shapes, weights, token ids.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "models/decoder/decoder.h"
#include "runtime/base/rng.h"

namespace troupe::test {

inline constexpr LmFamily kFamilies[] = {LmFamily::llama, LmFamily::qwen2, LmFamily::qwen3};

// Sizes that fill no vector, panel or block exactly.
inline LmShape tiny_shape(LmFamily family, uint64_t seed) {
  Rng random(derive_key(seed, "tiny shape", static_cast<uint64_t>(family)));
  const auto between = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random.below(static_cast<uint64_t>(high - low + 1)));
  };
  LmShape shape;
  shape.family = family;
  shape.vocabulary = between(20, 70);
  shape.hidden = between(10, 50);
  shape.layers = between(1, 3);
  shape.kv_heads = between(1, 3);
  shape.heads = shape.kv_heads * between(1, 3);
  shape.head_dim = 2 * between(2, 20);
  shape.intermediate = between(10, 80);
  shape.max_positions = 512;
  shape.rope_theta = 10000;
  shape.tied_embeddings = between(0, 1) == 1;
  shape.qkv_bias = family == LmFamily::qwen2;
  shape.qk_norm = family == LmFamily::qwen3;
  if (family == LmFamily::llama && between(0, 1) == 1) {
    shape.rope_scaling = RopeScaling::llama3;
    shape.rope_factor = 8;
    shape.rope_original_positions = 64;
  }
  return shape;
}

struct TinyModel {
  LmShape shape;
  std::map<std::string, std::vector<float>> values, gradients;

  TinyModel(const LmShape& of, uint64_t seed) : shape(of) {
    for (const LmTensor& tensor : lm_tensors(shape)) {
      Rng random(derive_key(seed, tensor.name));
      const float scale = tensor.shape.rank() == 2 ? 0.25f : 0.1f, shift = tensor.name.ends_with("norm.weight") ? 1 : 0;
      std::vector<float>& x = values[tensor.name];
      for (int64_t i = 0; i < tensor.shape.elements(); ++i) x.push_back(shift + scale * random.normal());
      gradients[tensor.name].assign(x.size(), 0.0f);
    }
  }
  DecoderWeights weights() const {
    return bind_decoder<const float>(shape,
                                     [&](const std::string& name) { return std::span<const float>(values.at(name)); });
  }
  DecoderGradients gradient_views() {
    return bind_decoder<float>(shape, [&](const std::string& name) { return std::span<float>(gradients.at(name)); });
  }
  void clear_gradients() {
    for (auto& [name, gradient] : gradients) std::ranges::fill(gradient, 0.0f);
  }
};

inline std::vector<int32_t> random_ids(const LmShape& shape, int64_t count, uint64_t seed) {
  Rng random(derive_key(seed, "ids"));
  std::vector<int32_t> result;
  for (int64_t i = 0; i < count; ++i)
    result.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(shape.vocabulary))));
  return result;
}

inline std::vector<float> random_floats(int64_t count, uint64_t seed) {
  Rng random(derive_key(seed, "floats"));
  std::vector<float> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(random.normal());
  return result;
}

// Unlike ==, tells 0 from -0, and finds NaN equal to itself.
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// A group of answers to one prompt, packed for training: [prompt][answer 1]...[answer n].
inline std::vector<LmSequence> group_sequences(int64_t prompt, const std::vector<int64_t>& answers) {
  std::vector<LmSequence> result = {{.tokens = prompt}};
  int64_t cell = prompt;
  for (const int64_t tokens : answers) {
    result.push_back({.tokens = tokens, .prefix_begin = 0, .prefix_end = prompt, .own_begin = cell});
    cell += tokens;
  }
  return result;
}

}  // namespace troupe::test
