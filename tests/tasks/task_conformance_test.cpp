// What every task has to fulfil, for every task of the table.

#include <algorithm>
#include <set>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int kDraws = 300;

// Calls check(task, prompt) for prompts of both splits of every task.
template <class Check>
void for_prompts(Check check) {
  for (const TaskConfig& config : every_task()) {
    INFO(config.name << ' ' << config.params);
    const auto task = make_task(config);
    for (const Split split : {Split::train, Split::held_out}) {
      Rng rng(derive_key(5, config.name));
      for (int i = 0; i < kDraws; ++i) check(*task, task->draw(rng, split));
    }
  }
}

bool consists_of(const std::string& text, const std::string& alphabet) {
  return text.find_first_not_of(alphabet) == std::string::npos;
}

}  // namespace

TEST_CASE("tasks: the list of tested configs has every task") {
  std::set<std::string> tested, known;
  for (const TaskConfig& config : every_task()) tested.insert(config.name);
  for (const TaskInfo& info : list_tasks()) known.insert(info.name);
  CHECK(tested == known);
}

TEST_CASE("tasks: a demonstration is right, also with white space around it") {
  for_prompts([](const Task& task, const Prompt& prompt) {
    const Score score = task.score(prompt, prompt.demonstration);
    REQUIRE_MESSAGE(score.right, prompt.text << " -> " << prompt.demonstration);
    REQUIRE(score.reward == 1.0);
    REQUIRE(task.score(prompt, " \n" + prompt.demonstration + "\r\n\t ").right);
  });
}

TEST_CASE("tasks: empty, wrong, overlong and binary answers score 0") {
  const std::vector<std::string> garbage = {"",
                                            " ",
                                            "\n\n",
                                            "-",
                                            "+",
                                            "(",
                                            ")",
                                            "abc",
                                            std::string("\0", 1),
                                            "\xff\xfe",
                                            "\xed\xa0\x80",
                                            "1e3",
                                            "0x1F",
                                            "nan",
                                            std::string(100'000, '1'),
                                            std::string(100'000, '('),
                                            std::string(100'000, ' '),
                                            std::string("12\0", 3)};
  for_prompts([&](const Task& task, const Prompt& prompt) {
    std::vector<std::string> answers = garbage;
    const std::string& right = prompt.demonstration;
    answers.insert(answers.end(),
                   {right + "x", "x" + right, right + " " + right, right + "\xff", right + "=", "=" + right,
                    right + std::string("\0", 1), right + "+1", "-" + right, right + std::string(2000, '0')});
    for (const std::string& answer : answers) {
      const Score score = task.score(prompt, answer);
      REQUIRE_MESSAGE(!score.right, prompt.text << " accepts " << answer.substr(0, 100));
      REQUIRE(score.reward == 0.0);
    }
  });
}

TEST_CASE("tasks: prompts and demonstrations keep to the stated alphabet and lengths") {
  for_prompts([](const Task& task, const Prompt& prompt) {
    REQUIRE(consists_of(prompt.text, task.alphabet()));
    REQUIRE(consists_of(prompt.demonstration, task.alphabet()));
    REQUIRE(prompt.text.size() <= task.max_prompt_length());
    REQUIRE(prompt.demonstration.size() <= task.max_answer_length());
    REQUIRE(prompt.demonstration.size() < kMaxAnswerBytes);
    REQUIRE_FALSE(prompt.text.empty());
    REQUIRE_FALSE(prompt.demonstration.empty());
  });
}

TEST_CASE("tasks: an alphabet has each of its characters once") {
  for (const TaskConfig& config : every_task()) {
    std::string alphabet = make_task(config)->alphabet();
    const std::set<char> characters(alphabet.begin(), alphabet.end());
    CHECK(characters.size() == alphabet.size());
  }
}

TEST_CASE("tasks: prompts for training and for evaluation are disjoint") {
  for (const TaskConfig& config : every_task()) {
    const auto task = make_task(config);
    std::set<std::string> train, held_out;
    Rng rng(1), other(1);
    for (int i = 0; i < kDraws; ++i) {
      train.insert(task->draw(rng, Split::train).text);
      held_out.insert(task->draw(other, Split::held_out).text);
    }
    std::vector<std::string> both;
    std::ranges::set_intersection(train, held_out, std::back_inserter(both));
    CHECK(both.empty());
    for (const std::string& text : held_out) REQUIRE(split_of(text) == Split::held_out);
    for (const std::string& text : train) REQUIRE(split_of(text) == Split::train);
  }
}

TEST_CASE("tasks: about one prompt of eight is held out") {
  const auto task = task_of("reverse");
  Rng rng(3);
  int held_out = 0;
  for (int i = 0; i < 8000; ++i) held_out += split_of(task->propose(rng).text) == Split::held_out ? 1 : 0;
  CHECK(held_out > 850);
  CHECK(held_out < 1150);
}

TEST_CASE("tasks: the same key gives the same prompts, another key others") {
  for (const TaskConfig& config : every_task()) {
    const auto a = make_task(config), b = make_task(config);
    Rng first(9), second(9), third(10);
    std::vector<std::string> prompts, others;
    for (int i = 0; i < 20; ++i) {
      const Prompt prompt = a->draw(first, Split::train), again = b->draw(second, Split::train);
      REQUIRE(prompt.text == again.text);
      REQUIRE(prompt.truth == again.truth);
      REQUIRE(prompt.demonstration == again.demonstration);
      prompts.push_back(prompt.text);
      others.push_back(a->draw(third, Split::train).text);
    }
    CHECK(prompts != others);
  }
}

TEST_CASE("tasks: parameters with too few prompts for two splits are refused") {
  // Two prompts, both in the same split.
  class TwoPrompts : public Task {
   public:
    std::string alphabet() const override { return "01"; }
    size_t max_prompt_length() const override { return 1; }
    size_t max_answer_length() const override { return 1; }
    Prompt propose(Rng& rng) const override { return {rng.below(2) == 0 ? "0" : "1", "", ""}; }

   private:
    bool is_right(const Prompt&, std::string_view) const override { return false; }
  };
  REQUIRE(split_of("0") == split_of("1"));
  CHECK_THROWS_WITH_AS(require_both_splits(TwoPrompts(), "task.params"),
                       "task.params: gives 0 held-out prompts of 1000, expected at least 10 of each split; choose "
                       "parameters with more different prompts",
                       ConfigError);
}
