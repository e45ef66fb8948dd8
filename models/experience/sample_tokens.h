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

}  // namespace troupe
