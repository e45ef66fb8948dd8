#pragma once
// Answers: what a rollout of a token run holds: prompts, and to each of them some answers that a language model
// sampled, packed without padding. Plain data; immutable once pushed. A sample is an answer, in all turns of its
// conversation.

#include <cstdint>

#include "models/experience/answer_request.h"
#include "runtime/base/array.h"

namespace troupe {

// Why an answer ended.
enum class Finish : uint8_t {
  stop = 0,    // it gave an end token, which is the last of its tokens
  length = 1,  // it reached the largest number of tokens
  text = 2,    // it has the text generation.stop, completed by the last of its tokens
};

struct Answers {
  Array prompts;         // [P] int32 token ids, prompt after prompt
  Array prompt_offsets;  // [G + 1] int64: prompt g is prompts[prompt_offsets[g]] .. prompts[prompt_offsets[g + 1] - 1]
  AnswerReply sampled;   // S answers
  Array group;           // [S] int32, the prompt of each answer; never decreases
  Array rewards;         // [S] float32 score of the whole answer
  Array right;           // [S] uint8
  Array baselines = {};  // [G] float32 score of the most likely answer to each prompt, or empty
  Array reference = {};  // [T] float32 log-probabilities of the tokens by the reference, or empty = the trainer's work
  MessageTokens messages = {};
  Array turn_rewards = {};  // [T] float32: of `rewards`, what comes with the ends of turns before the last; or empty

  int64_t groups() const { return prompt_offsets.empty() ? 0 : prompt_offsets.size() - 1; }
  int64_t count() const { return sampled.count(); }
  bool empty() const { return count() == 0; }

  // use() with all arrays, in the order in which they are sent; `self` may be const.
  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    const auto in_order = [&](auto& tokens, auto& offsets, auto& log_probs, auto& version,
                              auto& finish) -> decltype(auto) {
      return use(self.prompts, self.prompt_offsets, tokens, offsets, self.group, log_probs, version, self.rewards,
                 self.right, finish, self.baselines, self.reference, self.messages.ids, self.messages.lengths,
                 self.turn_rewards);
    };
    return AnswerReply::fields(self.sampled, in_order);
  }
};

}  // namespace troupe
