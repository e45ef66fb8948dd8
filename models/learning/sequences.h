#pragma once
// Sequences: the consecutive valid steps of one episode within one column of a staged batch, which estimators and
// losses of whole answers treat as one answer. A pure function; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "models/learning/staging.h"

namespace troupe {

struct Sequences {
  std::vector<int64_t> samples;  // of the batch, sequence after sequence, each in the order of time
  // [S + 1] sequence i is samples[offsets[i]] .. samples[offsets[i + 1] - 1]; never empty.
  std::vector<int64_t> offsets;
  std::vector<uint8_t> complete;  // [S] it ends in a terminal state

  int64_t count() const { return static_cast<int64_t>(offsets.size()) - 1; }
  std::span<const int64_t> samples_of(int64_t i) const {
    return std::span(samples).subspan(static_cast<size_t>(offsets[i]),
                                      static_cast<size_t>(offsets[i + 1] - offsets[i]));
  }
};

// All sequences, column after column. With `cut_is_end` a time limit counts as a terminal state. The batch must have
// been staged with whole columns.
Sequences cut_sequences(const StagedSamples& batch, bool cut_is_end);
// Those of them that are complete.
Sequences complete_sequences(const Sequences& all);

}  // namespace troupe
