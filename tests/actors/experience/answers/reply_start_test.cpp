// Functions in Python that reply to answers (tests/tasks/verifiers.py): tried before a run, and counted in it.
#include <array>
#include <string>
#include <vector>

#include "actors/experience/answers/python_grader.h"
#include "actors/experience/answers/token_run.h"
#include "tests/support/config_error.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr const char* kFile = "py:tests/tasks/verifiers.py:";

RunConfig config_with(const std::string& function, int64_t turns = 3) {
  RunConfig config = token_config();
  config.task.turns = turns;
  config.task.message_tokens = 4;
  config.task.reply = kFile + function;
  return config;
}

// The error at the start of a run with this config.
std::string refusal(const RunConfig& config) {
  return config_error_of([&] { try_reply(config, *make_token_run(config)); });
}

bool names_function(const std::string& error, const std::string& function) {
  return error.starts_with("task.reply: \"" + (kFile + function) + "\" does not reply to the answer \"") &&
         error.find("\" to the prompt \"") != std::string::npos && error.find('\n') == std::string::npos;
}

std::vector<Reply> replies_of(PythonGrader& grader) {
  const Prompt prompt{.text = "123=", .truth = "321", .demonstration = "321"};
  const std::array<std::string, 2> answers{"321", "123"};
  const std::vector<AnswerDetails> details{{{}, std::vector<Turn>{}}, {{}, std::vector<Turn>{}}};
  return grader.reply(std::array{&prompt, &prompt}, answers, details);
}

}  // namespace

TEST_CASE("try_reply: a function whose messages the model can read is accepted") {
  CHECK(refusal(config_with("digit")) == "no error");
  RunConfig none = token_config();
  none.task.verifier = std::string(kFile) + "exact";
  CHECK(refusal(none) == "no error");
}

TEST_CASE(
    "try_reply: a message with a character that the tokenizer lacks is refused, with the function and the prompt") {
  for (const char* function : {"unreadable", "unreadable_to_second", "unreadable_later"}) {
    CAPTURE(function);
    const std::string error = refusal(config_with(function));
    CHECK_MESSAGE(names_function(error, function), error);
    CHECK_MESSAGE(error.find("(U+00C4) is not in the alphabet of the tokenizer") != std::string::npos, error);
  }
}

TEST_CASE("try_reply: with two turns there is no later message") {
  CHECK(refusal(config_with("unreadable_later", 2)) == "no error");
}

TEST_CASE("try_reply: a result of a wrong type, and an exception, are refused") {
  const std::string odd = refusal(config_with("odd_hint")), raises = refusal(config_with("raises"));
  CHECK_MESSAGE(names_function(odd, "odd_hint"), odd);
  CHECK(odd.ends_with(": the reply is of type int, expected a text or None"));
  CHECK_MESSAGE(names_function(raises, "raises"), raises);
  CHECK(raises.find(": ValueError: planned (/") != std::string::npos);
  CHECK(refusal(config_with("nothing")) ==
        "task.reply: the reply function tests/tasks/verifiers.py:nothing cannot be loaded: "
        "tests/tasks/verifiers.py has no function nothing");
}

TEST_CASE("try_reply: a role for which the chat template has no place is refused") {
  const std::string error = refusal(config_with("tool"));
  CHECK_MESSAGE(names_function(error, "tool"), error);
  CHECK(error.find("none has no place for a message with the role \"tool\"") != std::string::npos);
}

TEST_CASE("python_grader: replies that the model cannot read have failed, and are counted as replies, not as scores") {
  const RunConfig config = config_with("unreadable_to_second");
  PythonGrader grader(reply_target(config.task), /*turns=*/true, make_token_run(config));
  const std::vector<Reply> replies = replies_of(grader);
  REQUIRE(replies.size() == 2);
  CHECK(replies[0].problem.empty());
  CHECK_FALSE(replies[1].message.has_value());
  CHECK(replies[1].problem.find("is not in the alphabet") != std::string::npos);
  CHECK(grader.figures().replied == 1);
  CHECK(grader.figures().failed_replies == 1);
  CHECK(grader.figures().scored == 0);
  CHECK(grader.figures().failed_calls == 0);
}

TEST_CASE("python_grader: the replies of a call that failed twice have failed") {
  const RunConfig config = config_with("raises");
  PythonGrader grader(reply_target(config.task), /*turns=*/true, make_token_run(config));
  for (const Reply& reply : replies_of(grader)) CHECK_FALSE(reply.problem.empty());
  CHECK(grader.figures().replied == 0);
  CHECK(grader.figures().failed_replies == 2);
  CHECK(grader.figures().failed_calls == 2);
}
