#include "sim/fake_weights.h"

#include <algorithm>
#include <string>

#include "sim/fakes.h"

namespace troupe::sim {

namespace {

int64_t code_of(PolicyVersion version) {
  return (static_cast<int64_t>(version.epoch) << 32) | static_cast<int64_t>(version.number);
}

// The number that a reference has in place of that of its weights.
int64_t reference_origin(int64_t origin) { return -1 - origin; }

void check_tensors(World& world, const WeightSnapshot& weights, int64_t origin, const std::string& other_origin) {
  const Signature& signature = *fake_signature();
  for (size_t i = 0; i < signature.tensors.size(); ++i) {
    const Array tensor = weights.tensor(i);
    const bool says_origin = signature.tensors[i].name == kOrigin;
    const int64_t expected = says_origin ? origin : code_of(weights.version);
    for (const int64_t number : tensor.view<int64_t>())
      if (number != expected)
        return world.violate("weights " + weights.version.text() +
                             (says_origin ? other_origin : " contain tensors of several versions"));
  }
}

}  // namespace

std::shared_ptr<const Signature> fake_signature() {
  static const auto signature =
      std::make_shared<const Signature>(Signature{{{TensorGroup::policy, "a", {3}, DType::i64},
                                                   {TensorGroup::policy, "b", {17}, DType::i64},
                                                   {TensorGroup::policy, kOrigin, {1}, DType::i64},
                                                   {TensorGroup::buffer, "c", {1}, DType::i64}}});
  return signature;
}

WeightsPtr fake_weights(PolicyVersion version, PolicyVersion other, int64_t origin) {
  auto snapshot = std::make_shared<WeightSnapshot>();
  snapshot->version = version;
  snapshot->signature = fake_signature();
  snapshot->flat = Array(DType::u8, {static_cast<int64_t>(snapshot->signature->total_bytes())});
  for (size_t i = 0; i < snapshot->signature->tensors.size(); ++i) {
    Array tensor = snapshot->tensor(i);
    const bool last = i + 1 == snapshot->signature->tensors.size();
    const bool says_origin = snapshot->signature->tensors[i].name == kOrigin;
    std::ranges::fill(tensor.mutable_view<int64_t>(), says_origin ? origin : code_of(last ? other : version));
  }
  return snapshot;
}

WeightsPtr reference_weights(PolicyVersion version, int64_t origin) {
  return fake_weights(version, version, reference_origin(origin));
}

bool is_reference(const WeightSnapshot& weights) {
  const auto& tensors = weights.signature->tensors;
  const auto origin = std::ranges::find(tensors, kOrigin, &TensorSpec::name);
  return weights.tensor(static_cast<size_t>(origin - tensors.begin())).view<int64_t>()[0] < 0;
}

void check_weights(World& world, const WeightSnapshot& weights) {
  check_tensors(world, weights, world.scenario.given_weights, " do not come from the weights given to the run");
}

void check_reference_weights(World& world, const WeightSnapshot& weights) {
  check_tensors(world, weights, reference_origin(world.scenario.given_weights), " are not those of the reference");
}

}  // namespace troupe::sim
