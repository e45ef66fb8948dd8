#pragma once
// Chunks: the stretches of L consecutive steps of one column that a recurrent network is trained on, each from the
// state that the rollout recorded for its first step. Plain data, no tensor library; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "models/learning/staging.h"
#include "models/recurrence.h"
#include "models/rollout.h"

namespace troupe {

struct Chunks {
  int64_t steps = 0;                // L; 0 = the model has no recurrent state
  int64_t burn_in = 0;              // the first steps of each, which are not trained on
  std::vector<int64_t> first_rows;  // [K] rows of the batch
  std::vector<int64_t> strides;     // [K] rows from one step to the next
  Array states;                     // [K, S] float32 before the first steps
  Array starts;                     // [R] uint8: an episode begins with this row

  int64_t count() const { return static_cast<int64_t>(first_rows.size()); }
  int64_t row(int64_t chunk, int64_t step) const {
    const auto i = static_cast<size_t>(chunk);
    return first_rows[i] + step * strides[i];
  }
};

// The rows of steps [begin, end) of some chunks, time-major.
std::vector<int64_t> rows_of(const Chunks& chunks, std::span<const int64_t> which, int64_t begin, int64_t end);

// What is trained on of some chunks: the samples after the burn-in.
struct TrainedRows {
  std::vector<int64_t> rows;       // of the batch
  std::vector<int64_t> positions;  // of the same rows within rows_of(chunks, which, burn_in, steps)
};
// `is_sample` [R].
TrainedRows trained_rows(const Chunks& chunks, std::span<const int64_t> which, std::span<const uint8_t> is_sample);
// The chunks that hold any.
std::vector<int64_t> trained_chunks(const Chunks& chunks, std::span<const uint8_t> is_sample);

// A row's place in a chunk.
struct ChunkStep {
  int64_t chunk = 0;
  int64_t step = 0;
};
// [R] of every row of the batch.
std::vector<ChunkStep> chunk_steps(const Chunks& chunks, int64_t rows);

// Of a batch that was staged with whole columns from `batch`; nothing without recurrent state. Throws InvariantError
// naming what does not fit when a rollout carries other states, or as many of them as another sequence length needs.
Chunks stage_chunks(const SuperBatch& batch, const StagedRows& staged, const Recurrence& recurrence);

}  // namespace troupe
