#pragma once
// Answers: what a rollout of a token run holds: prompts, and to each of them some answers that a language model
// sampled, packed without padding. Plain data; immutable once pushed. A sample is an answer.

#include <cstdint>

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
  Array tokens;          // [T] int32 token ids, answer after answer, each at least one token
  Array offsets;         // [S + 1] int64: likewise, of answers
  Array group;           // [S] int32, the prompt of each answer; never decreases
  Array log_probs;       // [T] float32 of the policy that sampled the token, at the temperature of the run
  Array version;         // [T] int64, number of the policy version that computed the token
  Array rewards;         // [S] float32 score of the whole answer
  Array right;           // [S] uint8
  Array finish;          // [S] uint8, a value of Finish

  int64_t groups() const { return prompt_offsets.empty() ? 0 : prompt_offsets.size() - 1; }
  int64_t count() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  bool empty() const { return count() == 0; }

  // use() with all arrays, in the order in which they are sent; `self` may be const.
  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.prompts, self.prompt_offsets, self.tokens, self.offsets, self.group, self.log_probs, self.version,
               self.rewards, self.right, self.finish);
  }
};

}  // namespace troupe
