#pragma once
// AnswerCritic: the value function of a token run, a head on the policy's hidden rows or a decoder of its own with a
// head. Its weights are those of the trainer, which owns it; one thread at a time.

#include <cstdint>
#include <memory>
#include <span>

#include "models/decoder/decoder.h"
#include "models/learning/answers/answer_batch.h"
#include "models/lm/lm_model.h"

namespace troupe {

class AnswerCritic {
 public:
  // All must outlive this.
  AnswerCritic(const LmModel& model, const WeightBlock& weights, ParallelFor& parallel);

  bool used() const { return model_.critic != CriticKind::none; }
  bool separate() const { return model_.critic == CriticKind::separate; }
  // After the weights have changed.
  void use_weights();

  // The critic's hidden rows for these inputs: those of the policy, or with a separate critic its own, whose
  // activations replace those of the policy. Valid until the next call. Only a shared critic reads `of_policy`.
  std::span<const float> hidden_rows(const LmBatch& inputs, std::span<const float> of_policy, Activations& activations);
  // The same without activations, for values alone.
  std::span<const float> hidden_rows(const LmBatch& inputs, std::span<const float> of_policy, KvStore& store);
  // V of chosen rows.
  void values(std::span<const float> hidden, std::span<const int64_t> rows, std::span<float> values);
  // After hidden_rows() of the same inputs: adds the gradients, which are laid out as the trained parameters. Of a
  // shared critic those of the hidden rows are added to d_hidden, unless that is empty.
  void backward(const LmBatch& inputs, std::span<const float> hidden, std::span<const int64_t> rows,
                std::span<const float> d_values, Activations& activations, std::span<float> d_hidden,
                std::span<float> gradients);

 private:
  const LmModel& model_;
  const WeightBlock& weights_;
  ParallelFor& parallel_;
  std::unique_ptr<Decoder> decoder_;  // of a separate critic
  FloatBuffer hidden_, d_hidden_;     // of it
};

}  // namespace troupe
