#pragma once
// Small random decoders with adapters, for tests.

#include <memory>

#include "models/lm/lm_weights.h"
#include "tests/models/decoder/tiny_models.h"

namespace troupe::test {

// With an adapter of every linear layer.
inline LmModel lora_model(const LmShape& shape, int64_t rank, double alpha) {
  LmModel model(shape);
  model.lora.rank = rank;
  model.lora.alpha = alpha;
  model.lora.targets.fill(true);
  auto frozen = std::make_shared<FrozenWeights>(WeightBlock(lm_signature(shape)), "0123456789abcdef");
  const TinyModel tiny(shape, 11);
  for (const auto& [name, values] : tiny.values) std::ranges::copy(values, frozen->weights.floats(name).begin());
  model.frozen = frozen;
  return model;
}

inline void fill_adapters(const LmModel& model, WeightBlock& adapters, uint64_t seed) {
  for (const LmTensor& tensor : lora_tensors(model.shape, model.lora)) {
    Rng random(derive_key(seed, tensor.name));
    for (float& x : adapters.floats(tensor.name)) x = 0.2f * random.normal();
  }
}

// Weights of this version, which differ from those of every other number: adapters, or all of them.
inline WeightsPtr random_weights(const LmModel& model, PolicyVersion version) {
  WeightBlock block(lm_signature(model));
  if (model.lora.used()) {
    fill_adapters(model, block, version.number);
  } else {
    const TinyModel tiny(model.shape, version.number);
    for (const auto& [name, values] : tiny.values) std::ranges::copy(values, block.floats(name).begin());
  }
  return block.snapshot(version);
}

}  // namespace troupe::test
