#include "actors/experience/common/grader.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Planned final : Grader {
  std::vector<Score> scores;
  std::string error;
  std::vector<Score> score(const Prompt&, std::span<const std::string>) override {
    if (!error.empty()) throw std::runtime_error(error);
    return scores;
  }
};

ScoreReply reply_of(Planned planned) {
  return score_reply(planned, {.id = 7, .group = 2, .prompt = {}, .answers = {"a", "b"}});
}

}  // namespace

TEST_CASE("grader: the reply has the scores and names its request") {
  Planned planned;
  planned.scores = {{.reward = 1, .right = true}, {.reward = -2, .right = false, .parts = {{"format", -2}}}};
  const ScoreReply reply = reply_of(planned);
  CHECK(reply.id == 7);
  CHECK(reply.group == 2);
  CHECK(reply.error.empty());
  REQUIRE(reply.scores.size() == 2);
  CHECK(reply.scores[0].right);
  CHECK(reply.scores[1].reward == -2);
  CHECK(reply.scores[1].parts == planned.scores[1].parts);
}

TEST_CASE("grader: an exception, another number of scores and numbers that are not finite are errors") {
  Planned planned;
  planned.error = "no such file";
  CHECK(reply_of(planned).error == "no such file");
  planned.error.clear();
  planned.scores.resize(1);
  CHECK(reply_of(planned).error == "the number of scores is 1, expected 2");
  planned.scores.resize(2);
  planned.scores[1].reward = std::nan("");
  CHECK(reply_of(planned).error == "the reward of the answer \"b\" is not finite");
  planned.scores[1].reward = 0;
  planned.scores[0].parts = {{"format", INFINITY}};
  CHECK(reply_of(planned).error == "the part format of the answer \"a\" is not finite");
  CHECK(reply_of(planned).scores.empty());
}

TEST_CASE("grader: requests that are computed together get the replies that they would get alone") {
  // Scores an answer by its length.
  struct Lengths final : Grader {
    std::string refused;  // an answer
    int calls = 0;
    std::vector<Score> score(const Prompt& prompt, std::span<const std::string> answers) override {
      return score_each(std::vector<const Prompt*>(answers.size(), &prompt), answers);
    }
    std::vector<Score> score_each(PromptOfEach prompts, std::span<const std::string> answers) override {
      ++calls;
      std::vector<Score> scores;
      for (size_t i = 0; i < answers.size(); ++i) {
        if (answers[i] == refused) throw std::runtime_error("refused");
        scores.push_back({.reward = static_cast<double>(answers[i].size() + 10 * prompts[i]->text.size())});
      }
      return scores;
    }
  } lengths;
  const auto request = [](uint64_t id, const std::string& prompt, std::vector<std::string> answers) {
    return ScoreRequest{
        .id = id, .group = static_cast<uint32_t>(id + 5), .prompt = {.text = prompt}, .answers = std::move(answers)};
  };
  const ScoreRequests requests{{request(1, "a", {"x", "xx"}), request(2, "aa", {"xxx"}), request(3, "", {"x", ""})}};
  for (const char* refused : {"none", "xxx"}) {
    lengths.refused = refused;
    lengths.calls = 0;
    const ScoreReplies replies = score_replies(lengths, requests);
    CHECK(lengths.calls == (lengths.refused == "none" ? 1 : 4));
    REQUIRE(replies.of.size() == 3);
    for (size_t i = 0; i < 3; ++i) {
      const ScoreReply alone = score_reply(lengths, requests.of[i]), &reply = replies.of[i];
      CHECK(reply.id == requests.of[i].id);
      CHECK(reply.group == requests.of[i].group);
      CHECK(reply.error == alone.error);
      REQUIRE(reply.scores.size() == alone.scores.size());
      for (size_t a = 0; a < alone.scores.size(); ++a) CHECK(reply.scores[a].reward == alone.scores[a].reward);
    }
    CHECK(replies.of[1].error == (lengths.refused == "none" ? "" : "refused"));
  }
}
