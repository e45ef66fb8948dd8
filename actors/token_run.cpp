#include "actors/token_run.h"

#include "runtime/base/errors.h"
#include "tasks/make_task.h"
#include "text/make_tokenizer.h"

namespace troupe {
namespace {

// The tokenizer of the config; without an alphabet, that of the task.
std::shared_ptr<const Tokenizer> tokenizer_of(const RunConfig& config, const Task& task) {
  TokenizerConfig tokenizer = config.tokenizer;
  if (tokenizer.kind == "char" && tokenizer.alphabet.empty()) tokenizer.alphabet = task.alphabet();
  std::shared_ptr<const Tokenizer> made = make_tokenizer(tokenizer);
  try {
    made->encode(task.alphabet());
  } catch (const ConfigError& missing) {
    throw ConfigError("tokenizer.alphabet: lacks a character of the task " + config.task.name + ": " + missing.what());
  }
  return made;
}

}  // namespace

std::vector<int32_t> TokenRun::encode(const Prompt& prompt) const { return tokenizer->encode_prompt(prompt.text); }

std::string TokenRun::decode(std::span<const int32_t> answer) const {
  return tokenizer->decode(answer, SpecialTokens::skip);
}

GenerationOptions TokenRun::generation(const RunConfig& config) const {
  return {.prefill_tokens = config.generation.prefill_tokens, .end_tokens = end_tokens};
}

std::shared_ptr<const TokenRun> make_token_run(const RunConfig& config) {
  auto run = std::make_shared<TokenRun>();
  run->task = make_task(config.task);
  run->tokenizer = tokenizer_of(config, *run->task);
  const std::optional<int32_t> end = run->tokenizer->eos();
  if (!end) throw ConfigError("tokenizer.eos: the tokenizer has no token that ends an answer; name one");
  run->end_tokens = {*end};
  // A token has at least one byte, so a text has at most as many tokens as bytes.
  run->prompt_tokens = static_cast<int64_t>(run->task->max_prompt_length()) + 1;
  const int64_t longest = static_cast<int64_t>(run->task->max_answer_length()) + 1;
  run->answer_tokens = config.generation.max_tokens > 0 ? config.generation.max_tokens : longest;
  return run;
}

}  // namespace troupe
