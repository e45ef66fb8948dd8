#pragma once
// Conversation: one answer to a prompt in all its turns: what the policy sampled, and the messages of the task between.
// Plain values; any thread.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
#include "actors/experience/answers/token_run.h"
#include "actors/messages/scoring.h"
#include "models/experience/answers.h"

namespace troupe {

class Conversation {
 public:
  // The answer of the next turn, with its text.
  void add_answer(const GeneratedAnswer& answer, std::string text);
  // What the task says to it, which has a message: there is a next turn.
  void add_message(const Reply& reply, const std::vector<int32_t>& ids);
  // The task failed on the last answer. `why` is one line.
  void fail(std::string why) { problem_ = std::move(why); }

  const std::vector<Turn>& turns() const { return turns_; }
  // Of all turns together; it ended as the last one.
  const GeneratedAnswer& sampled() const { return sampled_; }
  // All that follows the prompt.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  // As MessageTokens.
  const std::vector<int32_t>& messages() const { return messages_; }
  const std::vector<int32_t>& message_lengths() const { return message_lengths_; }
  // How many sampled tokens there are up to the end of each turn.
  const std::vector<size_t>& ends() const { return ends_; }
  // Why it has no score, where the task failed on it.
  const std::string& problem() const { return problem_; }

  // The last answer, for graders.
  const std::string& text() const { return turns_.back().answer; }
  AnswerDetails details() const { return {tokens_, {turns_.begin(), turns_.end() - 1}}; }

 private:
  std::vector<Turn> turns_;
  GeneratedAnswer sampled_;
  std::vector<int32_t> tokens_, messages_, message_lengths_;
  std::vector<size_t> ends_;
  int32_t said_ = 0;  // tokens of the message before the next answer
  std::string problem_;
};

// Why the model cannot read the message of this reply, in one line; empty if it can.
std::string problem_of_message(const TokenRun& run, const Reply& reply);

// Adds what the task says to the last answer. Returns whether there is a next turn. A message that cannot be encoded is
// a failure of the task.
bool continue_conversation(const TokenRun& run, const Reply& reply, Conversation& conversation);

// A score whose rewards of turns are not as many as the turns before the last one has failed.
void check_turn_rewards(size_t turns_before_last, Score& score);
// What is final about the scores of these conversations: one on which the task failed has none, nor has one whose
// rewards of turns are not as many as its turns before the last.
void check_turns(std::span<const Conversation> conversations, std::span<Score> scores);
// [T] the rewards of turns before the last ones, at the last tokens of these; empty if no score has any.
Array turn_rewards(std::span<const Conversation> conversations, std::span<const Score> scores);

// The key of the random stream of an answer in a turn, which counts from 0, given that of its first turn.
uint64_t turn_key(uint64_t key, size_t turn);

// The answers of one turn.
std::vector<GeneratedAnswer> unpacked(const AnswerReply& reply);
AnswerReply packed(std::span<const GeneratedAnswer> answers);
// All turns of these conversations as one answer each, and their messages; both empty for none.
AnswerReply packed(std::span<const Conversation> conversations);
MessageTokens messages_of(std::span<const Conversation> conversations);

// Asks what the task says to these answers, or for their scores.
ScoreRequest score_request(ScoreKind kind, const Prompt& prompt, std::span<const Conversation* const> conversations);

}  // namespace troupe
