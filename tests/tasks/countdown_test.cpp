#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

bool accepts(const std::string& answer) {
  static const auto task = task_of("countdown");
  return task->score({"3,7,25,25=82:", "82 3 7 25 25", ""}, answer).right;
}

}  // namespace

TEST_CASE("countdown: every expression that reaches the target with the given numbers is right") {
  CHECK(accepts("25+25*3-7-11/11+0") == false);
  CHECK(accepts("25*3+7"));
  CHECK(accepts(" (25 * 3) + 7 "));
  CHECK(accepts("7+3*25"));
  CHECK(accepts("25*(3+7/25)"));  // fractions on the way are exact
}

TEST_CASE("countdown: numbers that are not given, or used more often than given, are wrong") {
  CHECK_FALSE(accepts("82"));
  CHECK_FALSE(accepts("25*3+7+1-1"));
  CHECK_FALSE(accepts("25*3+3+7-3"));
  CHECK_FALSE(accepts("25+25+25+7"));
  CHECK_FALSE(accepts("25*3+8"));
  CHECK_FALSE(accepts("25*3+7=82"));
  CHECK_FALSE(accepts("25*3+7+0"));
  CHECK_FALSE(accepts("-7+3*25"));
  CHECK_FALSE(accepts("25*3+7/0"));
}

TEST_CASE("countdown: a target below the largest number is refused") {
  CHECK_THROWS_WITH(task_of("countdown", R"({"max_number": 50, "max_target": 49})"),
                    "task.params.max_target: 49 is smaller than task.params.max_number, 50; expected at least that");
}

TEST_CASE("countdown: demonstrations use every number once") {
  const auto task = task_of("countdown", R"({"numbers": 6})");
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    const std::string answer = task->draw(rng, Split::train).demonstration;
    int operators = 0;
    for (const char c : answer) operators += std::string("+-*/").find(c) != std::string::npos ? 1 : 0;
    REQUIRE(operators == 5);
  }
}

TEST_CASE("countdown: a wrong answer is told the value of its expression, a right one nothing") {
  const auto task = task_of("countdown");
  const Prompt prompt{"3,7,25,25=82:", "82 3 7 25 25", ""};
  const auto said = [&](const std::string& answer) {
    const std::vector<Turn> turns{{"1", "=:"}, {answer}};
    return task->reply(prompt, turns).value_or("nothing");
  };
  CHECK(task->replies());
  CHECK(said("25*3+7") == "nothing");
  CHECK(said(" 25*3-7") == "=68:");
  CHECK(said("3-25") == "=-22:");
  CHECK(said("3/7") == "=3/7:");
  CHECK(said("25*3+9") == "=:");        // 9 is not given
  CHECK(said("25*3+") == "=:");         // no expression
  CHECK(said("7/25/25-3/25") == "=:");  // -68/625 has more than 6 characters
  CHECK(said("") == "=:");
}

TEST_CASE("countdown: messages keep to their alphabet and their length, in each wording") {
  for (const char* params : {R"({"max_target": 100000})", R"({"max_target": 100000, "wording": "english"})"}) {
    const auto task = task_of("countdown", params);
    Rng rng(derive_key(1, "prompts"));
    size_t longest = 0;
    for (int i = 0; i < 200; ++i) {
      const Prompt prompt = task->propose(rng);
      const size_t comma = prompt.truth.find(' ');
      const std::string first = prompt.truth.substr(comma + 1, prompt.truth.find(' ', comma + 1) - comma - 1);
      for (const std::string& answer : {first, std::string("x")}) {
        const auto message = task->reply(prompt, std::vector<Turn>{{answer}});
        if (!message) continue;
        CHECK(message->find_first_not_of(task->message_alphabet()) == std::string::npos);
        CHECK(message->size() <= task->max_message_length());
        longest = std::max(longest, message->size());
      }
    }
    CHECK(longest > 1);
  }
}
