// The answers that evaluations of a token run, `troupe eval` and `troupe play` give.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "tests/process/token_runs.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The lines of a file with answers, and of them those about the policy after `updates`.
std::vector<Json> answers_in(const std::string& file, std::optional<uint64_t> updates = std::nullopt) {
  std::vector<Json> result;
  std::istringstream lines(text_of(file));
  for (std::string line; std::getline(lines, line);)
    if (Json answer = Json::parse(line); !updates || answer.at("updates") == *updates) result.push_back(answer);
  return result;
}

}  // namespace

TEST_CASE("token run: play answers a prompt of the user") {
  const TempFolder folder;
  REQUIRE(CommandLine(token_train_line(folder.path(), set({"stop.updates=1"}))).exit_code == 0);
  const Words play = {"troupe", "play", folder / "run", "--prompt"};
  const CommandLine greedy(play + Words{"12>", "--greedy"}), samples(play + Words{"12>", "--episodes", "3"});
  CHECK_MESSAGE(greedy.exit_code == 0, greedy.err);
  CHECK(std::ranges::count(greedy.out, '\n') == 1);
  CHECK(std::ranges::count(samples.out, '\n') == 3);
  check_refused(play + Words{"no digits"}, "--prompt: text: character 0 \"n\"");
}

TEST_CASE("token run: every evaluation keeps its answers, and a resume those up to its checkpoint") {
  const TempFolder folder;
  const std::string run = folder / "run", file = run + "/answers.jsonl";
  const Words settings = set({"evaluation.every_updates=2", "evaluation.episodes=5", "evaluation.answers=4",
                              "evaluation.temperature=1", "checkpoint.every_updates=2"});
  const Words line = token_train_line(folder.path(), settings + set({"stop.updates=4"}));
  const CommandLine first(line);
  REQUIRE_MESSAGE(first.exit_code == 0, first.err);
  CHECK(has(first.out, "over 20 answers, 4 to each prompt"));
  for (const uint64_t updates : {2, 4}) CHECK(answers_in(file, updates).size() == 20);
  const std::vector<Json> kept = answers_in(file);
  CHECK(kept.size() == 40);
  const Json eval = Json::parse(text_of(run + "/summary.json")).at("eval");
  uint64_t right = 0;
  for (const Json& answer : answers_in(file, 4)) right += answer.at("right").get<bool>() ? 1 : 0;
  CHECK(eval.at("pass_at").at("1") == eval.at("pass_at_1"));
  CHECK(eval.at("pass_at").at("1").get<double>() == doctest::Approx(static_cast<double>(right) / 20));
  CHECK(eval.at("pass_at").contains("4"));
  CHECK(lines_of(run).back().at("eval").at("pass_at") == eval.at("pass_at"));

  // What a start that was killed after update 6 may have left.
  std::ofstream(file, std::ios::app) << R"({"updates":6,"answer":"1"})" << '\n' << R"({"updates":6,"an)";
  const CommandLine more(token_train_line(folder.path(), settings + set({"stop.updates=6"})));
  REQUIRE_MESSAGE(more.exit_code == 0, more.err);
  CHECK(answers_in(file).size() == 60);
  CHECK(answers_in(file, 4) == std::vector<Json>(kept.begin() + 20, kept.end()));
  CHECK(answers_in(file, 6).size() == 20);
}

TEST_CASE("token run: evaluations keep the KL of their answers to the reference, which is 0 while nothing is learned") {
  const Words settings = set({"reference.model=start", "stop.updates=4", "evaluation.every_updates=2",
                              "evaluation.episodes=5", "evaluation.answers=2", "evaluation.temperature=0.7"});
  for (const bool learns : {true, false}) {
    const TempFolder folder;
    const std::string run = folder / "run", file = folder / "answers.jsonl";
    const CommandLine trained(token_train_line(
        folder.path(), settings + set({"algorithm.entropy_coef=0.1", learns ? "seed=1" : "trainer.policy_lr=0"})));
    REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
    for (const uint64_t updates : {2, 4}) {
      const std::vector<Json> answers = answers_in(run + "/answers.jsonl", updates);
      REQUIRE(answers.size() == 10);
      for (const Json& answer : answers) CHECK((answer.at("kl").get<double>() != 0.0) == learns);
    }
    const CommandLine evaluated({"troupe", "eval", run, "--answers-file", file});
    REQUIRE_MESSAGE(evaluated.exit_code == 0, evaluated.err);
    CHECK(answers_in(file) == answers_in(run + "/answers.jsonl", 4));
  }
}

TEST_CASE("token run: eval samples several answers and writes them to a file") {
  const TempFolder folder;
  const std::string run = folder / "run", file = folder / "answers.jsonl";
  REQUIRE(CommandLine(token_train_line(folder.path(), set({"stop.updates=1", "evaluation.episodes=3"}))).exit_code ==
          0);
  CHECK(answers_in(run + "/answers.jsonl").size() == 3);
  const Words eval{"troupe", "eval", run, "--json"};
  const CommandLine sampled(eval + Words{"--answers", "4", "--temperature", "1", "--answers-file", file});
  REQUIRE_MESSAGE(sampled.exit_code == 0, sampled.err);
  const Json result = Json::parse(sampled.out);
  CHECK(result.at("episodes") == 12);
  CHECK(result.at("pass_at").size() == 3);
  CHECK(answers_in(file, 1).size() == 12);
  const CommandLine greedy(eval + Words{"--answers-file", file});
  REQUIRE_MESSAGE(greedy.exit_code == 0, greedy.err);
  CHECK(answers_in(file) == answers_in(run + "/answers.jsonl"));
  check_refused(eval + Words{"--answers", "4"}, "--answers: 4, but the evaluation.temperature of the run is 0, ");
  check_refused(eval + Words{"--answers-file", folder.path()}, "--answers-file: " + folder.path());
  const std::string foreign = folder / "pairs.jsonl", line = R"({"prompt":"1>","answer":"1"})"
                                                             "\n";
  std::ofstream(foreign) << line;
  std::filesystem::create_symlink(run + "/config.json", folder / "link");
  for (const std::string& kept : {foreign, folder / "link", run + "/config.json", run + "/answers.jsonl",
                                  run + "/made_of.json", run + "/best.json"}) {
    const std::string before = text_of(kept);
    check_refused(eval + Words{"--answers-file", kept}, "--answers-file: ");
    CHECK_MESSAGE(text_of(kept) == before, kept);
  }

  const Words several = set({"stop.updates=1", "evaluation.temperature=1", "evaluation.answers=2"});
  REQUIRE(CommandLine(token_train_line(folder.path(), several + set({"evaluation.episodes=3"}))).exit_code == 0);
  const CommandLine one(eval + Words{"--temperature", "0"});
  REQUIRE_MESSAGE(one.exit_code == 0, one.err);
  CHECK(Json::parse(one.out).at("episodes") == 3);
  check_refused(eval + Words{"--answers", "2", "--temperature", "0"}, "--answers: 2, but --temperature is 0, ");
}
