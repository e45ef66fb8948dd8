#include "actors/experience/common/scorer.h"

#include <cmath>
#include <exception>
#include <iterator>
#include <stdexcept>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

void check(const ScoreRequest& request, const std::vector<Score>& scores) {
  const auto fail = [](const std::string& why) { throw std::runtime_error(why); };
  if (scores.size() != request.answers.size())
    fail("the number of scores is " + std::to_string(scores.size()) + ", expected " +
         std::to_string(request.answers.size()));
  for (size_t a = 0; a < scores.size(); ++a) {
    const std::string of = " of the answer \"" + printable(request.answers[a]) + "\" is not finite";
    if (scores[a].scored != Scored::yes) continue;
    if (!std::isfinite(scores[a].reward)) fail("the reward" + of);
    for (const auto& [name, value] : scores[a].parts)
      if (!std::isfinite(value)) fail("the part " + printable(name) + of);
  }
}

std::vector<ScoreReply> score_together(Scorer& scorer, const std::vector<ScoreRequest>& requests) {
  std::vector<const Prompt*> prompts;
  std::vector<std::string> answers;
  std::vector<std::vector<int32_t>> tokens;
  for (const ScoreRequest& request : requests) {
    prompts.insert(prompts.end(), request.answers.size(), &request.prompt);
    answers.insert(answers.end(), request.answers.begin(), request.answers.end());
    tokens.insert(tokens.end(), request.tokens.begin(), request.tokens.end());
  }
  std::vector<Score> scores = scorer.score_tokens_each(prompts, answers, tokens);
  if (scores.size() != answers.size())
    throw std::runtime_error("the number of scores is " + std::to_string(scores.size()) + ", expected " +
                             std::to_string(answers.size()));
  std::vector<ScoreReply> replies;
  auto next = std::make_move_iterator(scores.begin());
  for (const ScoreRequest& request : requests) {
    const auto end = next + static_cast<std::ptrdiff_t>(request.answers.size());
    replies.push_back({.id = request.id, .group = request.group, .scores = {next, end}, .error = {}});
    check(request, replies.back().scores);
    next = end;
  }
  return replies;
}

}  // namespace

std::vector<Score> Scorer::score_each(PromptOfEach prompts, std::span<const std::string> answers) {
  TROUPE_CHECK(prompts.size() == answers.size(), prompts.size(), answers.size());
  std::vector<Score> scores;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::vector<Score> one = score(*prompts[i], answers.subspan(i, 1));
    TROUPE_CHECK(one.size() == 1, one.size());
    scores.push_back(one.front());
  }
  return scores;
}

ScoreReply score_reply(Scorer& scorer, const ScoreRequest& request) {
  const auto begun = std::chrono::steady_clock::now();
  ScoreReply reply{.id = request.id, .group = request.group, .scores = {}, .error = {}};
  try {
    reply.scores = scorer.score_tokens(request.prompt, request.answers, request.tokens);
    check(request, reply.scores);
  } catch (const std::exception& e) {
    reply.scores.clear();
    reply.error = *e.what() == '\0' ? "an error without a text" : e.what();
  }
  reply.spent = std::chrono::steady_clock::now() - begun;
  return reply;
}

ScoreReplies score_replies(Scorer& scorer, const ScoreRequests& requests) {
  const auto begun = std::chrono::steady_clock::now();
  ScoreReplies replies;
  if (requests.of.size() > 1) try {
      replies.of = score_together(scorer, requests.of);
      replies.of.front().spent = std::chrono::steady_clock::now() - begun;
      return replies;
    } catch (const std::exception&) {
      // One of them may be at fault.
    }
  const auto lost = std::chrono::steady_clock::now() - begun;
  for (const ScoreRequest& request : requests.of) replies.of.push_back(score_reply(scorer, request));
  if (!replies.of.empty()) replies.of.front().spent += lost;
  return replies;
}

}  // namespace troupe
