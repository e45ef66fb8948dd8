#include "tasks/verifier.h"

#include <csignal>
#include <thread>

#include "runtime/base/child_memory.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"
#include "tests/tasks/verifier_items.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// A score in short: "1 right", "0.25", "none" or "failed: PROBLEM"; with its parts "0.5 {format 1, length 2}".
std::string text_of(const Score& score) {
  if (score.scored == Scored::none) return "none";
  if (score.scored == Scored::failed) return "failed: " + score.problem;
  std::string parts;
  for (const auto& [name, value] : score.parts) parts += (parts.empty() ? "" : ", ") + name + ' ' + number_text(value);
  return number_text(score.reward) + (score.right ? " right" : "") + (parts.empty() ? "" : " {" + parts + '}');
}

using Texts = std::vector<std::string>;

Texts texts_of(const std::vector<Score>& scores) {
  Texts texts;
  for (const Score& score : scores) texts.push_back(text_of(score));
  return texts;
}

Texts scores_of(const std::string& function, const std::vector<VerifierItem>& items) {
  Verifier verifier(target_of(function));
  return texts_of(verifier.score(items));
}

// Why the verifier gives no scores, after it was tried twice: on the same process, or on two.
std::string failure_of(VerifierTarget target, uint64_t restarts = 1) {
  Verifier verifier(std::move(target));
  const std::vector<Score> scores = verifier.score(kItems);
  CHECK(verifier.figures().calls == 2);
  CHECK(verifier.figures().failed_calls == 2);
  CHECK(verifier.figures().restarts == restarts);
  CHECK(verifier.figures().scored == 0);
  REQUIRE(scores.size() == 2);
  for (const Score& score : scores) {
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem == verifier.last_error());
  }
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
  CHECK(texts_of(verifier.score(kItems)) == Texts{"1 right", "0"});
  CHECK(verifier.score({}).empty());
  CHECK(verifier.figures().calls == 2);
  CHECK(verifier.figures().failed_calls == 0);
  CHECK(verifier.figures().scored == 2);
  CHECK(verifier.figures().busy_us > 0);
}

TEST_CASE("verifier: objects have a reward, whether it is right, and parts") {
  CHECK(scores_of("with_parts", kItems) == Texts{"0.25 right {format 1, length 1}", "0.25 right {format 1, length 1}"});
}

TEST_CASE("verifier: answers with quotes, line breaks and bytes that are not UTF-8 arrive") {
  const std::string odd = "\"\n\\ \xc3\xa9 \xf0\x9f\x8e\xad";
  CHECK(scores_of("exact", {{"", odd, odd}, {"", "\xff", "x"}}) == Texts{"1 right", "0"});
}

TEST_CASE("verifier: a request larger than the buffers of a socket is sent") {
  const std::string large(4 << 20, 'a');
  CHECK(scores_of("exact", {{large, large, large}}) == Texts{"1 right"});
}

TEST_CASE("verifier: what a function prints does not disturb it") {
  Verifier verifier(target_of("talks"));
  for (int i = 0; i < 3; ++i) CHECK(texts_of(verifier.score(kItems)) == Texts{"1 right", "0"});
  CHECK(verifier.figures().failed_calls == 0);
}

TEST_CASE("verifier: each way to fail gives no scores and a reason") {
  CHECK(failure_of(target_of("raises"), 0).starts_with("ValueError: planned ("));
  CHECK(failure_of(target_of("exits")) == "the verifier ended with exit code 7");
  CHECK(failure_of(target_of("calls_exit")) ==
        "the verifier ended with exit code 1; the last line of its output: no more");
  CHECK(failure_of(target_of("one_too_few"), 0) == "the verifier returned 1 scores, expected 2");
  CHECK(failure_of(target_of("returns_nothing"), 0) == "the verifier returned nothing, expected a list of 2 scores");
  CHECK(failure_of(target_of("garbage")).starts_with("the verifier wrote \"\\xff\\x00garbage"));
  CHECK(failure_of(target_of("endless")).starts_with("the verifier sent more than 278528 bytes for one reply"));
  CHECK(failure_of(target_of("hangs", std::chrono::milliseconds(200))) ==
        "the verifier has not answered within task.verifier_timeout_ms (200 ms) and was killed");
}

