#include "models/torch/learning/chunk_forward.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "models/learning/sample_passes.h"

namespace troupe {

namespace {

// Computes the values of bootstrap observations. Those that follow the same step of their chunks are one batch.
void run_bootstraps(ChunkForward& forward, Replica& replica, const StagedSamples& staged, const Chunks& chunks,
                    const BatchTensors& batch, int64_t chunks_per_pass, BatchOutputs& result) {
  const std::vector<ChunkStep> places = chunk_steps(chunks, staged.count);
  std::map<int64_t, std::vector<int64_t>> by_step;
  for (size_t i = 0; i < staged.bootstrap_samples.size(); ++i)
    by_step[places[static_cast<size_t>(staged.bootstrap_samples[i])].step].push_back(static_cast<int64_t>(i));
  SampleGather gather(replica.device.device());
  for (const auto& [step, all] : by_step) {
    for_each_pass(all, chunks_per_pass, [&, last = step](std::span<const int64_t> bootstraps) {
      std::vector<int64_t> which;
      for (const int64_t i : bootstraps)
        which.push_back(places[static_cast<size_t>(staged.bootstrap_samples[static_cast<size_t>(i)])].chunk);
      const at::Tensor before = forward.states(batch, which);
      NetworkInput input;
      input.state = forward.run(batch, chunks, which, 0, last + 1, before, false).state;
      input.observations = gather.gather(batch.bootstrap_inputs, bootstraps);
      result.bootstraps.index_copy_(0, index_tensor(bootstraps, replica.device.device()),
                                    replica.network->values(input));
    });
  }
}

}  // namespace

NetworkOutput ChunkForward::run(const BatchTensors& batch, const Chunks& chunks, std::span<const int64_t> which,
                                int64_t begin, int64_t end, const at::Tensor& state, bool backward_follows) {
  const std::vector<int64_t> samples = samples_of(chunks, which, begin, end);
  const at::Tensor index = index_tensor(samples, replica_.device.device());
  const at::Tensor starts = batch.starts.index_select(0, index).to(at::kBool);
  const NetworkInput input = {
      gather_.gather(batch.inputs, index), state, starts.view({end - begin, static_cast<int64_t>(which.size())}), {}};
  return replica_.network->forward(input, backward_follows);
}

NetworkOutput ChunkForward::run_trained(const BatchTensors& batch, const Chunks& chunks,
                                        std::span<const int64_t> which) {
  at::Tensor state = states(batch, which);
  if (chunks.burn_in > 0) state = run(batch, chunks, which, 0, chunks.burn_in, state, false).state;
  return run(batch, chunks, which, chunks.burn_in, chunks.steps, state, true);
}

at::Tensor ChunkForward::states(const BatchTensors& batch, std::span<const int64_t> which) const {
  return batch.states.index_select(0, index_tensor(which, replica_.device.device()));
}

BatchOutputs run_batch(ChunkForward& forward, Replica& replica, const StagedSamples& staged, const Chunks& chunks,
                       const BatchTensors& batch, int64_t samples_per_pass) {
  const at::NoGradGuard guard;
  const auto options = at::TensorOptions().dtype(at::kFloat).device(replica.device.device());
  const auto bootstraps = static_cast<int64_t>(staged.bootstrap_samples.size());
  BatchOutputs result = {at::zeros({staged.count, replica.head.outputs()}, options),
                         at::zeros({staged.count, 1}, options), at::zeros({bootstraps, 1}, options)};
  const int64_t chunks_per_pass = std::max<int64_t>(1, samples_per_pass / chunks.steps);
  std::vector<int64_t> all(static_cast<size_t>(chunks.count()));
  std::iota(all.begin(), all.end(), int64_t{0});
  for_each_pass(all, chunks_per_pass, [&](std::span<const int64_t> which) {
    const at::Tensor before = forward.states(batch, which);
    const NetworkOutput said = forward.run(batch, chunks, which, 0, chunks.steps, before, false);
    const std::vector<int64_t> passed = samples_of(chunks, which, 0, chunks.steps);
    const at::Tensor index = index_tensor(passed, replica.device.device());
    result.outputs.index_copy_(0, index, said.policy);
    result.values.index_copy_(0, index, said.values);
  });
  if (bootstraps > 0) run_bootstraps(forward, replica, staged, chunks, batch, chunks_per_pass, result);
  return result;
}

}  // namespace troupe
