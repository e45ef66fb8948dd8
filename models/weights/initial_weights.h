#pragma once
// Whether weights that come from a file, of this run or another one, can be those of a model. Without LibTorch. Any
// thread.

#include <map>
#include <string>

#include "runtime/base/array.h"
#include "runtime/weights/weights.h"

namespace troupe {

// Throws ConfigError that names the first tensor that does not fit, and what the model has. A tensor does not fit when
// it is missing, unknown, of another dtype or shape or not finite, or holds statistics of a normaliser that are
// impossible or overflow.
void check_initial_weights(const Signature& model, const std::map<std::string, Array>& tensors);

// The same for weights with which a new run begins. A language model may lack its critic in them.
void check_given_weights(const Signature& model, const std::map<std::string, Array>& tensors);

// Whether the model has a critic and the weights none: the critic then begins as that of a new run.
bool begins_critic(const Signature& model, const std::map<std::string, Array>& tensors);

// Removes a critic that is not the model's: of another kind or shape, or one that the model lacks.
void leave_out_other_critic(const Signature& model, std::map<std::string, Array>& tensors);

}  // namespace troupe