TEST_CASE("verifier: a call for several prompts is not made again, and has no scores if it fails") {
  Verifier verifier(target_of("raises_at_poison"));
  const std::vector<VerifierItem> poisoned = {{"1+1=", "2", "2"}, {"2+1=", "3", "poison"}};
  CHECK_THROWS_AS(verifier.score_together(poisoned), VerifierFailed);
  CHECK(verifier.figures().calls == 1);
  CHECK(texts_of(verifier.score_together(kItems)) == Texts{"1 right", "0"});
  verifier.abandon();
  CHECK(verifier.score_together(kItems).at(1).scored == Scored::failed);
}

TEST_CASE("verifier: a verifier that cannot be loaded, and a missing interpreter, are reported") {
  CHECK(failure_of(target_of("nothing")) ==
        "the verifier tests/tasks/verifiers.py:nothing cannot be loaded: tests/tasks/verifiers.py has no function "
        "nothing");
  CHECK(failure_of(target_of("Judge"))
            .ends_with("Judge in tests/tasks/verifiers.py is a class, expected a function or "
                       "an object that can be called"));
  CHECK(failure_of({.function = "no_such_module:reward", .python = "python3"}) ==
        "the verifier no_such_module:reward cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'");
  CHECK(failure_of({.function = "tests/tasks/none.py:reward", .python = "python3"}).find("there is no file /") !=
        std::string::npos);
  VerifierTarget missing = target_of("exact");
  missing.python = "/nonexistent/python";
  CHECK(failure_of(missing).starts_with("/nonexistent/python: cannot be started"));
}

TEST_CASE("verifier: a value of a wrong form fails that answer alone") {
  const std::vector<VerifierItem> items(13, item("2"));
  Verifier verifier(target_of("some_wrong"));
  const std::string keys =
      "the score has the keys ['score'], expected reward or parts, and optionally right, weights and turns";
  CHECK(texts_of(verifier.score(items)) ==
        Texts{"failed: the score is nan, expected a finite number",
              "failed: the score is inf, expected a finite number", "failed: the score is '1', expected a number",
              "failed: the score is of type list, expected a number",
              "failed: the score is 2000000.0, expected at most 1e+06 in magnitude", "failed: " + keys,
              "failed: right is 'yes', expected a number",
              "failed: a part of the score has a name of 0 bytes, expected 1 to 64",
              "failed: the score has a weight for 'b', which is none of its parts a",
              "failed: part 'a' of the score is nan, expected a finite number",
              "failed: the score has a reward, so its weights have no effect; leave one of them out", "none", "0.5"});
  CHECK(verifier.figures().calls == 1);
  CHECK(verifier.figures().failed_calls == 0);
  CHECK(verifier.figures().scored == 1);
  CHECK(scores_of("not_a_number", kItems)[1] == "failed: the score is nan, expected a finite number");
  CHECK(scores_of("returns_text", kItems)[0] == "failed: the score is '1', expected a number");
  CHECK(scores_of("too_large", kItems)[0] == "failed: the score is too large, expected at most 1e+06 in magnitude");
}

TEST_CASE("verifier: without a reward it is the weighted sum of the parts") {
  CHECK(scores_of("weighted", {item("2")}) == Texts{"0.75 {format 1, answer 0.5}"});
}

TEST_CASE("verifier: a list of answers has the columns of their prompts") {
  const std::string columns = R"({"level": 3, "tags": ["a", "b"], "answer": "hidden"})";
  CHECK(scores_of("echo", {item("2", columns), item("3", columns), item("2", "{}"), item("2", "not JSON")}) ==
        Texts{"1 right", "0", "0", "0"});
  CHECK(scores_of("judge", kItems) == Texts{"1 right", "0"});
  CHECK(scores_of("judge.method", kItems) == Texts{"1 right", "0"});
}

