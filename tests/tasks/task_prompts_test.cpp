// The prompts of each task, by example.

#include <algorithm>

#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

Prompt first_prompt(const std::string& name, const std::string& params = "{}") {
  Rng rng(1);
  return task_of(name, params)->draw(rng, Split::train);
}

}  // namespace

TEST_CASE("reverse: the answer has the digits in reverse order") {
  const Prompt prompt = first_prompt("reverse");
  CHECK(prompt.text.size() == 9);
  CHECK(prompt.text.back() == '>');
  CHECK(prompt.truth == std::string(prompt.text.rbegin() + 1, prompt.text.rend()));
}

TEST_CASE("sort: the answer has the digits in ascending order") {
  const Prompt prompt = first_prompt("sort");
  std::string digits = prompt.text.substr(0, 8);
  std::ranges::sort(digits);
  CHECK(prompt.truth == digits);
}

TEST_CASE("addition: the answer is the sum of two numbers with so many digits") {
  const Prompt prompt = first_prompt("addition");
  CHECK(prompt.text.size() == 8);
  CHECK(std::stoi(prompt.text.substr(0, 3)) + std::stoi(prompt.text.substr(4, 3)) == std::stoi(prompt.truth));
}

TEST_CASE("chain_sum: both wordings have the same sum") {
  const Prompt symbols = first_prompt("chain_sum");
  int sum = 0, at = 0;
  for (size_t used = 0; symbols.text[static_cast<size_t>(at)] != '='; at += static_cast<int>(used))
    sum += std::stoi(symbols.text.substr(static_cast<size_t>(at)), &used);
  CHECK(std::to_string(sum) == symbols.truth);
  const Prompt english = first_prompt("chain_sum", R"({"wording": "english"})");
  CHECK(english.text.starts_with("Calculate "));
  CHECK(english.text.ends_with(". Answer with the number only."));
}

TEST_CASE("chain_sum: leading zeros and signs are not part of an answer") {
  const auto task = task_of("chain_sum");
  const Prompt prompt{"10-25=", "-15", "-15"};
  CHECK(task->score(prompt, "-15").right);
  for (const char* answer : {"15", "-015", "- 15", "+-15", "-15.0", "-15.", "\u221215"})
    CHECK_FALSE(task->score(prompt, answer).right);
}

// A change of these prompts makes earlier runs impossible to repeat.
TEST_CASE("tasks: the first prompt of each task is pinned") {
  CHECK(first_prompt("reverse").text == "46690539>");
  CHECK(first_prompt("sort").text == "46690539>");
  CHECK(first_prompt("addition").text == "968+859=");
  CHECK(first_prompt("countdown").text == "19,10,2,23=4:");
  CHECK(first_prompt("countdown").demonstration == "19+10-(23+2)");
  CHECK(first_prompt("chain_sum").text == "16+52+10=");
}

TEST_CASE("tasks: the n-th prompt of a generated task is drawn with its number alone") {
  const auto task = task_of("reverse");
  Rng rng(derive_key(3, "prompt", 17));
  CHECK(task->prompt(3, 17, Split::train).text == task->draw(rng, Split::train).text);
  CHECK(split_of(task->prompt(3, 17, Split::held_out).text) == Split::held_out);
}
