#include "models/torch/learning/update_form.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>
#include <utility>

#include "models/learning/sample_passes.h"
#include "models/shards/shard_sum.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

at::Tensor pick_positions(const at::Tensor& samples, const at::Tensor& positions) {
  return samples.index_select(0, positions);
}

// A tensor of the shape of `like` with the samples at `positions`, and 0 elsewhere.
at::Tensor spread(const at::Tensor& samples, const at::Tensor& positions, const at::Tensor& like) {
  return at::zeros(like.sizes(), samples.options()).index_copy_(0, positions, samples);
}

}  // namespace

UpdateForm::UpdateForm(const TrainerConfig& config, Replica& replica, const AlgorithmChoice& choice)
    : replica_(replica),
      gather_(replica.device.device()),
      action_gather_(replica.device.device()),
      chunk_forward_(replica, gather_),
      minibatch_(replica.head),
      ratios_per_sample_(choice.per_decision ? replica.head.decisions() : 1),
      shards_(static_cast<size_t>(config.shards)),
      leaves_(shards_.size()),
      slice_{0, static_cast<size_t>(replica.device.gradients().numel())},
      sums_(leaves_.places()),
      pieces_(slice_.size(), piece_elements(config)) {
  replica_.network->gradients_complete_to([this](ElementRange elements) {
    if (last_leaf_) pieces_.complete(elements, [this](size_t piece) { say_piece(piece); });
  });
}

void UpdateForm::hold_shards(ShardRange shards) {
  shards_.assign(shards.count, {});
  if (shards == leaves_.mine()) return;  // keeps the memory of sums
  leaves_.hold(shards);
  sums_.clear();
  sums_.resize(leaves_.places());
}

void UpdateForm::hold_slice(ElementRange elements) {
  slice_ = elements;
  total_ = at::Tensor();
}

void UpdateForm::begin(size_t shard, StagedUpdate& batch, const SampleScalings& scalings) {
  shard_ = shard;
  shards_[shard].batch = &batch;
  begin_batch(scalings);
}

CurrentNetwork UpdateForm::current_network(size_t shard) {
  shard_ = shard;
  CurrentNetwork result;
  result.units = value_units(replica_.weights);
  result.samples_per_pass = samples_per_pass(replica_.encoder);
  if (batch().chunks.steps > 0)
    use_chunks(result);
  else
    use_samples(result);
  return result;
}

void UpdateForm::use_samples(CurrentNetwork& network) {
  network.evaluate = [this](std::span<const int64_t> samples, bool probabilities) {
    return evaluate(samples, replica_.network->forward(input_of(samples), false), probabilities);
  };
  // The tensor behind the span lives until the next call.
  network.bootstrap_values = [this, values = at::Tensor()](int64_t begin, int64_t end) mutable {
    NetworkInput input;
    for (const at::Tensor& all : tensors().bootstrap_inputs) input.observations.push_back(all.slice(0, begin, end));
    values = on_host(replica_.network->values(input));
    return floats_of(values);
  };
}

// Without recurrent state.
NetworkInput UpdateForm::input_of(std::span<const int64_t> samples) {
  NetworkInput input;
  input.observations = gather_.gather(tensors().inputs, samples);
  if (tensors().actions.defined()) input.actions = action_gather_.gather({tensors().actions}, samples).front();
  return input;
}

// All samples are computed in one pass over the chunks, because a sample's state depends on the samples before it.
void UpdateForm::use_chunks(CurrentNetwork& network) {
  const auto said = std::make_shared<const BatchOutputs>(
      run_batch(chunk_forward_, replica_, batch().staged, batch().chunks, tensors(), network.samples_per_pass));
  network.evaluate = [this, said](std::span<const int64_t> samples, bool probabilities) {
    const at::Tensor index = index_tensor(samples, replica_.device.device());
    const NetworkOutput of_samples = {said->outputs.index_select(0, index), said->values.index_select(0, index), {}};
    return evaluate(samples, of_samples, probabilities);
  };
  network.bootstrap_values = [bootstraps = on_host(said->bootstraps)](int64_t begin, int64_t end) {
    return floats_of(bootstraps).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  };
}

void UpdateForm::begin_steps(size_t shard, const Training& training) {
  shard_ = shard;
  shards_[shard].training = &training;
  place_training();
}

size_t UpdateForm::micro_batches_of(size_t shard, SampleRange minibatch, int64_t micro_batch) const {
  return micro_batches(minibatch, chunks_of(micro_batch, shards_[shard].batch->chunks.steps)).size();
}

