#include "actors/experience/answers/answer_player.h"

#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "actors/experience/answers/pass_at.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// pass@k as its definition says: the share of all choices of k answers with a right one among them. The first `right`
// of the answers are right.
double counted_pass(int answers, int right, int k) {
  int all = 0, passed = 0;
  for (unsigned chosen = 0; chosen < 1u << answers; ++chosen) {
    if (__builtin_popcount(chosen) != k) continue;
    ++all;
    passed += (chosen & ((1u << right) - 1)) != 0;
  }
  return static_cast<double>(passed) / all;
}

// Every answer ends at once.
class EmptyAnswers final : public Generator {
 public:
  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot&) override {}
  int64_t prompt_slots() const override { return 4; }
  int64_t answer_slots() const override { return 4; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    size_t draws = 0;
    for (const GeneratorPart& part : parts) draws += part.draws.size();
    return std::vector<DrawnToken>(draws, {CharTokenizer::kEos, -0.5f});
  }
};

// Replies to every answer. All are right, with these rewards of turns.
struct TurnGrader final : Grader {
  explicit TurnGrader(std::vector<double> of_turns) : turns(std::move(of_turns)) {}
  std::vector<Score> score(const Prompt&, std::span<const std::string> answers) override {
    return std::vector<Score>(answers.size(), {.reward = 1, .right = true, .turns = turns});
  }
  std::vector<Reply> reply(PromptOfEach, std::span<const std::string> answers, DetailsOfEach) override {
    return std::vector<Reply>(answers.size(), {.message = "=:"});
  }
  std::vector<double> turns;
};

// The score of an answer of two turns.
Score played_score(const std::vector<double>& of_turns) {
  RunConfig config = token_config();
  config.task.name = "countdown";
  config.task.params = R"({"numbers": 2, "max_number": 30, "max_target": 99})";
  config.task.turns = 2;
  const auto run = make_token_run(config);
  EmptyAnswers generator;
  TurnGrader grader(of_turns);
  AnswerPlayer player(config, *run, generator, &grader);
  const Prompt prompt = run->task->held_out(1, 1).at(0);
  player.ask(prompt, run->encode(prompt), {5}, /*greedy=*/true);
  const PlayedAnswer answer = player.finish().at(0).answers.at(0);
  CHECK(answer.details.earlier.size() == 1);
  return answer.score;
}

}  // namespace

TEST_CASE("answer_player: a score with another number of rewards of turns has failed, as in training") {
  for (const std::vector<double>& fits : {std::vector<double>{}, {0.5}}) {
    const Score score = played_score(fits);
    CHECK(score.scored == Scored::yes);
    CHECK(score.turns == fits);
  }
  const Score failed = played_score({0.5, 0.5});
  CHECK(failed.scored == Scored::failed);
  CHECK(failed.problem == "the score has 2 rewards of turns, and the answer 1 turns before the last");
}

TEST_CASE("pass_at: the estimate is the share of choices of k answers with a right one") {
  for (int answers = 1; answers <= 10; ++answers)
    for (int right = 0; right <= answers; ++right)
      for (int k = 1; k <= answers; ++k) {
        CAPTURE(answers);
        CAPTURE(right);
        CAPTURE(k);
        const double estimate =
            pass_at_k(static_cast<uint64_t>(answers), static_cast<uint64_t>(right), static_cast<uint64_t>(k));
        CHECK(estimate == doctest::Approx(counted_pass(answers, right, k)).epsilon(1e-12));
      }
}

TEST_CASE("pass_at: k is 1, 2, 4 and so on, and the number of answers") {
  const auto ks = [](uint64_t answers) {
    std::vector<uint64_t> result;
    for (const auto& [k, passed] : PassAt(answers).result()) {
      result.push_back(k);
      CHECK(std::isnan(passed));
    }
    return result;
  };
  CHECK(ks(1) == std::vector<uint64_t>{1});
  CHECK(ks(4) == std::vector<uint64_t>{1, 2, 4});
  CHECK(ks(6) == std::vector<uint64_t>{1, 2, 4, 6});
}

TEST_CASE("pass_at: pass@1 is the mean over answers, and prompts without enough scores do not count for a larger k") {
  PassAt pass(2);
  pass.add(2, 1);
  pass.add(2, 0);
  pass.add(1, 1);  // the other answer has no score
  pass.add(0, 0);
  const PassAtK result = pass.result();
  REQUIRE(result.size() == 2);
  CHECK(result[0].second == doctest::Approx(2.0 / 5));
  CHECK(result[1].second == doctest::Approx(1.0 / 2));
}

TEST_CASE("answer_player: the line of an answer says what was asked, answered and scored") {
  using Json = nlohmann::ordered_json;
  const Prompt prompt{.text = "1+1=", .truth = "2", .demonstration = ""};
  const PlayedAnswer right{.text = "2",
                           .tokens = {5, 1},
                           .finish = Finish::stop,
                           .score = {.reward = 1.5, .right = true, .parts = {{"format", 0.5}}}};
  const std::string line = answer_line({3, 20}, prompt, right);
  CHECK(line ==
        R"({"updates":20,"epoch":3,"prompt":"1+1=","answer":"2","reward":1.5,"right":true,"parts":{"format":0.5},)"
        R"("finish":"stop","tokens":2})"
        "\n");
  PlayedAnswer with_reference = right;
  with_reference.kl = 0.25;
  CHECK(answer_line({3, 20}, prompt, with_reference)
            .ends_with(R"("finish":"stop","tokens":2,"kl":0.25})"
                       "\n"));
  PlayedAnswer failed{.text = "\xff",
                      .tokens = {5, 6, 7},
                      .finish = Finish::length,
                      .score = {.scored = Scored::failed, .problem = "no such column"}};
  Prompt talk = prompt;
  talk.messages = {{"system", "Add."}, {"user", "1+1"}};
  const Json other = Json::parse(answer_line({0, 0}, talk, failed));
  CHECK(other.at("prompt") ==
        Json::parse(R"([{"role": "system", "content": "Add."}, {"role": "user", "content": "1+1"}])"));
  CHECK(other.at("answer") == "\xef\xbf\xbd");
  CHECK(other.at("reward").is_null());
  CHECK(other.at("right").is_null());
  CHECK(other.at("problem") == "no such column");
  CHECK(other.at("finish") == "length");
  failed.score.scored = Scored::none;
  failed.finish = Finish::text;
  const Json none = Json::parse(answer_line({0, 0}, prompt, failed));
  CHECK(!none.contains("problem"));
  CHECK(none.at("finish") == "text");
}
