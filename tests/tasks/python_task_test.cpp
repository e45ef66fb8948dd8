// Whole tasks in Python. Starts Python.

#include "tasks/python_task.h"

#include <set>

#include "runtime/base/errors.h"
#include "tasks/verifier.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"
#include "tests/tasks/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

TaskConfig config_of(const std::string& callable, const std::string& params = R"({"prompts": 100})") {
  TaskConfig config;
  config.name = "py:tests/tasks/python_tasks.py:" + callable;
  config.params = params;
  config.verifier = config.name;
  config.python = test_python();
  return config;
}

// Why the task is refused, without what all such errors begin with.
std::string refusal(const TaskConfig& config) {
  try {
    make_task(config);
  } catch (const ConfigError& error) {
    const std::string what = error.what(), begin = "task.name: \"" + config.name + "\": ";
    return what.starts_with(begin) ? what.substr(begin.size()) : what;
  }
  return "accepted";
}

std::set<std::string> texts_of(const Task& task) {
  std::set<std::string> texts;
  task.for_each_prompt([&](const Prompt& prompt) { texts.insert(prompt.text); });
  return texts;
}

std::vector<double> rewards(const TaskConfig& config, const Prompt& prompt, const std::vector<std::string>& answers) {
  std::vector<VerifierItem> items;
  for (const std::string& answer : answers) items.push_back({prompt.text, prompt.truth, answer, prompt.columns});
  Verifier verifier(verifier_target(config));
  std::vector<double> result;
  for (const Score& score : verifier.score(items)) {
    CHECK_MESSAGE(score.scored == Scored::yes, score.problem);
    result.push_back(score.reward);
  }
  return result;
}

}  // namespace

TEST_CASE("python_task: the object draws the prompts and scores the answers") {
  const TaskConfig config = config_of("Doubles", R"({"prompts": 100, "offset": 7})");
  const auto task = make_task(config);
  CHECK(texts_of(*task).size() == 100);
  CHECK(texts_of(*task).contains("2*106="));
  for (const Split split : {Split::train, Split::held_out}) {
    const Prompt prompt = task->prompt(1, 0, split);
    CHECK(split_of(prompt.text) == split);
    CHECK(rewards(config, prompt, {prompt.demonstration, "x"}) == std::vector<double>{1, 0});
  }
  CHECK(make_task(config)->data_hash() == task->data_hash());
}

TEST_CASE("python_task: without a number, 1000 prompts are drawn") {
  CHECK(texts_of(*make_task(config_of("Doubles", "{}"))).size() == 1000);
}

TEST_CASE("python_task: a prompt may be a conversation") {
  const TaskConfig config = config_of("Doubles", R"({"prompts": 50, "conversation": true})");
  const Prompt prompt = make_task(config)->prompt(1, 0, Split::train);
  REQUIRE(prompt.messages.size() == 2);
  CHECK(prompt.messages[0].second == "Answer briefly.");
  CHECK(rewards(config, prompt, {prompt.demonstration}) == std::vector<double>{1});
}

TEST_CASE("python_task: equal prompts count once, and a task may end early") {
  CHECK(texts_of(*make_task(config_of("Repeats"))).size() == 30);
}

TEST_CASE("python_task: a task may be like a dataset of reasoning_gym") {
  const TaskConfig config = config_of("Squares", R"({"size": 40})");
  const auto task = make_task(config);
  CHECK(texts_of(*task).size() == 40);
  const Prompt prompt = task->prompt(1, 0, Split::train);
  CHECK(prompt.truth == prompt.demonstration);
  CHECK(rewards(config, prompt, {" " + prompt.truth + "\n", "x"}) == std::vector<double>{1, 0.01});
}

