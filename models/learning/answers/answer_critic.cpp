#include "models/learning/answers/answer_critic.h"

#include <algorithm>

#include "models/lm/lm_weights.h"

namespace troupe {

AnswerCritic::AnswerCritic(const LmModel& model, const WeightBlock& weights, ParallelFor& parallel)
    : model_(model), weights_(weights), parallel_(parallel) {
  if (separate()) decoder_ = std::make_unique<Decoder>(model.shape, parallel);
}

void AnswerCritic::use_weights() {
  if (separate()) decoder_->load(critic_weights(model_, weights_));
}

std::span<const float> AnswerCritic::hidden_rows(const LmBatch& inputs, std::span<const float> of_policy,
                                                 Activations& activations) {
  if (!separate()) return of_policy;
  hidden_.resize(inputs.tokens() * model_.shape.hidden);
  decoder_->forward_training(inputs, activations, hidden_.span());
  return hidden_.span();
}

std::span<const float> AnswerCritic::hidden_rows(const LmBatch& inputs, std::span<const float> of_policy,
                                                 KvStore& store) {
  if (!separate()) return of_policy;
  hidden_.resize(inputs.tokens() * model_.shape.hidden);
  decoder_->forward(inputs, store, hidden_.span());
  return hidden_.span();
}

void AnswerCritic::values(std::span<const float> hidden, std::span<const int64_t> rows, std::span<float> values) {
  head_values(hidden, rows, head_weights(weights_), values, parallel_);
}

void AnswerCritic::backward(const LmBatch& inputs, std::span<const float> hidden, std::span<const int64_t> rows,
                            std::span<const float> d_values, Activations& activations, std::span<float> d_hidden,
                            std::span<float> gradients) {
  const ValueHeadTensors<const float> head = head_weights(weights_);
  const ValueHeadTensors<float> of_head = head_gradients(weights_, gradients);
  if (!separate()) return head_values_backward(hidden, rows, head, d_values, of_head, d_hidden, parallel_);
  d_hidden_.resize(static_cast<int64_t>(hidden.size()));
  std::ranges::fill(d_hidden_.span(), 0.0f);
  head_values_backward(hidden, rows, head, d_values, of_head, d_hidden_.span(), parallel_);
  decoder_->backward(inputs, activations, d_hidden_.span(), critic_gradients(model_, weights_, gradients));
}

}  // namespace troupe