TEST_CASE("verifier: functions in the form of TRL get lists of columns") {
  const std::string two = R"({"ground_truth": "2", "task": "length"})", other = R"({"task": "other"})";
  CHECK(scores_of("boxed", {item("so \\boxed{2}.", two), item("2", two)}) == Texts{"1 right", "0"});
  CHECK(scores_of("nothing_for_some", {item("abc", two), item("abc", other), item("abc", two)}) ==
        Texts{"3 right", "none", "3 right"});
  CHECK(scores_of("slowly", {item("a"), item("")}) == Texts{"1 right", "0"});
  CHECK(scores_of("only_completions", {item("abc", two)}) == Texts{"3 right"});
  CHECK(scores_of("optional_ids", {item("abc", two)}) == Texts{"1 right"});
  CHECK(scores_of("everything", {item("2", R"({"level": 1, "prompt": "1+1=", "completion": "2"})")}) ==
        Texts{"1 right"});
  CHECK(scores_of("requires_column", {item("2", R"({"solution": "2"})")}) == Texts{"1 right"});
}

TEST_CASE("verifier: with prompts that are messages, TRL's completions are messages too") {
  const std::string chat = R"({"prompt": [{"role": "system", "content": "s"}, {"role": "user", "content": "1+1="}]})";
  CHECK(scores_of("thinks", {item("<think>1\n</think>2", chat), item("2", chat)}) == Texts{"1 right", "0"});
}

TEST_CASE("verifier: functions in the form of verl get one answer") {
  const std::string good =
      R"({"data_source": "arithmetic", "reward_model": {"style": "rule", "ground_truth": "2"}, "extra_info": {"index": 7}})";
  CHECK(scores_of("compute_score", {item("2", good), item("3", good)}) ==
        Texts{"1 right {acc 1, index 7}", "0.1 {acc 0, index 7}"});
  CHECK(scores_of("short_score", {item("2"), item("2", R"({"ground_truth": "4"})")}) == Texts{"1 right", "0"});
  CHECK(scores_of("judged", {item("2", good), item("3", good)}) == Texts{"1 right", "0"});
}

TEST_CASE("verifier: in verl's form, the default of the function applies to a prompt without a truth") {
  const VerifierItem without{.prompt = "1+1=", .truth = "", .answer = "none"};
  CHECK(scores_of("default_truth", {without, item("none"), item("2")}) == Texts{"1 right", "0", "1 right"});
}

TEST_CASE("verifier: a prompt lacks what a parameter without a default needs") {
  const auto problem = [](const std::string& function, const Prompt& prompt) {
    VerifierProcess process(target_of(function));
    process.start();
    return problem_of_prompt(prompt, process.needs());
  };
  const std::string solution = R"({"prompt": "a", "solution": "2"})";
  const Prompt with_truth{.text = "a", .truth = "2", .columns = solution}, without{.text = "a", .columns = solution};
  for (const char* function : {"compute_score", "short_score", "judged"}) {
    CAPTURE(function);
    CHECK(problem(function, with_truth) == "");
    CHECK(problem(function, {.text = "a", .columns = R"({"reward_model": {"ground_truth": null}})"}) == "");
    CHECK(
        problem(function, without) ==
        "the verifier requires ground_truth, but the prompt has no \"reward_model.ground_truth\", \"ground_truth\" or "
        "\"truth\", only \"prompt\" and \"solution\"; add it, or give the parameter a default");
  }
  CHECK(problem("compute_scores", without).starts_with("the verifier requires ground_truths, but the prompt has no "));
  CHECK(problem("default_truth", without) == "");
  CHECK(problem("short_scores", without) == "");
  CHECK(problem("requires_column", without) == "");
  CHECK(problem("requires_column", {.text = "a", .truth = "2"}) ==
        "the verifier requires solution, but the prompt has no \"solution\"; add it, or give the parameter a default");
  CHECK(problem("exact", {.text = "a"}) == "");
}

TEST_CASE("verifier: an exception in verl's form fails that answer alone") {
  const std::string good = R"({"data_source": "arithmetic", "extra_info": {"index": 0}})",
                    bad = R"({"data_source": "x"})";
  const Texts texts = scores_of("compute_score", {item("2", good), item("2", bad)});
  CHECK(texts[0] == "1 right {acc 1, index 0}");
  CHECK(texts[1].starts_with("failed: NotImplementedError: no reward for data_source='x' (/"));
  Verifier verifier(target_of("compute_score"));
  CHECK(texts_of(verifier.score(std::vector{item("2", bad)}))[0] == texts[1]);
  CHECK(verifier.figures().calls == 1);
  CHECK(verifier.figures().failed_calls == 0);
}

