#pragma once
// The weights of a simulated run: every number in them says which version they are, or where they come from. One
// thread.

#include <cstdint>
#include <memory>

#include "runtime/base/version.h"
#include "runtime/weights/weights.h"

namespace troupe::sim {

class World;

// The tensor that contains the number of the weights that the run started from, see Scenario::given_weights.
inline constexpr const char* kOrigin = "origin";

std::shared_ptr<const Signature> fake_signature();
// A snapshot whose tensors contain `version`, the last one `other`, and the number of the weights they come from.
WeightsPtr fake_weights(PolicyVersion version, PolicyVersion other, int64_t origin = 0);
// Those of the reference of a run that started from the weights `origin`.
WeightsPtr reference_weights(PolicyVersion version, int64_t origin);
bool is_reference(const WeightSnapshot& weights);

// Checks that the tensors of a snapshot belong together and come from the weights that the run was given.
void check_weights(World& world, const WeightSnapshot& weights);
// The same of the reference.
void check_reference_weights(World& world, const WeightSnapshot& weights);

}  // namespace troupe::sim
