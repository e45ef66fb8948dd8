#pragma once
// LmGenerator: a decoder on the CPU that samples tokens. Its log-probabilities have the bits that a learner computes
// for the same tokens with the same weights. One thread at a time, which computes on the threads of its own
// ParallelFor.

#include <memory>

#include "models/generator.h"
#include "models/lm/lm_model.h"

namespace troupe {

struct LmGeneratorOptions {
  int64_t prompt_slots = 8, prompt_tokens = 64;  // slots, and the tokens that fit into one
  int64_t answer_slots = 64, answer_tokens = 64;
  double temperature = 1.0;  // above 0
  int threads = 1;
};

// Serves nothing before the first load(). Throws ConfigError when a prompt and an answer together are longer than the
// positions of the model.
std::unique_ptr<Generator> make_lm_generator(const LmModel& model, const LmGeneratorOptions& options);

}  // namespace troupe
