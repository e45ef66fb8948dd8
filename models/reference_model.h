#pragma once
// ReferenceModel: a replica of the frozen policy that the trained one is kept close to. Plain arrays, so that there can
// be implementations without a model. One thread.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/weights/weights.h"

namespace troupe {

// Some answers to a prompt.
struct PromptAnswers {
  std::span<const int32_t> prompt;   // ids, at least one
  std::span<const int32_t> tokens;   // ids, answer after answer, each at least one
  std::span<const int64_t> offsets;  // [n + 1] where each answer begins in `tokens`
  // As MessageTokens (models/experience/answer_request.h).
  std::span<const int32_t> messages = {}, message_lengths = {};
};

class ReferenceModel {
 public:
  virtual ~ReferenceModel() = default;
  // Swaps in all tensors of the snapshot, or throws and keeps the old ones.
  virtual void load(const WeightSnapshot& weights) = 0;
  // The log-probability of each token of the answers, one prompt after the other. They do not depend on what else is
  // asked for at the same time.
  virtual std::vector<float> log_probs(std::span<const PromptAnswers> prompts) = 0;
};

}  // namespace troupe
