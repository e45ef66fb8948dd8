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
