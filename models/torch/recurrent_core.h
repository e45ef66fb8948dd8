#pragma once
// RecurrentCore: an LSTM (Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735) or a GRU (Cho et al. 2014,
// arXiv:1406.1078), unrolled over the steps of many sequences. Its weights are those of torch.nn.LSTMCell and
// torch.nn.GRUCell. Includes LibTorch: for the sources of models/ only. Used by one thread at a time.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "models/networks/net_layout.h"
#include "models/torch/leaves.h"

namespace troupe {

class RecurrentCore {
 public:
  // `kind` is not none.
  RecurrentCore(Core kind, int64_t size, Leaves& leaves);

  struct Output {
    at::Tensor features;  // [L * C, H]
    at::Tensor state;     // [C, S] after the last step
  };
  // x [L * C, I], time-major; state [C, S] before the first step; starts [L, C] bool or undefined.
  Output run(const at::Tensor& x, const at::Tensor& state, const at::Tensor& starts) const;

 private:
  // One step. `hidden` and the result are the vectors of the state, each [C, H], the output first: h, and c of an LSTM.
  // `sums` [C, G * H] are those of the inputs.
  std::vector<at::Tensor> step(const at::Tensor& sums, const std::vector<at::Tensor>& hidden) const;

  Core kind_;
  int64_t size_;
  at::Tensor input_weight_, input_bias_, state_weight_, state_bias_;
};

}  // namespace troupe
