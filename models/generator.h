#pragma once
// Generator: a replica of a language model that samples tokens. It keeps the keys and values of past tokens in slots:
// one slot for each prompt in progress, and one for each answer. Who uses it decides which slot holds what
// (actors/experience/answers/generation_scheduler.h). Plain arrays, so that there can be implementations without a
// model. One thread.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/version.h"
#include "runtime/weights/weights.h"

namespace troupe {

// Token `index` of an answer is drawn from the random stream of (key, index) alone, whatever the batch.
struct TokenDraw {
  uint64_t key = 0;
  int64_t index = 0;
  bool greedy = false;  // the most likely token; its log-probability is that of sampling it
};

// Consecutive tokens of a prompt or of an answer, to be computed in one pass.
struct GeneratorPart {
  int32_t prompt = 0;                // slot of the prompt
  int32_t answer = -1;               // slot of the answer, or -1: the tokens belong to the prompt
  std::span<const int32_t> tokens;   // at least one
  int64_t before = 0;                // tokens of the prompt or of the answer that were computed already
  int64_t prompt_tokens = 0;         // of the whole prompt; only with an answer
  std::span<const TokenDraw> draws;  // tokens to draw after the last one
};

// The oldest and the newest weights that made some keys and values.
struct CellVersions {
  PolicyVersion oldest, newest;
};

struct DrawnToken {
  int32_t token = 0;
  float log_prob = 0;
  CellVersions cells = {};  // of the keys and values from which it was drawn
};

class Generator {
 public:
  virtual ~Generator() = default;

  virtual std::shared_ptr<const Signature> signature() const = 0;
  // Swaps in all tensors of the snapshot, or throws and keeps the old ones. What the slots hold stays as it is.
  virtual void load(const WeightSnapshot& weights) = 0;
  virtual int64_t prompt_slots() const = 0;
  virtual int64_t answer_slots() const = 0;
  // Computes the parts in one pass and returns the tokens of all draws, part after part. Throws on non-finite logits.
  virtual std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) = 0;
};

}  // namespace troupe
