#include "actors/experience/answers/answer_player.h"

#include <cmath>
#include <numeric>

#include <nlohmann/json.hpp>

#include "actors/experience/answers/pass_at.h"
#include "tests/support/test.h"

using namespace troupe;

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

}  // namespace

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
