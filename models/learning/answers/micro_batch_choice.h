#pragma once
// How much of a minibatch of answers one forward and backward pass takes, and whether the pass keeps the activations of
// all layers: what the config leaves open is chosen from the model's sizes, never from the machine, so that a run gives
// the same results everywhere. Pure functions; any thread.

#include <cstdint>
#include <string>

#include "models/decoder/lm_shape.h"
#include "models/learning/trainer_config.h"

namespace troupe {

struct MicroBatchChoice {
  int64_t tokens = 0;           // most tokens of a micro-batch; 0 = the whole minibatch
  int64_t recompute_above = 0;  // as Activations::recompute_above
  bool recompute = false;       // of a micro-batch with that many tokens
  int64_t bytes = 0;            // of its activations
};

// What else the choice depends on.
struct MicroBatchNeeds {
  int64_t longest = 1;           // tokens of the longest prompt with an answer, which one pass must hold
  bool whole_minibatch = false;  // the loss compares all tokens of a minibatch, which is one pass then
};

// The most that the activations of a micro-batch may take unless the config says otherwise: 128 MiB, or half of the
// model's size if that is more.
int64_t activation_budget(const LmShape& shape);

MicroBatchChoice choose_micro_batch(const LmShape& shape, const TrainerConfig& config, const MicroBatchNeeds& needs);

// "micro-batches of up to 3,396 tokens, of 3,841 that are allowed". `largest` tokens has the largest one of the run,
// whose layers are recomputed if `recompute` says so.
std::string text_of(const MicroBatchChoice& choice, int64_t largest, bool recompute);

}  // namespace troupe
