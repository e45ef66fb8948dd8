// What the loss of one part of a minibatch reads besides the forward pass, and the value loss of the part.

#include <algorithm>

#include "models/learning/answers/answer_trainer.h"
#include "models/learning/value_term.h"

namespace troupe {
namespace {

template <class T>
void gather(const std::vector<T>& from, std::span<const int64_t> places, std::vector<T>& to) {
  to.clear();
  for (const int64_t place : places) to.push_back(from[static_cast<size_t>(place)]);
}

// The same where there is something.
template <class T>
void gather_given(const std::vector<T>& from, std::span<const int64_t> places, std::vector<T>& to) {
  to.clear();
  if (!from.empty()) gather(from, places, to);
}

}  // namespace

// The number of tokens that the batch keeps.
double AnswerTrainer::gather_kept(const PackedAnswers& packed) {
  gather_given(step_.batch->kept, packed.places, part_.kept);
  return static_cast<double>(part_.kept.empty() ? std::ssize(packed.places) : std::ranges::count(part_.kept, 1));
}

void AnswerTrainer::gather_part(const PackedAnswers& packed) {
  const AnswerTargets& targets = *step_.targets;
  gather(step_.batch->log_probs, packed.places, part_.behaviour);
  gather(targets.advantages, packed.places, part_.advantages);
  part_.lag_classes.clear();
  for (const int64_t place : packed.places)
    part_.lag_classes.push_back(lag_class(step_.batch->lag(static_cast<size_t>(place))));
  gather_given(targets.reference, packed.places, part_.reference);
  gather_given(targets.old_log_probs, packed.places, part_.correction.old_log_probs);
  gather_given(targets.rollout_weights, packed.places, part_.correction.weights);
  gather_given(targets.kept, packed.places, part_.correction.kept);
}

// After the forward pass.
void AnswerTrainer::correct_part(const PackedAnswers& packed) {
  part_.lags.clear();
  for (const int64_t place : packed.places) part_.lags.push_back(step_.batch->lag(static_cast<size_t>(place)));
  const std::vector<uint8_t> kept = std::move(part_.correction.kept);
  part_.correction = correct_answers(choice_, {.log_probs = part_.log_probs,
                                               .rollout = part_.behaviour,
                                               .offsets = packed.offsets,
                                               .kept = kept,
                                               .advantages = {},
                                               .lags = part_.lags});
}

// The mean over the tokens of the minibatch that the batch keeps.
void AnswerTrainer::add_value_loss(const PackedAnswers& packed, std::span<float> d_hidden, LossReport& report) {
  const size_t count = packed.rows.size();
  for (auto* buffer : {&part_.values, &part_.value_loss, &part_.d_values}) buffer->resize(count);
  gather(step_.targets->values, packed.places, part_.old_values);
  gather(step_.targets->returns, packed.places, part_.returns);
  const LmBatch inputs = packed.inputs();
  const std::span<const float> hidden = critic_.hidden_rows(inputs, hidden_.span(), activations_);
  critic_.values(hidden, packed.rows, part_.values);
  add_value_term({part_.values, part_.old_values, part_.returns, step_.tokens, part_.kept}, choice_.value_loss,
                 options_.value_coef, part_.value_loss, part_.d_values, report);
  critic_.backward(inputs, hidden, packed.rows, part_.d_values, activations_, d_hidden, gradients_.floats());
}

}  // namespace troupe
