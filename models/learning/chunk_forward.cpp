#include "models/learning/chunk_forward.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "models/learning/row_passes.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// [steps, C] bool on the device.
at::Tensor starts_of(const Chunks& chunks, std::span<const int64_t> rows, int64_t sequences, at::Device device) {
  const auto starts = chunks.starts.view<uint8_t>();
  at::Tensor result = at::empty({static_cast<int64_t>(rows.size())}, at::TensorOptions().dtype(at::kBool));
  bool* out = result.mutable_data_ptr<bool>();
  for (const int64_t row : rows) *out++ = starts[static_cast<size_t>(row)] != 0;
  return result.view({-1, sequences}).to(device);
}

// Row i of what the network says goes to row rows[i] of `out`.
void scatter(const at::Tensor& said, std::span<const int64_t> rows, std::vector<float>& out) {
  const at::Tensor host = said.cpu().contiguous();
  const int64_t width = host.size(1);
  const float* source = host.const_data_ptr<float>();
  for (const int64_t row : rows) {
    std::copy_n(source, width, out.begin() + row * width);
    source += width;
  }
}

// The values of bootstrap observations, those that follow the same step of their chunks together.
void run_bootstraps(ChunkForward& forward, Replica& replica, const StagedRows& batch, const Chunks& chunks,
                    const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& bootstrap_inputs,
                    int64_t chunks_per_pass, BatchOutputs& result) {
  const std::vector<ChunkStep> places = chunk_steps(chunks, batch.rows);
  std::map<int64_t, std::vector<int64_t>> by_step;
  for (size_t i = 0; i < batch.bootstrap_rows.size(); ++i)
    by_step[places[static_cast<size_t>(batch.bootstrap_rows[i])].step].push_back(static_cast<int64_t>(i));
  RowGather gather(replica.device.device());
  result.bootstraps.resize(batch.bootstrap_rows.size());
  for (const auto& [step, all] : by_step) {
    for_each_pass(all, chunks_per_pass, [&, last = step](std::span<const int64_t> bootstraps) {
      std::vector<int64_t> which;
      for (const int64_t i : bootstraps)
        which.push_back(places[static_cast<size_t>(batch.bootstrap_rows[static_cast<size_t>(i)])].chunk);
      const at::Tensor before = forward.states(chunks, which);
      NetworkInput input;
      input.state = forward.run(inputs, chunks, which, 0, last + 1, before, false).state;
      input.observations = gather.gather(bootstrap_inputs, bootstraps);
      scatter(replica.network->values(input), bootstraps, result.bootstraps);
    });
  }
}

}  // namespace

NetworkOutput ChunkForward::run(const std::vector<at::Tensor>& inputs, const Chunks& chunks,
                                std::span<const int64_t> which, int64_t begin, int64_t end, const at::Tensor& state,
                                bool backward_follows) {
  const std::vector<int64_t> rows = rows_of(chunks, which, begin, end);
  const auto sequences = static_cast<int64_t>(which.size());
  NetworkInput input = {gather_.gather(inputs, rows), state, starts_of(chunks, rows, sequences, state.device())};
  return replica_.network->forward(input, backward_follows);
}

NetworkOutput ChunkForward::run_trained(const std::vector<at::Tensor>& inputs, const Chunks& chunks,
                                        std::span<const int64_t> which) {
  at::Tensor state = states(chunks, which);
  if (chunks.burn_in > 0) state = run(inputs, chunks, which, 0, chunks.burn_in, state, false).state;
  return run(inputs, chunks, which, chunks.burn_in, chunks.steps, state, true);
}

at::Tensor ChunkForward::states(const Chunks& chunks, std::span<const int64_t> which) const {
  const auto size = static_cast<size_t>(chunks.states.row_size());
  at::Tensor result = at::empty({static_cast<int64_t>(which.size()), static_cast<int64_t>(size)},
                                at::TensorOptions().dtype(at::kFloat));
  const auto all = chunks.states.view<float>();
  float* out = result.mutable_data_ptr<float>();
  for (const int64_t chunk : which)
    out = std::ranges::copy(all.subspan(static_cast<size_t>(chunk) * size, size), out).out;
  return result.to(replica_.device.device());
}

BatchOutputs run_batch(ChunkForward& forward, Replica& replica, const StagedRows& batch, const Chunks& chunks,
                       const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& bootstrap_inputs,
                       int64_t rows_per_pass) {
  BatchOutputs result;
  result.outputs.resize(static_cast<size_t>(batch.rows * replica.head.outputs()));
  result.values.resize(static_cast<size_t>(batch.rows));
  const int64_t chunks_per_pass = std::max<int64_t>(1, rows_per_pass / chunks.steps);
  std::vector<int64_t> all(static_cast<size_t>(chunks.count()));
  std::iota(all.begin(), all.end(), int64_t{0});
  for_each_pass(all, chunks_per_pass, [&](std::span<const int64_t> which) {
    const at::Tensor before = forward.states(chunks, which);
    const NetworkOutput said = forward.run(inputs, chunks, which, 0, chunks.steps, before, false);
    const std::vector<int64_t> rows = rows_of(chunks, which, 0, chunks.steps);
    scatter(said.policy, rows, result.outputs);
    scatter(said.values, rows, result.values);
  });
  if (!bootstrap_inputs.empty())
    run_bootstraps(forward, replica, batch, chunks, inputs, bootstrap_inputs, chunks_per_pass, result);
  return result;
}

}  // namespace troupe
