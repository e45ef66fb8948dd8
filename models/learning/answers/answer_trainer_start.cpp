// What an update needs of the weights from before it.

#include <algorithm>

#include "models/learning/answers/answer_trainer.h"

namespace troupe {

constexpr int64_t kStartTokens = 1024;  // of one pass without gradients

AnswerStart AnswerTrainer::start(const AnswerBatch& batch, const AnswerNeeds& needs) {
  AnswerStart result;
  balance_ = {};
  start_tokens_.open(batch);
  if (!needs.any()) return result;
  const size_t tokens = batch.tokens.size();
  result.log_probs.resize(needs.policy ? tokens : 0);
  result.sum_pi_squared.resize(needs.squared ? tokens : 0);
  result.values.resize(needs.values ? tokens : 0);
  result.final_values.resize(needs.final_values ? static_cast<size_t>(batch.answers()) : 0);
  const int64_t most = options_.micro_batch_tokens;
  const std::vector<MicroBatch> parts =
      cut_answers(batch, most > 0 ? std::min(most, kStartTokens) : kStartTokens, cost_);
  if (needs.policy || needs.values)
    for (const MicroBatch& part : parts) add_start(batch, part, needs, result);
  if (needs.policy) start_tokens_.add(batch, result.log_probs);
  result.reference.resize(needs.reference ? tokens : 0);
  if (needs.reference) add_reference(batch, parts, result.reference);
  return result;
}

// With the decoder of the policy, which has its own weights again afterwards: there is no second one.
void AnswerTrainer::add_reference(const AnswerBatch& batch, std::span<const MicroBatch> parts,
                                  std::vector<float>& log_probs) {
  use_policy(*reference_);
  if (exact_kl()) reference_hidden_.resize(static_cast<int64_t>(batch.tokens.size()) * shape_.hidden);
  AnswerStart result;
  for (const MicroBatch& part : parts) {
    result.log_probs.swap(log_probs);
    const PackedAnswers packed = add_start(batch, part, {.policy = true}, result);
    result.log_probs.swap(log_probs);
    for (size_t i = 0; exact_kl() && i < packed.rows.size(); ++i)
      std::copy_n(hidden_.data() + packed.rows[i] * shape_.hidden, shape_.hidden,
                  reference_hidden_.data() + packed.places[i] * shape_.hidden);
  }
  use_policy(weights_);
}

ReferenceRows AnswerTrainer::reference_rows(const PackedAnswers& packed) {
  reference_part_.resize(static_cast<int64_t>(packed.places.size()) * shape_.hidden);
  float* to = reference_part_.data();
  const std::vector<int64_t>& from = step_.batch->drawn_from;
  for (const int64_t place : packed.places) {
    const int64_t at = from.empty() ? place : from[static_cast<size_t>(place)];
    to = std::copy_n(reference_hidden_.data() + at * shape_.hidden, shape_.hidden, to);
  }
  return {reference_part_.span(),
          model_.lora.used() ? &packed_frozen(model_, parallel_)->output() : &reference_output_};
}

PackedAnswers AnswerTrainer::add_start(const AnswerBatch& batch, const MicroBatch& answers, const AnswerNeeds& needs,
                                       AnswerStart& result) {
  PackedAnswers packed = pack_answers(batch, answers, needs.final_values);
  if (needs.policy || !critic_.separate()) pass_.forward(packed, hidden_);
  if (needs.policy) pass_.log_probs(packed, hidden_.span(), result.log_probs, result.sum_pi_squared);
  if (!needs.values) return packed;
  const std::span<const float> hidden = critic_.hidden_rows(packed.inputs(), hidden_.span(), pass_.store(packed));
  part_.values.resize(packed.rows.size());
  critic_.values(hidden, packed.rows, part_.values);
  scatter(part_.values, packed.places, result.values);
  part_.values.resize(packed.last_rows.size());
  critic_.values(hidden, packed.last_rows, part_.values);
  scatter(part_.values, packed.answers, result.final_values);
  return packed;
}

}  // namespace troupe
