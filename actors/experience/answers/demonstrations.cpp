#include "actors/experience/answers/demonstrations.h"

#include <vector>

#include "actors/experience/answers/token_run.h"
#include "models/learning/answers/answer_batch.h"
#include "runtime/base/rng.h"

namespace troupe {

std::unique_ptr<StagedBatch> draw_demonstrations(const RunSpec& spec, uint64_t key, int64_t count) {
  const TokenRun& run = *spec.tokens;
  auto result = std::make_unique<AnswerBatch>();
  AnswerBatch& batch = *result;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(derive_key(key, "demonstration", static_cast<uint64_t>(i)));
    const Prompt prompt = run.task->draw(rng, Split::train);
    const std::vector<int32_t> ids = run.encode(prompt), answer = run.tokenizer->encode(prompt.demonstration);
    batch.prompts.insert(batch.prompts.end(), ids.begin(), ids.end());
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    batch.tokens.insert(batch.tokens.end(), answer.begin(), answer.end());
    batch.tokens.push_back(run.end_tokens.front());
    batch.offsets.push_back(static_cast<int64_t>(batch.tokens.size()));
    batch.rewards.push_back(1);
    batch.group_offsets.push_back(i + 1);
  }
  batch.log_probs.assign(batch.tokens.size(), 0.0f);
  return result;
}

}  // namespace troupe