TEST_CASE("python_task: a task with other prompts or answers in each process gives no scores") {
  for (const auto& [name, changed] : {std::pair("Changes", "question"), std::pair("ChangesAnswers", "answer")}) {
    const TaskConfig config = config_of(name, R"({"size": 400})");
    const Prompt prompt = make_task(config)->prompt(1, 0, Split::train);
    Verifier verifier(verifier_target(config));
    const std::vector<VerifierItem> items = {{prompt.text, prompt.truth, prompt.truth, prompt.columns}};
    const Score score = verifier.score(items).at(0);
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem.find("has another " + std::string(changed) + " than before") != std::string::npos);
  }
}

TEST_CASE("python_task: an answer that JSON cannot hold is not compared") {
  const TaskConfig config = config_of("Objects", R"({"size": 40})");
  const Prompt prompt = make_task(config)->prompt(1, 0, Split::train);
  CHECK(rewards(config, prompt, {"x"}) == std::vector<double>{0.01});
}

TEST_CASE("python_task: reasoning_gym") {
  if (!python_has("reasoning_gym")) {
    MESSAGE("skipped: " << test_python() << " has no reasoning_gym");
    return;
  }
  TaskConfig config = config_of("", R"({"name": "leg_counting", "size": 50, "seed": 1})");
  config.name = config.verifier = "py:reasoning_gym:create_dataset";
  const auto task = make_task(config);
  CHECK(texts_of(*task).size() == 50);
  const Prompt prompt = task->prompt(1, 0, Split::train);
  CHECK(rewards(config, prompt, {prompt.truth, "no legs"}) == std::vector<double>{1, 0});
}

TEST_CASE("python_task: each way to fail is refused in one line") {
  CHECK(refusal(config_of("Raises")).starts_with("prompt 0: ValueError: no more numbers ("));
  CHECK(refusal(config_of("Lists")) == "prompt 0 is of type list, expected a dict with the key prompt");
  CHECK(refusal(config_of("NoNumber")).starts_with("prompt 0 cannot be written as JSON: "));
  CHECK(refusal(config_of("NoPrompt")) ==
        "task.name: py:tests/tasks/python_tasks.py:NoPrompt: prompt 0: has no \"prompt\", which is required");
  CHECK(refusal(config_of("RaisesLater")).starts_with("prompt 70: ValueError: no number 70 ("));
  CHECK(refusal(config_of("Exits")) == "the task ended with exit code 7; it drew prompts 0 to 63");
  CHECK(refusal(config_of("no_task"))
            .starts_with("the task tests/tasks/python_tasks.py:no_task cannot be loaded: it "
                         "gives an object of type int, expected one with draw(index) and "));
  CHECK(refusal(config_of("Scoreless")).find("it gives an object of type Scoreless, expected one with ") !=
        std::string::npos);
  CHECK(refusal(config_of("Nothing")).ends_with("has no function Nothing"));
  CHECK(refusal(config_of("Doubles", R"({"digits": 2})")).find("unexpected keyword argument 'digits'") !=
        std::string::npos);
  CHECK(refusal(config_of("Doubles", R"({"prompts": 1})")) ==
        "task.params.prompts: 1, expected a whole number from 2 to 1000000");
  int first = 0;  // of two prompts for training
  const auto trains = [](int number) { return split_of("2*" + std::to_string(number) + "=") == Split::train; };
  while (!trains(first) || !trains(first + 1)) ++first;
  CHECK(refusal(config_of("Doubles", R"({"prompts": 2, "offset": )" + std::to_string(first) + '}'))
            .ends_with(
                " gives 2 prompts for training and 0 held-out ones, expected at least 1 of each; use more prompts"));
  TaskConfig hangs = config_of("Hangs");
  hangs.verifier_timeout = std::chrono::milliseconds(200);
  CHECK(refusal(hangs) ==
        "the task has not answered within task.verifier_timeout_ms (200 ms) and was killed; it drew prompts 0 to 63");
  TaskConfig missing = config_of("Doubles");
  missing.python = "/nonexistent/python";
  CHECK(refusal(missing).starts_with("task.python: /nonexistent/python: cannot be started"));
}
