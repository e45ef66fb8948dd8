#pragma once
// What is counted of samples that are made of tokens. Plain values; any thread.

#include <algorithm>
#include <cstdint>

namespace troupe {

struct SampleTokens {
  uint64_t samples = 0;
  uint64_t tokens = 0;
  uint64_t cut = 0;         // of the samples, that reached generation.max_tokens
  uint64_t turns = 0;       // of all samples together
  uint64_t most_turns = 0;  // of one of them

  SampleTokens& operator+=(const SampleTokens& other) {
    samples += other.samples;
    tokens += other.tokens;
    cut += other.cut;
    turns += other.turns;
    most_turns = std::max(most_turns, other.most_turns);
    return *this;
  }
};

// Of some samples, the ones that an update trains on and the others, where tokens of old versions are masked.
struct TokenSplit {
  SampleTokens trained;  // with a token that is not masked
  SampleTokens dropped;  // without one
  uint64_t masked = 0;   // tokens of `trained`
};

}  // namespace troupe
