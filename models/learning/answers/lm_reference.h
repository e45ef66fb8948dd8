#pragma once
// The ReferenceModel of a token run: a decoder on the CPU. Its log-probabilities have the bits that the trainer
// computes with the same weights. One thread at a time, which computes on the threads of its own ParallelFor.

#include <cstdint>
#include <memory>

#include "models/lm/lm_model.h"
#include "models/reference_model.h"

namespace troupe {

struct LmReferenceOptions {
  double temperature = 1.0;     // above 0
  int64_t batch_tokens = 4096;  // most tokens of one pass, unless a single answer with its prompt has more
  int threads = 1;
};

// Computes nothing before the first load().
std::unique_ptr<ReferenceModel> make_lm_reference(const LmModel& model, const LmReferenceOptions& options);

}  // namespace troupe
