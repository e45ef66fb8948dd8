#include "tasks/verifier.h"

#include <csignal>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

VerifierTarget target_of(const std::string& function, std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
  return {.function = "tests/tasks/verifiers.py:" + function, .python = "python3", .timeout = timeout};
}

const std::vector<VerifierItem> kItems = {{"1+1=", "2", "2"}, {"1+2=", "3", "4"}};

std::vector<double> rewards_of(const std::optional<std::vector<Verdict>>& verdicts) {
  std::vector<double> rewards;
  if (verdicts)
    for (const Verdict& verdict : *verdicts) rewards.push_back(verdict.reward);
  return rewards;
}

// Why the verifier gives no scores, after it was tried on two processes.
std::string failure_of(VerifierTarget target) {
  Verifier verifier(std::move(target));
  if (verifier.score(kItems)) return "it gave scores";
  CHECK(verifier.figures().calls == 2);
  CHECK(verifier.figures().failures == 2);
  CHECK(verifier.figures().restarts == 1);
  CHECK(verifier.figures().dropped == 2);
  return verifier.last_error();
}

std::string read_error(const std::string& line) {
  try {
    read_verdicts(line, 1, 1);
  } catch (const VerifierFailed& failed) {
    return failed.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("verifier: numbers are rewards, and a reward of 1 is right") {
  Verifier verifier(target_of("exact"));
  const auto verdicts = verifier.score(kItems);
  REQUIRE(verdicts.has_value());
  CHECK(*verdicts == std::vector<Verdict>{{1, true, {}}, {0, false, {}}});
  CHECK(verifier.score({})->empty());
  CHECK(verifier.figures().calls == 2);
  CHECK(verifier.figures().failures == 0);
  CHECK(verifier.figures().seconds > 0);
}

TEST_CASE("verifier: objects have a reward, whether it is right, and parts") {
  Verifier verifier(target_of("with_parts"));
  const auto verdicts = verifier.score(kItems);
  REQUIRE(verdicts.has_value());
  CHECK(verdicts->at(0) == Verdict{0.25, true, {{"format", 1}, {"length", 1}}});
}

TEST_CASE("verifier: answers with quotes, line breaks and bytes that are not UTF-8 arrive") {
  Verifier verifier(target_of("exact"));
  const std::string odd = "\"\n\\ \xc3\xa9 \xf0\x9f\x8e\xad";
  CHECK(rewards_of(verifier.score(std::vector<VerifierItem>{{"", odd, odd}, {"", "\xff", "x"}})) ==
        std::vector<double>{1, 0});
}

TEST_CASE("verifier: a request larger than the buffers of a socket is sent") {
  Verifier verifier(target_of("exact"));
  const std::string large(4 << 20, 'a');
  CHECK(rewards_of(verifier.score(std::vector<VerifierItem>{{large, large, large}})) == std::vector<double>{1});
}

TEST_CASE("verifier: what a function prints does not disturb it") {
  Verifier verifier(target_of("talks"));
  for (int i = 0; i < 3; ++i) CHECK(rewards_of(verifier.score(kItems)) == std::vector<double>{1, 0});
  CHECK(verifier.figures().failures == 0);
}

TEST_CASE("verifier: each way to fail gives no scores and a reason") {
  CHECK(failure_of(target_of("raises")).starts_with("ValueError: planned ("));
  CHECK(failure_of(target_of("exits")) == "the verifier ended with exit code 7");
  CHECK(failure_of(target_of("calls_exit")) ==
        "the verifier ended with exit code 1; the last line of its output: no more");
  CHECK(failure_of(target_of("not_a_number")) == "ValueError: score 0 is nan, expected a finite number");
  CHECK(failure_of(target_of("one_too_few")) == "ValueError: the verifier returned 1 scores, expected 2");
  CHECK(failure_of(target_of("returns_nothing")).starts_with("TypeError: 'NoneType' object is not iterable"));
  CHECK(failure_of(target_of("returns_text")) == "TypeError: score 0 is '1', expected a number");
  CHECK(failure_of(target_of("garbage")).starts_with("the verifier wrote \"\\xff\\x00garbage"));
  CHECK(failure_of(target_of("endless")).starts_with("the verifier sent more than 20480 bytes for one reply"));
  CHECK(failure_of(target_of("hangs", std::chrono::milliseconds(200))) ==
        "the verifier has not answered within the time for one call (200 ms) and was killed");
}

TEST_CASE("verifier: a verifier that cannot be loaded, and a missing interpreter, are reported") {
  CHECK(failure_of(target_of("nothing")) ==
        "the verifier tests/tasks/verifiers.py:nothing cannot be loaded: LookupError: tests/tasks/verifiers.py has no "
        "function nothing");
  VerifierTarget missing = target_of("exact");
  missing.python = "/nonexistent/python";
  CHECK(failure_of(missing).starts_with("/nonexistent/python: cannot be started"));
}

TEST_CASE("verifier: after a failure the next process answers") {
  Verifier verifier(target_of("hangs_at_second", std::chrono::seconds(3)));
  for (int i = 0; i < 3; ++i) CHECK(rewards_of(verifier.score(kItems)) == std::vector<double>{1, 0});
  CHECK(verifier.figures().calls == 5);
  CHECK(verifier.figures().failures == 2);
  CHECK(verifier.figures().restarts == 2);
  CHECK(verifier.figures().dropped == 0);
}

TEST_CASE("verifier: a process that was killed is replaced") {
  VerifierProcess process(target_of("exact"));
  CHECK(process.score(kItems).size() == 2);
  ::kill(process.id(), SIGKILL);
  CHECK_THROWS_AS(process.score(kItems), VerifierFailed);
  CHECK_THROWS_WITH_AS(process.score(kItems), "the process of the verifier has ended", VerifierFailed);
}

TEST_CASE("verifier: replies of a wrong form are refused") {
  CHECK(read_error(R"({"id": 1, "scores": [1]})") == "accepted");
  CHECK(read_error(R"({"id": 2, "scores": [1]})") == "the reply is to request 2, expected 1");
  CHECK(read_error(R"({"id": 1, "scores": [1, 2]})") == "the reply has 2 scores, expected 1");
  CHECK(read_error(R"({"id": 1, "scores": [null]})") == "score 0 is null, expected a number");
  CHECK(read_error(R"({"id": 1, "scores": [2e6]})") == "score 0 is 2000000.0, expected at most 1e6 in magnitude");
  CHECK(read_error(R"({"id": 1, "scores": 3})") == "the reply has 1 scores, expected 1");
  CHECK(read_error(R"({"id": 1})").starts_with("the reply is \""));
  CHECK(read_error(R"({"id": 1, "scores": [{"reward": 1, "right": 1, "parts": {}}]})").starts_with("the reply is \""));
  CHECK(read_error(R"([1])").starts_with("the verifier wrote \"[1]\""));
  CHECK(read_error("").starts_with("the verifier wrote \"\""));
}

TEST_CASE("verifier: a damaged reply is refused or has finite rewards, never anything else") {
  const std::string good = R"({"id": 1, "scores": [0.5, {"reward": 1, "right": true, "parts": {"a": 1e-3}}, -2]})";
  REQUIRE(read_verdicts(good, 1, 3).size() == 3);
  Rng rng(derive_key(1, "verifier/fuzz"));
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string line = good;
    for (uint64_t edits = 1 + rng.below(4); edits > 0; --edits) {
      const size_t at = rng.below(line.size());
      if (rng.below(3) == 0)
        line.erase(at, 1 + rng.below(6));
      else if (rng.below(2) == 0)
        line[at] = static_cast<char>(rng.below(256));
      else
        line.insert(at, line.substr(rng.below(line.size()), rng.below(12)));
      if (line.empty()) line = "{";
    }
    try {
      const auto verdicts = read_verdicts(line, 1, 3);
      REQUIRE(verdicts.size() == 3);
      for (const Verdict& verdict : verdicts) REQUIRE(std::abs(verdict.reward) <= kMostReward);
    } catch (const VerifierFailed&) {
      ++refused;
    }
  }
  CHECK(refused > 10'000);
}
