#include "actors/experience/common/scorer.h"

#include <cmath>
#include <stdexcept>

#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Planned final : Scorer {
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

TEST_CASE("scorer: the reply has the scores and names its request") {
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

TEST_CASE("scorer: an exception, another number of scores and numbers that are not finite are errors") {
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
