#pragma once
// The bodies of the messages by which a worker of a token run asks for answers, and for scores of them. They cross the
// network.

#include <cstdint>

#include "runtime/base/array.h"

namespace troupe {

struct AnswerRequest {
  Array prompt;                  // [P] int32 token ids
  Array keys;                    // [n] int64, one per answer: the key of its random stream
  Array greedy{DType::u8, {0}};  // [n] uint8, 1 = the most likely answer instead, which comes last; or empty = none
  // Of a later turn: what follows the prompt so far, answers and messages, for one answer after the other. Else empty.
  Array history{DType::i32, {0}};          // [H] int32 token ids
  Array history_offsets{DType::i64, {0}};  // [n + 1] int64, as the offsets of AnswerReply

  bool continues() const { return !history_offsets.empty(); }
  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.prompt, self.keys, self.greedy, self.history, self.history_offsets);
  }
};

// The tokens of a task's messages between the tokens of answers. All empty if there are none.
struct MessageTokens {
  Array ids{DType::i32, {0}};      // [M] int32, in the order of the tokens that they come before
  Array lengths{DType::i32, {0}};  // [T] int32: so many of them come directly before each token of the answers
};

// The answers to one request, in one turn. Rollouts hold them too (models/experience/answers.h).
struct AnswerReply {
  Array tokens;     // [T] int32 token ids, answer after answer, each at least one token
  Array offsets;    // [n + 1] int64: answer i is tokens[offsets[i]] .. tokens[offsets[i + 1] - 1]
  Array log_probs;  // [T] float32 of the policy that sampled the token, at the temperature of the run
  Array version;    // [T] int64, number of the policy version that computed the token
  Array finish;     // [n] uint8, a value of Finish

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.tokens, self.offsets, self.log_probs, self.version, self.finish);
  }

  // use(name, array, dtype) with the arrays that have one element for each token, and with those that have one for each
  // answer: together all but `offsets`.
  template <class Self, class Use> static void per_token(Self& self, Use&& use) {
    use("tokens", self.tokens, DType::i32);
    use("log_probs", self.log_probs, DType::f32);
    use("version", self.version, DType::i64);
  }
  template <class Self, class Use> static void per_answer(Self& self, Use&& use) {
    use("finish", self.finish, DType::u8);
  }

  int64_t count() const { return offsets.empty() ? 0 : offsets.size() - 1; }
};

// Answers to a prompt, to be scored by frozen models: the reference, the reward model, or both.
struct ScoringRequest {
  Array prompt;   // [P] int32 token ids
  Array tokens;   // [T] int32 token ids, answer after answer, each at least one token
  Array offsets;  // [n + 1] int64, as in AnswerReply
  MessageTokens messages = {};

  int64_t count() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.prompt, self.tokens, self.offsets, self.messages.ids, self.messages.lengths);
  }
};

struct ScoringReply {
  Array reference;  // [T] float32 log-probabilities of the tokens at the temperature of the run, or empty = not asked
  Array scores;     // [n] float32 of the reward model, or empty = not asked

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.reference, self.scores);
  }
};

}  // namespace troupe
