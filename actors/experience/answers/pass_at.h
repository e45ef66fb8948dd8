#pragma once
// PassAt: how many prompts an evaluation solves with k answers. Plain values; one thread.

#include <cstdint>
#include <vector>

#include "runtime/stats/snapshot.h"

namespace troupe {

// The probability that one of k answers is right, drawn without replacement from `answers` of which `right` are: the
// unbiased estimate of Chen et al. 2021 (arXiv:2107.03374, equation 1). k is at most `answers`.
double pass_at_k(uint64_t answers, uint64_t right, uint64_t k);

class PassAt {
 public:
  // For k = 1, 2, 4, ... and `answers`, the number of answers to each prompt.
  explicit PassAt(uint64_t answers = 1);

  // A prompt with this many answers that have a score. It does not count for a larger k.
  void add(uint64_t answers, uint64_t right);
  // pass@1 is the mean over all answers, the others are means over prompts; unknown without any.
  PassAtK result() const;

 private:
  struct Sum {
    uint64_t k = 1;
    uint64_t count = 0;  // prompts; of k = 1, answers
    double passed = 0;
  };
  std::vector<Sum> sums_;
};

}  // namespace troupe
