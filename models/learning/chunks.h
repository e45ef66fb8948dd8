#pragma once
// Chunks: the stretches of L consecutive steps of one column that a recurrent network is trained on, each from the
// state that the rollout recorded for its first step. Plain data, no tensor library; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "models/experience/rollout.h"
#include "models/learning/recurrence.h"
#include "models/learning/staging.h"

namespace troupe {

struct Chunks {
  int64_t steps = 0;                   // L; 0 = the model has no recurrent state
  int64_t burn_in = 0;                 // the first steps of each, which are not trained on
  std::vector<int64_t> first_samples;  // [K] samples of the batch
  std::vector<int64_t> strides;        // [K] samples from one step to the next
  Array states;                        // [K, S] float32 before the first steps
  Array starts;                        // [B] uint8: an episode begins with this sample

  int64_t count() const { return static_cast<int64_t>(first_samples.size()); }
  int64_t sample(int64_t chunk, int64_t step) const {
    const auto i = static_cast<size_t>(chunk);
    return first_samples[i] + step * strides[i];
  }
};

// The samples of steps [begin, end) of some chunks, time-major.
std::vector<int64_t> samples_of(const Chunks& chunks, std::span<const int64_t> which, int64_t begin, int64_t end);

// The samples of some chunks that are trained on: those to train on that follow the burn-in.
struct TrainedSamples {
  std::vector<int64_t> samples;    // indices in the batch
  std::vector<int64_t> positions;  // of the same samples within samples_of(chunks, which, burn_in, steps)
};
// `is_trained` [B].
TrainedSamples trained_samples(const Chunks& chunks, std::span<const int64_t> which,
                               std::span<const uint8_t> is_trained);
// The number of samples of the batch that are trained on: all of StagedSamples::trained, or with chunks those of them
// that are not in a burn-in.
int64_t count_trained(const Chunks& chunks, std::span<const uint8_t> is_trained);
// The chunks that hold at least one of these samples.
std::vector<int64_t> trained_chunks(const Chunks& chunks, std::span<const uint8_t> is_trained);

// A sample's place in a chunk.
struct ChunkStep {
  int64_t chunk = 0;
  int64_t step = 0;
};
// [B] the place of every sample of the batch.
std::vector<ChunkStep> chunk_steps(const Chunks& chunks, int64_t samples);

// The chunks of `staged`, which was made from `batch` with whole columns; none without recurrent state. Throws
// InvariantError naming the mismatch when a rollout carries states of another size, or as many as another sequence
// length needs.
Chunks stage_chunks(const SuperBatch& batch, const StagedSamples& staged, const Recurrence& recurrence);

}  // namespace troupe
