#pragma once
// Scorer: gives answers their scores. Owned by a ScorerActor, or in a deterministic run by the worker; one thread but
// for figures() and abandon().

#include <span>
#include <string>
#include <vector>

#include "actors/messages/scoring.h"
#include "runtime/stats/verifier_figures.h"

namespace troupe {

// The ids of each answer, which end with an end token unless the answer was cut.
using AnswerTokens = std::span<const std::vector<int32_t>>;

// The prompt of each answer: a prompt with all its messages may be long, and many answers have the same.
using PromptOfEach = std::span<const Prompt* const>;

class Scorer {
 public:
  virtual ~Scorer() = default;
  // One score per answer, in their order. May block. Throws when there are none.
  virtual std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) = 0;
  // The same of answers to different prompts, one each, in one call where that is faster. If it throws, some of them
  // may still be scored alone: score_replies() does so.
  virtual std::vector<Score> score_each(PromptOfEach prompts, std::span<const std::string> answers);
  // The same two for answers whose tokens are known, which only some scorers read.
  virtual std::vector<Score> score_tokens(const Prompt& prompt, std::span<const std::string> answers,
                                          AnswerTokens /*tokens*/) {
    return score(prompt, answers);
  }
  virtual std::vector<Score> score_tokens_each(PromptOfEach prompts, std::span<const std::string> answers,
                                               AnswerTokens /*tokens*/) {
    return score_each(prompts, answers);
  }
  // The most answers to different prompts that are worth a call; the answers to one prompt are never divided.
  virtual size_t answers_per_call() const { return 1; }
  // The call under way and all later ones may end at once, without scores. Any thread.
  virtual void abandon() {}
  // Of its verifier, so far. Any thread. All 0 if it has none.
  virtual VerifierFigures figures() const { return {}; }
};

// The reply to a request. It has an error if the scorer throws, or if its scores do not fit: another number of them, or
// a reward or a part that is not finite.
ScoreReply score_reply(Scorer& scorer, const ScoreRequest& request);
// The same of several requests, which the scorer computes in one call, or one after the other if it throws in that.
ScoreReplies score_replies(Scorer& scorer, const ScoreRequests& requests);

}  // namespace troupe
