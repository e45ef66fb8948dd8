#pragma once
// The bodies of the messages by which a worker of a token run asks for answers. They cross the network.

#include "runtime/base/array.h"

namespace troupe {

struct AnswerRequest {
  Array prompt;  // [P] int32 token ids
  Array keys;    // [n] int64, one per answer: the key of its random stream

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.prompt, self.keys);
  }
};

struct AnswerReply {
  Array tokens;     // [T] int32, answer after answer
  Array offsets;    // [n + 1] int64
  Array log_probs;  // [T] float32
  Array version;    // [T] int64 policy version number
  Array finish;     // [n] uint8, a value of Finish

  template <class Self, class Use> static decltype(auto) fields(Self& self, Use&& use) {
    return use(self.tokens, self.offsets, self.log_probs, self.version, self.finish);
  }
};

}  // namespace troupe
