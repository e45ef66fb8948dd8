// What an update needs of the weights from before it.

#include <algorithm>

#include "models/learning/answers/answer_trainer.h"

namespace troupe {

constexpr int64_t kStartTokens = 1024;  // of one pass without gradients

std::vector<AnswerStart> AnswerTrainer::start(std::span<const AnswerBatch* const> shards, const AnswerNeeds& needs) {
  std::vector<AnswerStart> result(shards.size());
  if (!needs.any()) return result;
  const int64_t most = options_.micro_batch_tokens;
  std::vector<std::vector<MicroBatch>> parts;
  for (size_t i = 0; i < shards.size(); ++i) {
    const AnswerBatch& batch = *shards[i];
    const size_t tokens = batch.tokens.size();
    result[i].log_probs.resize(needs.policy ? tokens : 0);
    result[i].sum_pi_squared.resize(needs.squared ? tokens : 0);
    result[i].values.resize(needs.values ? tokens : 0);
    result[i].final_values.resize(needs.final_values ? static_cast<size_t>(batch.answers()) : 0);
    parts.push_back(cut_answers(batch, most > 0 ? std::min(most, kStartTokens) : kStartTokens, cost_));
    if (needs.policy || needs.values)
      for (const MicroBatch& part : parts.back()) add_start(batch, part, needs, result[i]);
  }
  if (needs.reference) add_references(shards, parts, result);
  return result;
}

AnswerStart AnswerTrainer::start(const AnswerBatch& batch, const AnswerNeeds& needs) {
  return start(std::array{&batch}, needs).front();
}

void AnswerTrainer::begin_update(const AnswerBatch& batch, std::span<const float> log_probs) {
  balance_ = {};
  start_tokens_.open(batch);
  if (!log_probs.empty()) start_tokens_.add(batch, log_probs);
}

// With the decoder of the policy, which has its own weights again afterwards: there is no second one.
void AnswerTrainer::add_references(std::span<const AnswerBatch* const> shards,
                                   std::span<const std::vector<MicroBatch>> parts, std::span<AnswerStart> to) {
  use_policy(*reference_);
  int64_t first = 0, tokens = 0;  // those of the shards before; of all
  for (const AnswerBatch* batch : shards) tokens += std::ssize(batch->tokens);
  const bool rows = exact_kl_ && sum_.holds_all();
  if (rows) reference_hidden_.resize(tokens * shape_.hidden);
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    AnswerStart result;
    result.log_probs.resize(shards[shard]->tokens.size());
    for (const MicroBatch& part : parts[shard]) {
      const PackedAnswers packed = add_start(*shards[shard], part, {.policy = true}, result);
      for (size_t i = 0; rows && i < packed.rows.size(); ++i)
        std::copy_n(hidden_.data() + packed.rows[i] * shape_.hidden, shape_.hidden,
                    reference_hidden_.data() + (first + packed.places[i]) * shape_.hidden);
    }
    to[shard].reference = std::move(result.log_probs);
    first += std::ssize(shards[shard]->tokens);
  }
  use_policy(weights_);
}

// Of the answers of a step that are computed here. Those of the batch would be too many to tell to other ranks.
void AnswerTrainer::compute_reference_rows() {
  use_policy(*reference_);
  const ShardRange& mine = sum_.mine();
  const auto own = std::span(step_.parts).subspan(mine.first, mine.count);
  int64_t tokens = 0;
  for (const std::vector<MicroBatch>& parts : own)
    for (const MicroBatch& part : parts)
      for (const int64_t a : part) tokens += step_.batch->tokens_of(a);
  reference_hidden_.resize(tokens * shape_.hidden);
  step_.reference_rows.assign(step_.batch->tokens.size(), 0);
  int64_t next = 0;
  for (const std::vector<MicroBatch>& parts : own)
    for (const MicroBatch& part : parts) {
      const PackedAnswers packed = pack_answers(*step_.batch, part);
      pass_.forward(packed, hidden_);
      for (size_t i = 0; i < packed.rows.size(); ++i, ++next) {
        step_.reference_rows[static_cast<size_t>(packed.places[i])] = next;
        std::copy_n(hidden_.data() + packed.rows[i] * shape_.hidden, shape_.hidden,
                    reference_hidden_.data() + next * shape_.hidden);
      }
    }
  use_policy(weights_);
}

ReferenceRows AnswerTrainer::reference_rows(const PackedAnswers& packed) {
  reference_part_.resize(static_cast<int64_t>(packed.places.size()) * shape_.hidden);
  float* to = reference_part_.data();
  const std::vector<int64_t>& from = sum_.holds_all() ? step_.batch->drawn_from : step_.reference_rows;
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
