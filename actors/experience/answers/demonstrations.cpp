#include "actors/experience/answers/demonstrations.h"

#include <optional>
#include <string>
#include <vector>

#include "actors/experience/answers/token_run.h"
#include "models/learning/answers/answer_batch.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

// Adds wrong answers and what the task says to them, `count` at most: they are read like a prompt, and not trained on.
void add_attempts(const RunSpec& spec, const Prompt& prompt, int64_t count, Rng& rng, std::vector<int32_t>& ids) {
  const TokenRun& run = *spec.tokens;
  if (!spec.config.task.reply.empty() || !run.task->replies()) return;
  const auto append = [&](const std::vector<int32_t>& more) { ids.insert(ids.end(), more.begin(), more.end()); };
  std::vector<Turn> turns;
  for (int64_t i = 0; i < count; ++i) {
    turns.push_back({run.task->attempt(prompt, rng)});
    const std::string& answer = turns.back().answer;
    const auto message = answer.empty() ? std::nullopt : run.task->reply(prompt, turns);
    if (!message) return;
    append(run.tokenizer->encode(answer));
    ids.push_back(run.end_tokens.front());
    append(run.encode_message(*message, Finish::stop));
    turns.back().message = *message;
  }
}

}  // namespace

std::unique_ptr<StagedBatch> draw_demonstrations(const RunSpec& spec, uint64_t key, int64_t count) {
  const TokenRun& run = *spec.tokens;
  auto result = std::make_unique<AnswerBatch>();
  AnswerBatch& batch = *result;
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (int64_t i = 0; i < count; ++i) {
    Rng rng(derive_key(key, "demonstration", static_cast<uint64_t>(i)));
    const Prompt prompt = run.task->draw(rng, Split::train);
    std::vector<int32_t> ids = run.encode(prompt);
    const std::vector<int32_t> answer = run.tokenizer->encode(prompt.demonstration);
    add_attempts(spec, prompt, i % run.turns, rng, ids);
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