std::vector<size_t> UpdateForm::begin_step(const UpdateSettings& settings, std::span<const SampleRange> minibatches,
                                           const LossTotals& totals, int64_t micro_batch, size_t most) {
  const at::NoGradGuard guard;
  settings_ = &settings;
  totals_ = &totals;
  lost_ = false;
  std::vector<size_t> counts;
  for (size_t shard = 0; shard < shards(); ++shard) {
    Shard& of = shards_[shard];
    of.settings = settings;
    of.settings.loss.key = shard_key(settings.loss.key, held().first + shard);
    of.parts = micro_batches(minibatches[shard], chunks_of(micro_batch, of.batch->chunks.steps));
    counts.push_back(of.parts.size());
  }
  StepLeaves leaves = leaves_.begin(counts, most);
  leaf_of_part_ = std::move(leaves.leaves);
  replica_.device.zero_gradients();
  pieces_.begin();
  begin_losses();
  return std::move(leaves.of_micro_batches);
}

void UpdateForm::backward(size_t part, StageClock& clock) {
  const at::NoGradGuard guard;
  clock_ = &clock;
  go_to_leaf(leaf_of_part_[part]);
  shard_ = leaves_.held();
  last_leaf_ = !leaves_.holds_all() && leaves_.is_last_leaf();
  const Shard& of = shards_[shard_];
  if (!lost_) lost_ = !accumulate(of.settings, of.parts[leaves_.micro_batch()], *totals_);
  last_leaf_ = false;
}

void UpdateForm::go_to_leaf(size_t leaf) {
  leaves_.go_to(leaf, [this](size_t place) { add_sum(place); }, [this](size_t place) { keep_sum(place); });
}

void UpdateForm::add_sum(size_t place) { replica_.device.gradients().add_(sums_[place].values()); }

void UpdateForm::keep_sum(size_t place) {
  DeviceWeights& device = replica_.device;
  PagedTensor& sum = sums_[place];
  if (!sum.values().defined())
    sum = PagedTensor(device.gradients().numel(), device.device(), device.has_paged_gradients());
  sum.values().copy_(device.gradients());
  device.zero_gradients();
}

void UpdateForm::add_total() { gradients_of(slice_).add_(total_); }

void UpdateForm::keep_total() {
  if (!total_.defined()) total_ = at::empty_like(gradients_of(slice_));
  total_.copy_(gradients_of(slice_));
  replica_.device.zero_gradients();
}

at::Tensor UpdateForm::gradients_of(ElementRange elements) const {
  return slice_of(replica_.device.gradients(), elements);
}

// In the last leaf of the micro-batch: the sums that wait for it are added to the last branch. What is said is not
// needed any more, so its memory is given back where that is possible.
void UpdateForm::say_piece(size_t piece) {
  const ElementRange elements = pieces_.range(piece);
  const auto of = [&](size_t place) { return slice_of(sums_[place].values(), elements); };
  std::vector<GradientBranch> result;
  for (size_t i = 0; i < leaves_.branches().size(); ++i) {
    const bool last = i + 1 == leaves_.branches().size();
    at::Tensor values = last ? gradients_of(elements) : of(leaves_.place_of(i));
    if (last && !leaves_.last_additions().empty()) {
      values = values.clone();
      for (const size_t place : leaves_.last_additions()) values.add_(of(place));
    }
    const at::Tensor host = on_host(values);
    result.push_back({leaves_.branches()[i], Array::of({host.numel()}, floats_of(host))});
  }
  say_(piece, std::move(result));
  if (!replica_.device.has_paged_gradients()) return;
  replica_.device.free_gradients(elements);
  for (PagedTensor& sum : sums_)
    if (sum.is_paged()) sum.free(elements);
}

void UpdateForm::end_backward() {
  const at::NoGradGuard guard;
  go_to_leaf(leaves_.end_of_micro_batch() - 1);
  pieces_.complete_all([this](size_t piece) { say_piece(piece); });
  const auto said = [](size_t /*place*/) {};  // with each piece
  leaves_.go_to(leaves_.end_of_micro_batch(), said, said);
}

void UpdateForm::set_gradients(ElementRange elements, const Array& sum) {
  const at::NoGradGuard guard;
  if (elements.size() > 0) gradients_of(elements).copy_(tensor_view(sum));
}

Array UpdateForm::parameters(ElementRange elements) const {
  const at::NoGradGuard guard;
  const at::Tensor host = on_host(slice_of(replica_.device.parameters(), elements));
  return Array::of({host.numel()}, floats_of(host));
}

