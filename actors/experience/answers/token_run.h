#pragma once
// TokenRun: what all processes of a token run share: its task, its tokenizer and the sizes of prompts and answers.
// Constant once made; any thread.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/experience/answers/generation_scheduler.h"
#include "tasks/task.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace troupe {

struct TokenRun {
  std::shared_ptr<const Task> task;  // none in a process that neither asks nor scores
  uint64_t data_hash = 0;            // of the task
  std::shared_ptr<const Tokenizer> tokenizer;
  int64_t prompt_tokens = 0;   // of the longest prompt
  int64_t answer_tokens = 0;   // of the longest answer, in one turn
  int64_t turns = 1;           // task.turns
  int64_t message_text = 0;    // of the longest text of a message; longer ones are cut
  int64_t message_tokens = 0;  // of the longest message, with what is written around it
  std::vector<int32_t> end_tokens;
  ChatTemplate chat = ChatTemplate::none;
  std::string stop = {};  // generation.stop

  // The most tokens of all answers of a conversation, and of all that follows its prompt.
  int64_t sampled_tokens() const { return turns * answer_tokens; }
  int64_t conversation_tokens() const { return sampled_tokens() + (turns - 1) * message_tokens; }

  // The ids of a prompt, as the model gets it.
  std::vector<int32_t> encode(const Prompt& prompt) const;
  // The ids of a message with this role after an answer that ends as it does. Throws ConfigError for a text that the
  // tokenizer refuses, and for a role that the chat template does not write.
  std::vector<int32_t> encode_message(const std::string& text, Finish finish, std::string_view role = "user") const;
  // The text of an answer, without special tokens and from the stop text on.
  std::string decode(std::span<const int32_t> answer) const;
  GenerationOptions generation(const RunConfig& config) const;
};

// Reads the prompts and the tokenizer. Throws ConfigError naming the setting or the line that is wrong.
std::shared_ptr<const TokenRun> make_token_run(const RunConfig& config);

// The tokenizer of a run alone. Makes the task only if its characters are those of the tokenizer. Throws ConfigError.
std::shared_ptr<const Tokenizer> run_tokenizer(const RunConfig& config);

// Throws ConfigError if a right answer of the task cannot be given: with the tokens of the tokenizer, and with at most
// generation.max_tokens of them. With a warm-up also for demonstrations.
void check_answers(const RunConfig& config, const TokenRun& run);

}  // namespace troupe