TEST_CASE("verifier: functions in verl's form for batches get lists, and an exception fails the call") {
  const std::string good =
      R"({"data_source": "arithmetic", "reward_model": {"style": "rule", "ground_truth": "2"}, "extra_info": {"index": 7}})";
  const std::vector<VerifierItem> items = {item("2", good), item("3", good)};
  CHECK(scores_of("compute_scores", items) == Texts{"1 right {acc 1, index 7}", "0.1 {acc 0, index 7}"});
  CHECK(scores_of("short_scores", {item("2"), item("2", R"({"ground_truth": "4"})")}) == Texts{"1 right", "-0.5"});
  CHECK(scores_of("wrong_scores", {item("1"), item("2"), item("3")}) ==
        Texts{"failed: the score is nan, expected a finite number", "none", "0.5"});
  CHECK(failure_of(target_of("compute_scores"), 0).starts_with("NotImplementedError: no reward for data_source='' (/"));
}

TEST_CASE("verifier: parameters that are given by keywords alone decide the form by their names too") {
  for (const char* function : {"named_score", "named_scores"})
    CHECK(scores_of(function, {item("2"), item("3")}) == Texts{"1 right", "0"});
}

TEST_CASE("verifier: parameters that fit no form, or that troupe cannot give, are refused by name") {
  const auto refusal = [](const std::string& function) {
    const std::string error = failure_of(target_of(function)),
                      begin = "the verifier tests/tasks/verifiers.py:" + function + " cannot be loaded: ";
    CHECK(error.starts_with(begin));
    return error.substr(std::min(begin.size(), error.size()));
  };
  CHECK(refusal("three_things") ==
        "its parameters (first, second, third) fit none of the forms: (prompts, completions, **columns) as in TRL, "
        "(data_source, solution_str, ground_truth, extra_info) as in verl, the same in the plural for its batches, or "
        "one parameter for the list of answers");
  CHECK(refusal("requires_ids_of_batch") ==
        "it requires the parameter task_ids, which troupe does not give; give it a default");
  CHECK(refusal("requires_ids") ==
        "it requires the parameter completion_ids, which troupe does not give; remove it, or give it a default");
  CHECK(failure_of(target_of("requires_column"), 0) ==
        "the verifier requires the column solution, which the prompts lack; they have truth");
}

TEST_CASE("verifier: after a failure the next process answers") {
  Verifier verifier(target_of("hangs_at_second", std::chrono::seconds(3)));
  for (int i = 0; i < 3; ++i) CHECK(texts_of(verifier.score(kItems)) == Texts{"1 right", "0"});
  CHECK(verifier.figures().calls == 5);
  CHECK(verifier.figures().failed_calls == 2);
  CHECK(verifier.figures().restarts == 2);
  CHECK(verifier.figures().scored == 6);
}

TEST_CASE("verifier: once it is abandoned, calls end at once without scores, and no process is left") {
  Verifier verifier(target_of("hangs", std::chrono::hours(1)));
  std::thread other([&] { verifier.abandon(); });  // before, during or after the start of the process
  const std::vector<Score> scores = verifier.score(kItems);
  other.join();
  REQUIRE(scores.size() == 2);
  CHECK(scores[0].scored == Scored::failed);
  const uint64_t calls = verifier.figures().calls;
  CHECK(calls <= 1);
  CHECK(verifier.score(kItems)[1].scored == Scored::failed);
  CHECK(verifier.figures().calls == calls);
  CHECK(resident_bytes(ChildKind::verifier) == 0);
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
  CHECK(read_error(R"({"id": 1, "scores": ["1"]})") == "score 0 is \"1\", expected a number");
  CHECK(read_error(R"({"id": 1, "scores": [null]})") == "accepted");
  CHECK(read_error(R"({"id": 1, "scores": [{"failed": "why"}]})") == "accepted");
  CHECK(read_error(R"({"id": 1, "scores": [{"failed": 1}]})").starts_with("the reply is \""));
  CHECK(read_error(R"({"id": 1, "error": "why", "traceback": [1]})") == "why");
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
      for (const Verdict& verdict : verdicts) REQUIRE(std::abs(verdict.score.reward) <= kMostReward);
    } catch (const VerifierFailed&) {
      ++refused;
    }
  }
  CHECK(refused > 10'000);
}
