#pragma once
// ChunkForward: runs a recurrent network over chunks of a staged batch. Used by the learner's thread. Includes
// LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

#include "models/learning/chunks.h"
#include "models/learning/row_gather.h"
#include "models/networks/replica.h"

namespace troupe {

class ChunkForward {
 public:
  // Both must outlive this.
  ChunkForward(Replica& replica, RowGather& gather) : replica_(replica), gather_(gather) {}

  // Steps [begin, end) of some chunks, time-major, with the state before `begin`. `inputs` are the batch's, each [R,
  // ...].
  NetworkOutput run(const std::vector<at::Tensor>& inputs, const Chunks& chunks, std::span<const int64_t> which,
                    int64_t begin, int64_t end, const at::Tensor& state, bool backward_follows);
  // The steps after the burn-in, for training. The burn-in gives their first state; no gradient reaches it (Kapturowski
  // et al. 2019, "Recurrent Experience Replay in Distributed Reinforcement Learning", section 3).
  NetworkOutput run_trained(const std::vector<at::Tensor>& inputs, const Chunks& chunks,
                            std::span<const int64_t> which);

  // [C, S] on the device: as recorded at the first steps.
  at::Tensor states(const Chunks& chunks, std::span<const int64_t> which) const;

 private:
  Replica& replica_;
  RowGather& gather_;
};

// What the network says about the rows of a batch, with the weights of one moment.
struct BatchOutputs {
  std::vector<float> outputs;     // [R, P]
  std::vector<float> values;      // [R] in units of the value head
  std::vector<float> bootstraps;  // [C] the values of the batch's bootstrap inputs
};

// Of all rows, from the recorded states, in passes of at most `rows_per_pass` rows or one chunk. A bootstrap
// observation takes the state after the row that it follows.
BatchOutputs run_batch(ChunkForward& forward, Replica& replica, const StagedRows& batch, const Chunks& chunks,
                       const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& bootstrap_inputs,
                       int64_t rows_per_pass);

}  // namespace troupe
