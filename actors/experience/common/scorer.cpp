#include "actors/experience/common/scorer.h"

#include <cmath>
#include <exception>
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

}  // namespace

std::vector<Score> Scorer::score_each(std::span<const Prompt> prompts, std::span<const std::string> answers) {
  TROUPE_CHECK(prompts.size() == answers.size(), prompts.size(), answers.size());
  std::vector<Score> scores;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::vector<Score> one = score(prompts[i], answers.subspan(i, 1));
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

}  // namespace troupe
