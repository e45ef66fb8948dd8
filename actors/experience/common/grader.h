#pragma once
// Grader: gives answers their scores. Owned by a GraderActor, or in a deterministic run by the worker; one thread but
// for figures() and abandon().

#include <span>
#include <string>
#include <vector>

#include "actors/messages/scoring.h"
#include "runtime/stats/verifier_figures.h"

namespace troupe {

using DetailsOfEach = std::span<const AnswerDetails>;

// The prompt of each answer: a prompt with all its messages may be long, and many answers have the same.
using PromptOfEach = std::span<const Prompt* const>;

class Grader {
 public:
  virtual ~Grader() = default;
  // One score per answer, in their order. May block. Throws when there are none.
  virtual std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) = 0;
  // The same of answers to different prompts, one each, in one call where that is faster. If it throws, some of them
  // may still be scored alone: score_replies() does so.
  virtual std::vector<Score> score_each(PromptOfEach prompts, std::span<const std::string> answers);
  // The same two with the details of each answer.
  virtual std::vector<Score> score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                            DetailsOfEach /*details*/) {
    return score(prompt, answers);
  }
  virtual std::vector<Score> score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                                 DetailsOfEach /*details*/) {
    return score_each(prompts, answers);
  }
  // What the task says to each of these answers, of which no conversation has its last turn. May block. Throws where
  // there are no replies; one that the task failed to give says so itself.
  virtual std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details);
  // The most answers to different prompts that are worth a call of this kind; the answers to one prompt are never
  // divided.
  virtual size_t answers_per_call(ScoreKind /*kind*/) const { return 1; }
  // The call under way and all later ones may end at once, without scores. Any thread.
  virtual void abandon() {}
  // Of its verifier, so far. Any thread. All 0 if it has none.
  virtual VerifierFigures figures() const { return {}; }
};

// The reply to a request. It has an error if the grader throws, or if its scores do not fit: another number of them, or
// a reward or a part that is not finite. Or if the number of replies is another one.
ScoreReply score_reply(Grader& grader, const ScoreRequest& request);
// The same of several requests of one kind, which the grader computes in one call, or one after the other if it throws
// in that.
ScoreReplies score_replies(Grader& grader, const ScoreRequests& requests);

}  // namespace troupe
