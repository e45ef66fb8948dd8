#pragma once
// What is counted of samples that are made of tokens. Plain values; any thread.

#include <cstdint>

namespace troupe {

struct SampleTokens {
  uint64_t samples = 0;
  uint64_t tokens = 0;
  uint64_t cut = 0;  // of the samples, that reached generation.max_tokens

  SampleTokens& operator+=(const SampleTokens& other) {
    samples += other.samples;
    tokens += other.tokens;
    cut += other.cut;
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
