#pragma once
// Scorer: gives answers their scores. Owned by a ScorerActor, or in a deterministic run by the worker; one thread.

#include <span>
#include <string>
#include <vector>

#include "actors/messages/scoring.h"

namespace troupe {

class Scorer {
 public:
  virtual ~Scorer() = default;
  // One score per answer, in their order. May block. Throws when there are none.
  virtual std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) = 0;
};

// The reply to a request. It has an error if the scorer throws, or if its scores do not fit: another number of them, or
// a reward or a part that is not finite.
ScoreReply score_reply(Scorer& scorer, const ScoreRequest& request);

}  // namespace troupe
