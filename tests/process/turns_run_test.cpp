// Token runs whose answers have several turns, with real processes.

#include <signal.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kCountdown{"task.name=countdown", R"(task.params={"numbers": 2, "max_number": 9, "max_target": 20})",
                       "warmup.steps=60", "warmup.pass_at_1=0"};

Words line_of(const std::string& folder, const Words& settings) {
  return token_train_line(folder, set(kCountdown + settings));
}

std::vector<Json> answers_in(const std::string& file) {
  std::vector<Json> result;
  std::istringstream lines(text_of(file));
  for (std::string line; std::getline(lines, line);) result.push_back(Json::parse(line));
  return result;
}

// Every wrong answer but the last one of a conversation has the message of the task, and a right one ends it.
void check_conversations(const std::string& file, size_t turns) {
  size_t longest = 0;
  for (const Json& line : answers_in(file)) {
    const Json before = line.value("turns", Json::array());
    CHECK(before.size() < turns);
    longest = std::max(longest, before.size() + 1);
    for (const Json& turn : before) {
      const auto message = turn.at("message").get<std::string>();
      CHECK(message.starts_with("="));
      CHECK(message.ends_with(":"));
    }
    if (!line.at("right").get<bool>()) CHECK(before.size() + 1 == turns);
  }
  CHECK(longest == turns);
}

}  // namespace

TEST_CASE("turns: a run trains on answers of several turns, its evaluations keep them, and play shows them") {
  const TempFolder folder;
  const CommandLine run(line_of(
      folder.path(), {"task.turns=3", "stop.updates=6", "evaluation.every_updates=3", "evaluation.episodes=20"}));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const Json summary = Json::parse(text_of(folder / "run/summary.json"));
  CHECK(balances(summary.at("ledger")));
  CHECK(summary.at("updates") == 6);
  check_conversations(folder / "run/answers.jsonl", 3);
  const CommandLine play({"troupe", "play", folder / "run", "--episodes", "5"});
  REQUIRE_MESSAGE(play.exit_code == 0, play.err);
  CHECK(has(play.out, " | ="));
  const CommandLine prompt({"troupe", "play", folder / "run", "--prompt", "3,4=7:"});
  REQUIRE_MESSAGE(prompt.exit_code == 0, prompt.err);
  CHECK_FALSE(has(prompt.out, " | "));
}

TEST_CASE(
    "turns: with each thing that new weights do, tokens trained with the weights that sampled them have a ratio of 1") {
  for (const char* on_new_weights : {"keep", "recompute", "finish"}) {
    CAPTURE(on_new_weights);
    const TempFolder folder;
    const CommandLine run(
        line_of(folder.path(), {"task.turns=2", "stop.updates=5", "replay.max_policy_lag=0",
                                std::string("generation.on_new_weights=") + on_new_weights, "trainer.epochs=1",
                                "trainer.minibatches=1", "generation.prefill_tokens=8"}));
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    for (const Json& line : lines_of(folder / "run")) {
      if (!line.at("learner").contains("ratio_min")) continue;
      CHECK(line.at("learner").at("ratio_min") == 1.0);
      CHECK(line.at("learner").at("ratio_max") == 1.0);
    }
  }
}

TEST_CASE("turns: a critic, a reference, scorers and ReMax work with several turns") {
  const Words common{"task.turns=2", "stop.updates=3"};
  for (const Words& settings :
       {Words{"algorithm.advantage=gae", "model.critic=separate", "reference.model=start"},
        Words{"reference.model=start", "reference.computed_by=scorers"}, Words{"algorithm.advantage=remax"}}) {
    CAPTURE(settings[0]);
    const TempFolder folder;
    const CommandLine run(line_of(folder.path(), common + settings));
    REQUIRE_MESSAGE(run.exit_code == 0, run.err);
    CHECK(balances(Json::parse(text_of(folder / "run/summary.json")).at("ledger")));
  }
}

TEST_CASE("turns: a function in Python replies, and one that raises an exception is refused at the start") {
  const TempFolder folder;
  std::ofstream(folder / "tools.py") << R"(
def reply(answers):
    return [None if len(answer["turns"]) == 1 else f"={len(answer['answer'])}:" for answer in answers]


def none(answers):
    raise ValueError("on purpose")
)";
  const auto settings = [&](const std::string& name) {
    return Words{"task.turns=3", "task.message_tokens=4", "task.reply=py:" + (folder / "tools.py") + ":" + name,
                 "stop.updates=3", "evaluation.episodes=20"};
  };
  const CommandLine run(line_of(folder.path(), settings("reply")));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  CHECK_MESSAGE(run.out.starts_with("starting py:" + (folder / "tools.py") + ":reply in "), run.out);
  CHECK_MESSAGE(has(run.out, "\npeak memory "), run.out);
  for (const Json& line : answers_in(folder / "run/answers.jsonl")) {
    REQUIRE(line.at("turns").size() == 1);
    const auto turn = line.at("turns")[0];
    CHECK(turn.at("message") == "=" + std::to_string(turn.at("answer").get<std::string>().size()) + ":");
  }
  const Json summary = Json::parse(text_of(folder / "run/summary.json"));
  CHECK(summary.at("last_start").at("verifier").at("calls") > 0);
  CHECK(summary.at("last_start").at("verifier").at("replied") > 0);
  CHECK(summary.at("last_start").at("verifier").at("failed_replies") == 0);
  CHECK(summary.at("last_start").at("verifier").at("scored") == 0);
  CHECK(summary.at("last_start").at("answers").at("turns_mean") == 2.0);  // each conversation has one message
  CHECK(summary.at("last_start").at("answers").at("turns_max") == 2.0);
  const TempFolder other;
  const CommandLine refused(line_of(other.path(), settings("none")));
  CHECK(refused.exit_code == 2);
  CHECK_MESSAGE(has(refused.err, "task.reply: "), refused.err);
  CHECK(has(refused.err, "on purpose"));
}

TEST_CASE("turns: a config with a function in a file that does not exist is refused") {
  for (const std::string setting : {"task.reply", "task.verifier"}) {
    const CommandLine config({"troupe", "config", "tokens/countdown_turns", "--set", "task.message_tokens=4", "--set",
                              "task.reply=py:examples/tokens/calculator.py:reply", "--set",
                              setting + "=py:no/such.py:function"});
    CHECK(config.exit_code == 2);
    CHECK_MESSAGE(has(config.err, setting + ": \"py:no/such.py:function\": there is no file /"), config.err);
  }
}

TEST_CASE("turns: workers and inference in other processes, of which some are killed, and the ledger balances") {
  const TempFolder folder;
  TokenTrainProcess run(folder.path(),
                        set(kCountdown + Words{"task.turns=2", "stop.updates=1000000", "workers.count=1"}));
  auto worker = start_worker(run.workers_at(), 2);
  REQUIRE(run.makes_updates(3));
  worker->signal(SIGKILL);
  worker = start_worker(run.workers_at(), 1);
  REQUIRE(run.makes_updates(3));
  CHECK(run.interrupt() == 130);
  CHECK(balances(run.summary().at("ledger")));
}
