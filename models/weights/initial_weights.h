#pragma once
// Whether the weights of another run, or of a file, can be the first weights of a model. Without LibTorch. Any thread.

#include <map>
#include <string>

#include "runtime/base/array.h"
#include "runtime/weights/weights.h"

namespace troupe {

// Throws ConfigError that names the first tensor which does not fit, and what the model has: one that is missing, of
// another dtype or shape, left over or not finite, or statistics of a normaliser that are impossible or overflow.
void check_initial_weights(const Signature& model, const std::map<std::string, Array>& tensors);

}  // namespace troupe
