#include "tasks/failure_log.h"

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tasks/verifier.h"
#include "tests/support/test.h"
#include "tests/tasks/verifier_items.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// What is logged while it lives.
class Logged {
 public:
  Logged() { open_log(disk_.open_append("log"), {.to_stderr = false}); }
  ~Logged() { close_log(); }
  Logged(const Logged&) = delete;
  Logged& operator=(const Logged&) = delete;

  // Ends the log.
  std::string text() {
    close_log();
    return disk_.read("log");
  }

 private:
  MemoryDisk disk_;
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

constexpr TokenBucket::Clock::time_point kBegin{};

void add(FailureLog& log, int kind, TokenBucket::Clock::duration after) {
  const std::string name = "Error" + std::to_string(kind);
  log.add(name + ": text", {"Traceback of " + name}, name + " file.py:1", kBegin + after);
}

}  // namespace

TEST_CASE("verifier: the traceback of an exception is logged once") {
  Logged logged;
  FailureLog failures;
  Verifier verifier(target_of("deep"), failures);
  for (int i = 0; i < 2; ++i) verifier.score(kItems);
  const std::string log = logged.text();
  CHECK_MESSAGE(count(log, "ValueError: planned in two lines (/") == 1, log);
  CHECK_MESSAGE(count(log, "KeyError: 'key'") == 1, log);
  CHECK_MESSAGE(count(log, "in inner") == 2, log);  // of both exceptions
  CHECK(count(log, "verifier_server") == 0);
}

TEST_CASE("verifier: an exception does not cost its process, and is logged once whatever its text is") {
  Logged logged;
  FailureLog failures;
  Verifier calls(target_of("raises_with_answer"), failures), answers(target_of("score_with_answer"), failures);
  for (const char* answer : {"1", "2", "3"})
    for (Verifier* verifier : {&calls, &answers}) {
      const std::vector<Score> scores = verifier->score(std::vector{item(answer), item(answer)});
      CHECK(scores.at(1).problem.starts_with("ValueError: no number in " + std::string(answer) + " (/"));
    }
  const std::string log = logged.text();
  CHECK_MESSAGE(count(log, "not logged again") == 2, log);  // one for each function
  CHECK(calls.figures().calls == 6);
  CHECK(calls.figures().failed_calls == 6);
  CHECK(answers.figures().calls == 3);
  CHECK(answers.figures().failed_calls == 0);
  for (const Verifier* verifier : {&calls, &answers}) CHECK(verifier->figures().restarts == 0);
}

TEST_CASE("verifier: of exceptions of a new type each time few are logged, and the others counted at its end") {
  Logged logged;
  FailureLog failures;
  {
    Verifier verifier(target_of("raises_new_type"), failures);
    for (int i = 0; i < 10; ++i) verifier.score(kItems);
    CHECK(verifier.figures().calls == 20);
    CHECK(verifier.figures().failed_calls == 20);
  }
  const std::string log = logged.text();
  CHECK_MESSAGE(count(log, "Traceback (most recent call last)") == 6, log);
  CHECK_MESSAGE(count(log, "14 further failures; the log has at most 6 kinds of failure a minute") == 1, log);
}

TEST_CASE("failure_log: a kind is logged once") {
  Logged logged;
  FailureLog log;
  for (int i = 0; i < 5; ++i) add(log, 1, std::chrono::minutes(i));
  log.end();
  const std::string text = logged.text();
  CHECK(count(text, "Error1: text; failures of this type at this place are not logged again") == 1);
  CHECK(count(text, "Traceback of Error1") == 1);
  CHECK(count(text, "further failure") == 0);
}

TEST_CASE("failure_log: of new kinds few are logged in a minute, and the others are counted once a minute") {
  Logged logged;
  FailureLog log;
  for (int second = 0; second < 180; ++second) add(log, second, std::chrono::seconds(second));
  log.end();
  const std::string text = logged.text();
  CHECK_MESSAGE(count(text, "Traceback of") == 6 + 17, text);  // at once, and one in each 10 s
  CHECK_MESSAGE(count(text, "further failures;") == 3, text);
  uint64_t told = 0;
  for (size_t at = text.find("further failures;"); at != std::string::npos; at = text.find("further failures;", at + 1))
    told += std::stoull(text.substr(text.rfind(": ", at) + 2));
  CHECK_MESSAGE(told + 6 + 17 == 180, text);
}

TEST_CASE("failure_log: a kind that was not logged for the limit is logged later") {
  FailureLog log;
  for (int kind = 0; kind < FailureLog::kKindsPerMinute; ++kind) CHECK(log.take(std::to_string(kind), kBegin));
  CHECK_FALSE(log.take("late", kBegin));
  CHECK(log.take("late", kBegin + std::chrono::minutes(1)));
  CHECK_FALSE(log.take("0", kBegin + std::chrono::minutes(1)));
}
