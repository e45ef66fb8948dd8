#pragma once
// Weights for tests: one float tensor in which every element is the number of the version.

#include <algorithm>
#include <memory>

#include "runtime/weights/weights.h"

namespace troupe::test {

inline std::shared_ptr<const Signature> signature_of(int64_t floats) {
  return std::make_shared<const Signature>(Signature{{{TensorGroup::policy, "w", {floats}, DType::f32}}});
}

inline WeightsPtr weights_of(const std::shared_ptr<const Signature>& signature, PolicyVersion version) {
  WeightSnapshot snapshot{version, signature, Array(DType::u8, {static_cast<int64_t>(signature->total_bytes())})};
  if (!signature->tensors.empty()) {
    Array tensor = snapshot.tensor(0);
    auto values = tensor.mutable_view<float>();
    std::fill(values.begin(), values.end(), static_cast<float>(version.number));
  }
  return std::make_shared<const WeightSnapshot>(std::move(snapshot));
}

// Whether every element is the number of the version.
inline bool whole(const WeightsPtr& weights) {
  const Array tensor = weights->tensor(0);
  const auto values = tensor.view<float>();
  return std::all_of(values.begin(), values.end(),
                     [&](float v) { return v == static_cast<float>(weights->version.number); });
}

}  // namespace troupe::test
