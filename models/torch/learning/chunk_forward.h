#pragma once
// ChunkForward: runs a recurrent network over chunks of a staged batch. Used by the learner's thread. Includes
// LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "models/learning/chunks.h"
#include "models/torch/learning/batch_tensors.h"
#include "models/torch/learning/sample_gather.h"
#include "models/torch/replica.h"

namespace troupe {

class ChunkForward {
 public:
  // Both must outlive this.
  ChunkForward(Replica& replica, SampleGather& gather) : replica_(replica), gather_(gather) {}

  // Steps [begin, end) of some chunks, time-major, with the state before `begin`.
  NetworkOutput run(const BatchTensors& batch, const Chunks& chunks, std::span<const int64_t> which, int64_t begin,
                    int64_t end, const at::Tensor& state, bool backward_follows);
  // The steps after the burn-in, for training. The burn-in gives their first state; no gradient reaches it (Kapturowski
  // et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning",
  // openreview.net/forum?id=r1lyTjAqYX, section 3).
  NetworkOutput run_trained(const BatchTensors& batch, const Chunks& chunks, std::span<const int64_t> which);

  // [C, S] as recorded at the first steps.
  at::Tensor states(const BatchTensors& batch, std::span<const int64_t> which) const;

 private:
  Replica& replica_;
  SampleGather& gather_;
};

// The network's outputs for the samples of a batch, all computed with the same weights; on its device.
struct BatchOutputs {
  at::Tensor outputs;     // [B, P]
  at::Tensor values;      // [B, 1] in units of the value head
  at::Tensor bootstraps;  // [C, 1] the values of the batch's bootstrap inputs
};

// Computes them for all samples, from the recorded states, in passes of at most `samples_per_pass` samples or one
// chunk. A bootstrap observation takes the state after the sample that it follows.
BatchOutputs run_batch(ChunkForward& forward, Replica& replica, const StagedSamples& staged, const Chunks& chunks,
                       const BatchTensors& batch, int64_t samples_per_pass);

}  // namespace troupe
