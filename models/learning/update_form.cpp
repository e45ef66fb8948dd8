#include "models/learning/update_form.h"

#include <ATen/ATen.h>

#include <utility>

#include "models/learning/sample_passes.h"
#include "runtime/base/errors.h"

namespace troupe {

UpdateForm::UpdateForm(Replica& replica, GradientReducer reducer)
    : replica_(replica),
      reducer_(std::move(reducer)),
      gather_(replica.device.device()),
      chunk_forward_(replica, gather_) {}

CurrentNetwork UpdateForm::current_network() {
  CurrentNetwork result;
  result.units = value_units(replica_.weights);
  result.samples_per_pass = samples_per_pass(replica_.encoder);
  if (batch_->chunks.steps > 0)
    use_chunks(result);
  else
    use_samples(result);
  return result;
}

void UpdateForm::use_samples(CurrentNetwork& network) {
  network.evaluate = [this](std::span<const int64_t> samples, bool probabilities) {
    const NetworkInput input = {gather_.gather(tensors().inputs, samples), {}, {}};
    return evaluate(samples, replica_.network->forward(input, false), probabilities);
  };
  // The tensor behind the span lives until the next call.
  network.bootstrap_values = [this, values = at::Tensor()](int64_t begin, int64_t end) mutable {
    NetworkInput input;
    for (const at::Tensor& all : tensors().bootstrap_inputs) input.observations.push_back(all.slice(0, begin, end));
    values = replica_.network->values(input).cpu();
    return floats_of(values);
  };
}

// One pass over the chunks says everything, because a sample's state depends on the samples before it.
void UpdateForm::use_chunks(CurrentNetwork& network) {
  const auto said = std::make_shared<const BatchOutputs>(
      run_batch(chunk_forward_, replica_, batch_->staged, batch_->chunks, tensors(), network.samples_per_pass));
  network.evaluate = [this, said](std::span<const int64_t> samples, bool probabilities) {
    const at::Tensor index = index_tensor(samples, replica_.device.device());
    const NetworkOutput of_samples = {said->outputs.index_select(0, index), said->values.index_select(0, index), {}};
    return evaluate(samples, of_samples, probabilities);
  };
  network.bootstrap_values = [bootstraps = said->bootstraps.cpu()](int64_t begin, int64_t end) {
    return floats_of(bootstraps).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
}

double longest_sequence(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head) {
  return static_cast<double>(config.rollout_length * (choice.per_decision ? head.decisions() : 1));
}

int64_t chunks_of(int64_t micro_batch, int64_t steps) {
  TROUPE_CHECK(micro_batch == 0 || micro_batch >= steps, micro_batch, steps);
  return steps > 0 ? micro_batch / steps : micro_batch;
}

}  // namespace troupe