void UpdateForm::set_parameters(ElementRange elements, const Array& values) {
  const at::NoGradGuard guard;
  slice_of(replica_.device.parameters(), elements).copy_(tensor_view(values));
}

void UpdateForm::end_micro_batch() {
  const at::NoGradGuard guard;
  if (leaves_.holds_all()) go_to_leaf(leaves_.end_of_micro_batch());
  leaves_.end_micro_batch([this](size_t) { add_total(); }, [this](size_t) { keep_total(); });
  pieces_.begin();
}

std::vector<ShardNumbers> UpdateForm::losses() {
  const at::NoGradGuard guard;
  std::vector<ShardNumbers> result;
  for (const LossReport& report : loss_reports(*settings_, *totals_)) {
    ShardNumbers& numbers = result.emplace_back();
    put(numbers, lost_ ? 0.0 : 1.0);
    put(numbers, report);
  }
  return result;
}

StepReport UpdateForm::apply(std::span<const ShardNumbers> all, const GradientSquares* squares) {
  const at::NoGradGuard guard;
  StepReport report;
  if (squares == nullptr) {
    report = train(*settings_, *totals_);
  } else {
    bool lost = false;
    std::vector<LossReport> reports;
    const std::vector<ShardNumbers> own = leaves_.holds_all() ? losses() : std::vector<ShardNumbers>();
    for (const ShardNumbers& numbers : leaves_.holds_all() ? std::span<const ShardNumbers>(own) : all) {
      NumberReader reader(numbers);
      lost |= reader.take<double>() == 0;
      reports.push_back(reader.take<LossReport>());
      reader.end();
    }
    report = {merged(reports), std::numeric_limits<double>::quiet_NaN()};
    if (!lost && std::isfinite(report.loss.loss)) report.grad_norm = train_with(*settings_, *squares);
  }
  return report;
}

LossTotals UpdateForm::count(size_t shard, SampleRange minibatch) {
  shard_ = shard;
  if (minibatch.size() == 0) return {};
  TrainedSamples trained;
  if (batch().chunks.steps > 0) {
    trained = trained_samples(batch().chunks, minibatch.indices, training().is_trained);
    minibatch = {trained.samples, {}};
  }
  return count_loss(minibatch.size(), minibatch.offsets, ratios_per_sample_,
                    minibatch_.kept(batch().staged, training().targets, minibatch.indices));
}

// Forward and backward of some samples of a minibatch; false when the network's outputs are not finite.
bool UpdateForm::accumulate(const UpdateSettings& settings, SampleRange part, const LossTotals& totals) {
  if (batch().chunks.steps > 0) return accumulate_chunks(settings, part.indices, totals);
  const NetworkOutput output = replica_.network->forward(input_of(part.indices), true);
  const std::optional<OutputGradients> gradients = add_loss(settings, part, totals, output.policy, output.values);
  if (gradients) backward_outputs(settings, gradients->policy, gradients->values);
  return gradients.has_value();
}

bool UpdateForm::accumulate_chunks(const UpdateSettings& settings, std::span<const int64_t> chunks,
                                   const LossTotals& totals) {
  const TrainedSamples trained = trained_samples(batch().chunks, chunks, training().is_trained);
  const at::Tensor positions = index_tensor(trained.positions, replica_.device.device());
  const NetworkOutput output = chunk_forward_.run_trained(tensors(), batch().chunks, chunks);
  const std::optional<OutputGradients> gradients =
      add_loss(settings, {trained.samples, {}}, totals, pick_positions(output.policy, positions),
               pick_positions(output.values, positions));
  if (!gradients) return false;
  backward_outputs(settings, spread(gradients->policy, positions, output.policy),
                   spread(gradients->values, positions, output.values));
  return true;
}

void UpdateForm::backward_outputs(const UpdateSettings& settings, const at::Tensor& outputs, const at::Tensor& values) {
  clock_->mark(&UpdateStages::forward);
  if (last_leaf_ && replica_.device.has_gradient(kLogStd))  // add_loss() has added its gradients
    pieces_.complete(replica_.device.elements(kLogStd), [this](size_t piece) { say_piece(piece); });
  replica_.network->backward(settings.loss.train_policy ? outputs : at::Tensor(), values);
}

double longest_sequence(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head) {
  return static_cast<double>(config.rollout_length * (choice.per_decision ? head.decisions() : 1));
}

int64_t chunks_of(int64_t micro_batch, int64_t steps) {
  TROUPE_CHECK(micro_batch == 0 || micro_batch >= steps, micro_batch, steps);
  return steps > 0 ? micro_batch / steps : micro_batch;
}

}  // namespace troupe
