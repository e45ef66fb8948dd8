#include "models/learning/answers/started_answers.h"

#include <cstdint>

#include "models/shards/shard_values.h"

namespace troupe {
namespace {

// Each column of a batch and of a start. A column that is in no list would be lost.
template <class Batch, class Visit>
void visit_batch(Batch& batch, Visit visit) {
  visit(batch.prompts);
  for (auto* offsets : {&batch.prompt_offsets, &batch.group_offsets, &batch.offsets}) visit(*offsets);
  visit(batch.tokens);
  visit(batch.log_probs);
  visit(batch.versions);
  for (auto* flags : {&batch.kept, &batch.cut}) visit(*flags);
  for (auto* numbers : {&batch.rewards, &batch.baselines, &batch.reference, &batch.turn_rewards}) visit(*numbers);
  visit(batch.messages);
  for (auto* places : {&batch.message_offsets, &batch.drawn_from}) visit(*places);
}
static_assert(sizeof(AnswerBatch) == sizeof(StagedBatch) + 16 * sizeof(std::vector<float>));

template <class Start, class Visit>
void visit_start(Start& start, Visit visit) {
  for (auto* numbers : {&start.log_probs, &start.sum_pi_squared, &start.values, &start.final_values, &start.reference})
    visit(*numbers);
}
static_assert(sizeof(AnswerStart) == 5 * sizeof(std::vector<float>));

}  // namespace

Array bytes_of(const AnswerBatch& batch, const AnswerStart& start) {
  ShardBytes bytes;
  put(bytes, std::vector<uint64_t>{batch.index, batch.samples});
  const auto put_column = [&](const auto& column) { put(bytes, column); };
  visit_batch(batch, put_column);
  visit_start(start, put_column);
  return Array::of(bytes);
}

StartedAnswers started_answers(const Array& bytes) {
  StartedAnswers result;
  ByteReader reader(bytes.view<uint8_t>());
  std::vector<uint64_t> counts;
  reader.take_column(counts);
  TROUPE_CHECK(counts.size() == 2, counts.size());
  result.batch.index = counts[0];
  result.batch.samples = counts[1];
  const auto take = [&](auto& column) { reader.take_column(column); };
  visit_batch(result.batch, take);
  visit_start(result.start, take);
  reader.end();
  return result;
}

AnswerStart joined_starts(std::span<const AnswerStart* const> shards) {
  AnswerStart result;
  std::vector<std::vector<float>*> columns;
  visit_start(result, [&](std::vector<float>& column) { columns.push_back(&column); });
  for (const AnswerStart* shard : shards) {
    size_t i = 0;
    visit_start(*shard, [&](const std::vector<float>& column) {
      columns[i]->insert(columns[i]->end(), column.begin(), column.end());
      ++i;
    });
  }
  return result;
}

}  // namespace troupe
