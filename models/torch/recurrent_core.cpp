#include "models/torch/recurrent_core.h"

#include <ATen/ATen.h>

#include "runtime/base/errors.h"

namespace troupe {

RecurrentCore::RecurrentCore(Core kind, int64_t size, Leaves& leaves)
    : kind_(kind),
      size_(size),
      input_weight_(leaves.leaf("core.weight_ih")),
      input_bias_(leaves.leaf("core.bias_ih")),
      state_weight_(leaves.leaf("core.weight_hh")),
      state_bias_(leaves.leaf("core.bias_hh")) {}

RecurrentCore::Output RecurrentCore::run(const at::Tensor& x, const at::Tensor& state, const at::Tensor& starts) const {
  TROUPE_CHECK(state.defined() && state.dim() == 2 && state.size(1) == states_of(kind_) * size_, state.defined());
  const int64_t sequences = state.size(0), steps = sequences == 0 ? 1 : x.size(0) / sequences;
  TROUPE_CHECK(x.size(0) == steps * sequences, x.size(0), sequences);
  TROUPE_CHECK(!starts.defined() || (starts.size(0) == steps && starts.size(1) == sequences), steps, sequences);
  // unbind, not select: the gradient of each select is as large as the whole tensor, so the time would be quadratic in
  // the number of steps.
  const auto sums =
      at::linear(x, input_weight_, input_bias_).view({steps, sequences, gates_of(kind_) * size_}).unbind(0);
  std::vector<at::Tensor> hidden = state.split(size_, 1), outputs;
  for (int64_t t = 0; t < steps; ++t) {
    if (starts.defined()) {
      const at::Tensor start = starts.select(0, t).unsqueeze(1);
      // Not a product with 0, which would keep NaN of the state before.
      for (at::Tensor& each : hidden) each = each.masked_fill(start, 0);
    }
    hidden = step(sums[static_cast<size_t>(t)], hidden);
    outputs.push_back(hidden.front());
  }
  return {at::cat(outputs), at::cat(hidden, 1)};
}

std::vector<at::Tensor> RecurrentCore::step(const at::Tensor& sums, const std::vector<at::Tensor>& hidden) const {
  const at::Tensor& h = hidden[0];
  const at::Tensor from_state = at::linear(h, state_weight_, state_bias_);
  if (kind_ == Core::lstm) {
    const auto gates = (sums + from_state).chunk(4, 1);  // i, f, g, o
    const at::Tensor c = gates[1].sigmoid() * hidden[1] + gates[0].sigmoid() * gates[2].tanh();
    return {gates[3].sigmoid() * c.tanh(), c};
  }
  const auto inputs = sums.chunk(3, 1), states = from_state.chunk(3, 1);  // r, z, n
  const at::Tensor r = (inputs[0] + states[0]).sigmoid(), z = (inputs[1] + states[1]).sigmoid();
  const at::Tensor n = (inputs[2] + r * states[2]).tanh();
  return {n + z * (h - n)};
}

}  // namespace troupe
