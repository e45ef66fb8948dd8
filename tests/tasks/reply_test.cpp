// Functions and tasks in Python that give messages. Starts Python.

#include "runtime/base/errors.h"
#include "tasks/make_task.h"
#include "tasks/python_task.h"
#include "tasks/verifier.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

VerifierTarget target_of(const std::string& function) {
  TaskConfig config;
  config.reply = "py:tests/tasks/verifiers.py:" + function;
  config.python = test_python();
  return reply_target(config);
}

// A reply in short: its message, "none" or "failed: PROBLEM".
std::vector<std::string> texts_of(const std::vector<Reply>& replies) {
  std::vector<std::string> texts;
  for (const Reply& reply : replies)
    texts.push_back(!reply.problem.empty() ? "failed: " + reply.problem : reply.message.value_or("none"));
  return texts;
}

const std::vector<VerifierItem> kItems = {{"1+1=", "2", "2", R"({"unit": "apples"})", std::vector<Turn>{}},
                                          {"1+1=", "2", "4", R"({"unit": "apples"})", std::vector<Turn>{{"3", "no"}}}};

std::string read_error(const std::string& line) {
  try {
    read_replies(line, 1, 1);
  } catch (const VerifierFailed& failed) {
    return failed.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("reply: a function gets the answers with their turns, and gives a message or nothing") {
  Verifier verifier(target_of("hint"));
  CHECK(texts_of(verifier.reply(kItems)) == std::vector<std::string>{"none", "4 apples after 3 no: \u00e9"});
  CHECK(verifier.figures().calls == 1);
  CHECK(verifier.figures().failed_calls == 0);
}

TEST_CASE("reply: a reply of a wrong type fails that answer alone") {
  Verifier verifier(target_of("odd_hint"));
  CHECK(texts_of(verifier.reply(kItems)) ==
        std::vector<std::string>{"failed: the reply is of type int, expected a text or None", "fine"});
}

TEST_CASE("reply: a message may have the role of a tool; another role, key or content fails its answer alone") {
  const std::vector<VerifierItem> items(5, kItems[0]);
  const std::vector<Reply> replies = Verifier(target_of("tool")).reply(items);
  REQUIRE(replies.size() == 5);
  CHECK(replies[0].message == "\u00e9");
  CHECK(replies[0].role == "tool");
  CHECK(replies[1].message == "7");
  CHECK(replies[1].role == "user");
  CHECK(texts_of({replies.begin() + 2, replies.end()}) ==
        std::vector<std::string>{"failed: the reply has the role 'system', expected one of: user, tool",
                                 "failed: the reply has the keys 'role', expected 'role' and 'content'",
                                 "failed: the content of the reply is of type int, expected a text"});
}

TEST_CASE("reply: a verifier gets the roles of messages that are not of the user") {
  VerifierTarget target = target_of("roles_before");
  target.replies = false;
  const std::vector<VerifierItem> items = {
      {"1+1=", "2", "4", "{}", std::vector<Turn>{{"3", "no"}, {"5", "6", "tool"}, {"7", "8", "tool"}}}};
  CHECK(Verifier(target).score(items).at(0).reward == 2);
}

TEST_CASE("reply: a call that fails is made once more, and then all its answers have failed") {
  Verifier verifier(target_of("raises"));
  const std::vector<std::string> texts = texts_of(verifier.reply(kItems));
  REQUIRE(texts.size() == 2);
  for (const std::string& text : texts) CHECK(text.starts_with("failed: "));
  CHECK(verifier.figures().calls == 2);
  CHECK(verifier.figures().failed_calls == 2);
}

TEST_CASE("reply: a function that replies gives no scores, and one that scores no replies") {
  Verifier replies(target_of("hint"));
  CHECK(replies.score(kItems).at(0).scored == Scored::failed);
  VerifierTarget scores = target_of("exact");
  scores.replies = false;
  VerifierProcess process(scores);
  process.start();
  CHECK_FALSE(process.replies());
}

TEST_CASE("reply: a verifier gets the turns before an answer") {
  VerifierTarget target = target_of("turns_before");
  target.replies = false;
  Verifier verifier(target);
  const std::vector<Score> scores = verifier.score(kItems);
  CHECK(scores.at(0).reward == 0);
  CHECK(scores.at(1).reward == 1);
}

TEST_CASE("reply: a task in Python replies if its object has the method") {
  TaskConfig config;
  config.name = config.verifier = "py:tests/tasks/python_tasks.py:Hints";
  config.params = R"({"prompts": 100})";
  config.python = test_python();
  const auto task = make_task(config);
  CHECK(task->replies());
  const Prompt prompt = task->listed_prompt(5, Split::train);
  Verifier verifier(verifier_target(config));
  const std::vector<VerifierItem> items = {
      {prompt.text, prompt.truth, prompt.demonstration, prompt.columns, std::vector<Turn>{}},
      {prompt.text, prompt.truth, "0", prompt.columns, std::vector<Turn>{{"1", "too small"}}}};
  CHECK(texts_of(verifier.reply(items)) == std::vector<std::string>{"none", "too small"});
  CHECK(verifier.score(items).at(0).right);
  config.name = config.verifier = "py:tests/tasks/python_tasks.py:Doubles";
  CHECK_FALSE(make_task(config)->replies());
}

TEST_CASE("reply: what is no list of texts is refused") {
  CHECK(read_error(R"({"id": 1, "replies": ["text"]})") == "accepted");
  CHECK(read_error(R"({"id": 1, "replies": [null]})") == "accepted");
  CHECK(read_error(R"({"id": 1, "replies": [1]})") == "reply 0 is 1, expected a text");
  CHECK(read_error(R"({"id": 1, "replies": []})") == "the reply has 0 replies, expected 1");
  CHECK(read_error(R"({"id": 1, "scores": [1]})").starts_with("the reply is \""));
}
