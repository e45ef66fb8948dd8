#include "actors/experience/common/grader.h"

#include <cmath>
#include <exception>
#include <iterator>
#include <stdexcept>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

void require_count(const char* what, size_t count, size_t expected) {
  if (count != expected)
    throw std::runtime_error(std::string("the number of ") + what + " is " + std::to_string(count) + ", expected " +
                             std::to_string(expected));
}

void check(const ScoreRequest& request, const std::vector<Score>& scores) {
  const auto fail = [](const std::string& why) { throw std::runtime_error(why); };
  require_count("scores", scores.size(), request.answers.size());
  for (size_t a = 0; a < scores.size(); ++a) {
    const std::string of = " of the answer \"" + printable(request.answers[a]) + "\" is not finite";
    if (scores[a].scored != Scored::yes) continue;
    if (!std::isfinite(scores[a].reward)) fail("the reward" + of);
    for (const double reward : scores[a].turns)
      if (!std::isfinite(reward)) fail("the reward of a turn" + of);
    for (const auto& [name, value] : scores[a].parts)
      if (!std::isfinite(value)) fail("the part " + printable(name) + of);
  }
}

// The answers of several requests.
struct Joined {
  std::vector<const Prompt*> prompts;
  std::vector<std::string> answers;
  std::vector<AnswerDetails> details;

  explicit Joined(std::span<const ScoreRequest> requests) {
    for (const ScoreRequest& request : requests) {
      prompts.insert(prompts.end(), request.answers.size(), &request.prompt);
      answers.insert(answers.end(), request.answers.begin(), request.answers.end());
      details.insert(details.end(), request.details.begin(), request.details.end());
    }
  }
};

ScoreReply empty_reply(const ScoreRequest& request) {
  return {.id = request.id, .group = request.group, .scores = {}, .error = {}, .kind = request.kind};
}

// The part of each request of what there is for all of them.
template <class T, class Each>
void divide(std::vector<T> all, std::span<const ScoreRequest> requests, Each&& each) {
  auto next = std::make_move_iterator(all.begin());
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto end = next + static_cast<std::ptrdiff_t>(requests[i].answers.size());
    each(i, std::vector<T>(next, end));
    next = end;
  }
}

std::vector<ScoreReply> score_together(Grader& grader, std::span<const ScoreRequest> requests) {
  const Joined all(requests);
  std::vector<ScoreReply> replies;
  for (const ScoreRequest& request : requests) replies.push_back(empty_reply(request));
  if (requests.front().kind == ScoreKind::replies) {
    std::vector<Reply> said = grader.reply(all.prompts, all.answers, all.details);
    require_count("replies", said.size(), all.answers.size());
    divide(std::move(said), requests, [&](size_t i, std::vector<Reply> own) { replies[i].replies = std::move(own); });
    return replies;
  }
  std::vector<Score> scores = grader.score_detailed_each(all.prompts, all.answers, all.details);
  require_count("scores", scores.size(), all.answers.size());
  divide(std::move(scores), requests, [&](size_t i, std::vector<Score> own) {
    check(requests[i], own);
    replies[i].scores = std::move(own);
  });
  return replies;
}

}  // namespace

std::vector<Score> Grader::score_each(PromptOfEach prompts, std::span<const std::string> answers) {
  TROUPE_CHECK(prompts.size() == answers.size(), prompts.size(), answers.size());
  std::vector<Score> scores;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::vector<Score> one = score(*prompts[i], answers.subspan(i, 1));
    TROUPE_CHECK(one.size() == 1, one.size());
    scores.push_back(one.front());
  }
  return scores;
}

std::vector<Reply> Grader::reply(PromptOfEach /*prompts*/, std::span<const std::string> answers, DetailsOfEach) {
  TROUPE_CHECK(false, "a grader that does not reply", answers.size());
  return {};
}

ScoreReply score_reply(Grader& grader, const ScoreRequest& request) {
  const auto begun = std::chrono::steady_clock::now();
  ScoreReply reply = empty_reply(request);
  try {
    if (request.kind == ScoreKind::replies) {
      reply = score_together(grader, {&request, 1}).front();
    } else {
      reply.scores = grader.score_detailed(request.prompt, request.answers, request.details);
      check(request, reply.scores);
    }
  } catch (const std::exception& e) {
    reply.scores.clear();
    reply.error = *e.what() == '\0' ? "an error without a text" : e.what();
  }
  reply.spent = std::chrono::steady_clock::now() - begun;
  return reply;
}

ScoreReplies score_replies(Grader& grader, const ScoreRequests& requests) {
  const auto begun = std::chrono::steady_clock::now();
  ScoreReplies replies;
  if (requests.of.size() > 1) try {
      replies.of = score_together(grader, requests.of);
      replies.of.front().spent = std::chrono::steady_clock::now() - begun;
      return replies;
    } catch (const std::exception&) {
      // One of them may be at fault.
    }
  const auto lost = std::chrono::steady_clock::now() - begun;
  for (const ScoreRequest& request : requests.of) replies.of.push_back(score_reply(grader, request));
  if (!replies.of.empty()) replies.of.front().spent += lost;
  return replies;
}

}  // namespace troupe
