// Runs that train a language model on a task, with real processes: from start to end, killed and resumed, with workers
// and inference in other processes.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "runtime/base/text_format.h"
#include "tests/process/train_process.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.updates=1000000", "checkpoint.every_updates=5"});

void check_balanced(const TrainProcess& run) {
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK_MESSAGE(balances(summary.at("ledger")), summary.at("ledger").dump());
}

// The file FOLDER/prompts.jsonl: reversing three of six letters, with the lines `more`.
void write_prompts(const std::string& folder, const std::string& more = "") {
  std::ofstream file(folder + "/prompts.jsonl");
  const std::string letters = "abcdef";
  for (const char a : letters)
    for (const char b : letters)
      for (const char c : letters)
        file << R"({"prompt": ")" << a << b << c << R"(", "truth": ")" << c << b << a << "\"}\n";
  file << more;
}
constexpr const char* kSameLetters = R"({"prompt": "abcd", "truth": "dcba"})";
constexpr const char* kNewLetter = R"({"prompt": "0a", "truth": "a0"})";

Words on_prompts(const std::string& folder) {
  return set(
      {"task.name=dataset", R"(task.params={"path": ")" + folder + R"(/prompts.jsonl"})", "generation.max_tokens=6"});
}

// The lines of the warm-up: those before all others, one for each of their steps.
std::vector<Json> warmup_lines(const std::string& folder) {
  std::vector<Json> result;
  for (const Json& line : lines_of(folder)) {
    if (line.at("warmup").is_null()) {
      CHECK(line.at("env_steps") > 0);
      continue;
    }
    CHECK(line.at("env_steps") == 0);
    CHECK(line.at("updates") == 0);
    CHECK(line.at("warmup").at("loss") > 0.0);
    if (!result.empty()) CHECK(line.at("warmup").at("step") > result.back().at("step"));
    result.push_back(line.at("warmup"));
  }
  REQUIRE(!result.empty());
  CHECK(result.front().at("step") == 1);
  return result;
}

// The lines of a file with answers, and of them those about the policy after `updates`.
std::vector<Json> answers_in(const std::string& file, std::optional<uint64_t> updates = std::nullopt) {
  std::vector<Json> result;
  std::istringstream lines(text_of(file));
  for (std::string line; std::getline(lines, line);)
    if (Json answer = Json::parse(line); !updates || answer.at("updates") == *updates) result.push_back(answer);
  return result;
}

// The command must end with exit code 2 and say this.
void check_refused(const Words& words, const std::string& part) {
  const CommandLine command(words);
  CHECK(command.exit_code == 2);
  CHECK_MESSAGE(has(command.err, part), command.err);
}

}  // namespace

TEST_CASE("token run: changed prompts are refused at a resume, by eval, play and export, and accepted when restored") {
  const TempFolder folder;
  const std::string run = folder / "run";
  const Words train = token_train_line(folder.path(), on_prompts(folder.path()) + set({"stop.updates=2"}));
  write_prompts(folder.path());
  REQUIRE(CommandLine(train).exit_code == 0);
  const std::string kept = text_of(run + "/made_of.json");
  CHECK(Json::parse(kept).at("tokenizer.alphabet") == "abcdef");
  const std::vector<Words> uses = {
      train, {"troupe", "eval", run}, {"troupe", "play", run}, {"troupe", "export", run, "--hf", folder / "hf"}};
  for (const Words& use : uses) {
    write_prompts(folder.path(), kSameLetters);
    check_refused(use, "task.data (the hash of the prompts) was " +
                           Json::parse(kept).at("task.data").get<std::string>() + " and is now ");
    write_prompts(folder.path(), kNewLetter);
    check_refused(use, "the first difference is character 0, \"a\" (U+0061) and \"0\" (U+0030)");
  }
  const std::string config = text_of(run + "/config.json");
  check_refused(train + set({"name=other"}), "task.data (the hash of the prompts) was ");
  CHECK(text_of(run + "/config.json") == config);
  CHECK(text_of(run + "/made_of.json") == kept);
  CHECK_FALSE(std::filesystem::exists(folder / "hf"));
  write_prompts(folder.path());
  for (const Words& use : uses) CHECK(CommandLine(use).exit_code == 0);
}

TEST_CASE("token run: prompts that were moved are used from their new place, if it is given and they are the same") {
  const TempFolder folder;
  const std::string run = folder / "run", moved = "task.params.path=" + (folder / "moved.jsonl");
  write_prompts(folder.path());
  const Words train = token_train_line(folder.path(), on_prompts(folder.path()) + set({"stop.updates=2"}));
  REQUIRE(CommandLine(train).exit_code == 0);
  const std::string config = text_of(run + "/config.json");
  std::filesystem::rename(folder / "prompts.jsonl", folder / "moved.jsonl");
  const std::vector<Words> uses = {
      {"troupe", "eval", run}, {"troupe", "play", run}, {"troupe", "export", run, "--hf", folder / "hf"}};
  for (const Words& use : uses) {
    check_refused(use, "prompts.jsonl");
    check_refused(use + set({"seed=2"}),
                  "--set: seed=2: is not where a file of the run is, expected one of: task.params.path=PLACE, ");
    CHECK(CommandLine(use + set({moved})).exit_code == 0);
  }
  CHECK(text_of(run + "/config.json") == config);
  const CommandLine resumed(train + set({"stop.updates=3", moved}));
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(resumed.out.find("task.params.path \"") != std::string::npos);
  for (const Words& use : {uses[0], uses[1]}) CHECK(CommandLine(use).exit_code == 0);
  write_prompts(folder.path(), kSameLetters);
  check_refused(train + set({"stop.updates=4"}), "task.data (the hash of the prompts) was ");
}

TEST_CASE("token run: without made_of.json, prompts may not be in another place") {
  const TempFolder folder;
  write_prompts(folder.path());
  const Words train = token_train_line(folder.path(), on_prompts(folder.path()) + set({"stop.updates=2"}));
  REQUIRE(CommandLine(train).exit_code == 0);
  std::filesystem::remove(folder / "run/made_of.json");
  std::filesystem::rename(folder / "prompts.jsonl", folder / "moved.jsonl");
  check_refused(train + set({"task.params.path=" + (folder / "moved.jsonl")}),
                "and the run does not say what the file contained (made_of.json); give it the old value");
}

TEST_CASE("token run: a folder that does not say what its run was made of resumes, and says it then") {
  const TempFolder folder;
  write_prompts(folder.path());
  const Words line = on_prompts(folder.path());
  REQUIRE(CommandLine(token_train_line(folder.path(), line + set({"stop.updates=2"}))).exit_code == 0);
  const std::string file = folder / "run/made_of.json", kept = text_of(file);
  std::filesystem::remove(file);
  REQUIRE(CommandLine(token_train_line(folder.path(), line + set({"stop.updates=3"}))).exit_code == 0);
  CHECK(text_of(file) == kept);
}

TEST_CASE("token run: as long as a run has no checkpoint, its prompts may change") {
  const TempFolder folder;
  const std::string run = folder / "run";
  write_prompts(folder.path());
  const Words line = on_prompts(folder.path());
  {
    Process killed(token_train_line(folder.path(), line + set({"stop.updates=1000000"})));
    REQUIRE(eventually([&] { return !text_of(run + "/made_of.json").empty(); }));
    killed.signal(SIGKILL);
    CHECK(killed.wait().value_or(-1) == 128 + SIGKILL);
  }
  std::filesystem::remove_all(run + "/checkpoints");
  write_prompts(folder.path(), kNewLetter);
  CHECK(CommandLine(token_train_line(folder.path(), line + set({"stop.updates=1"}))).exit_code == 0);
  CHECK(json_of(run + "/made_of.json").at("tokenizer.alphabet") == "0abcdef");
}

TEST_CASE("token run: a worker and an inference process with other prompts are refused for good") {
  const TempFolder folder;
  write_prompts(folder.path());
  TokenTrainProcess run(folder.path(), kEndless + on_prompts(folder.path()));
  REQUIRE(run.makes_updates(1));
  write_prompts(folder.path(), kSameLetters);
  const CommandLine worker({"troupe", "worker", "--connect", run.workers_at()});
  CHECK(worker.exit_code == 2);
  CHECK_MESSAGE(has(worker.err, "does not fit the run: task.data (the hash of the prompts) is "), worker.err);
  CHECK_FALSE(has(worker.out, "joined"));
  check_refused({"troupe", "inference", "--connect", run.workers_at()},
                "does not fit the run: task.data (the hash of the prompts) is ");
  REQUIRE(run.makes_updates(1));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("token run: its summary has the pass@1 of the warm-up and of the end, and its records the ratio of tokens") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(), set({"warmup.steps=200", "warmup.pass_at_1=0.2", "replay.max_policy_lag=0"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.process().err() == "");
  check_balanced(run);
  const Json summary = run.summary();
  CHECK(summary.at("reason") == "stop.updates reached");
  CHECK(summary.at("ledger").at("trained") == 20 * 64);
  CHECK(summary.at("updates") == 20);
  CHECK(summary.at("warmup").at("steps") > 0);
  CHECK(summary.at("warmup").at("seconds") > 0);
  CHECK(summary.at("warmup").at("pass_at_1") >= 0.2);
  CHECK(summary.at("eval").at("episodes") == 15);  // of 20: the task has no more held-out prompts, and each counts once
  CHECK(summary.at("eval").at("pass_at_1") == summary.at("eval").at("success_rate"));
  CHECK(has(run.process().out(), " answers, 20 updates"));
  CHECK(has(run.process().out(), "evaluation: pass@1 "));
  const std::vector<Json> warmup = warmup_lines(run.folder());
  CHECK(warmup.back().at("step") == summary.at("warmup").at("steps"));
  CHECK(warmup.back().at("pass_at_1") == summary.at("warmup").at("pass_at_1"));
  const std::vector<Json> records = lines_of(run.folder());
  REQUIRE(!records.empty());
  for (const Json& record : records) {
    const Json& answers = record.at("answers");
    if (record.at("updates") > 0) {
      CHECK(answers.at("trained_length") > 0);
      CHECK_FALSE(record.at("learner").contains("value_loss"));  // no critic
      CHECK_FALSE(record.at("learner").contains("explained_variance"));
      CHECK(record.at("learner").at("ratio_max") == 1.0);  // exactly, at lag 0 in the first epoch
      CHECK(record.at("learner").at("ratio_min") == 1.0);
    }
    CHECK(record.at("ledger").at("dropped_stale") == 0);
  }
}

TEST_CASE("token run: a model with a larger vocabulary than the tokenizer's never draws the other ids") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(), set({"model.decoder.vocab_size=200", "warmup.steps=0", "stop.updates=3",
                                            "replay.max_policy_lag=0"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("updates") == 3);
  CHECK_FALSE(log_has(run.folder(), "refused"));
  for (const Json& record : lines_of(run.folder()))
    if (record.at("updates") > 0) {
      CHECK(record.at("learner").at("ratio_max") == 1.0);
      CHECK(record.at("learner").at("ratio_min") == 1.0);
      CHECK(record.at("learner").at("entropy") < std::log(20));
    }
}

TEST_CASE("token run: a signal stops the warm-up, which is saved, and the next start goes on with it") {
  TempFolder folder;
  {
    Process run(token_train_line(folder.path(), kEndless + set({"warmup.steps=1000000"})));
    REQUIRE(eventually([&] { return has(run.out(), "warm-up: step "); }));
    const std::string before = run.out().substr(0, run.out().find("warm-up: "));
    CHECK(has(before, "run folder " + (folder / "run") + '\n'));
    CHECK(has(before, "dashboard  http://127.0.0.1:"));
    const Json metrics = metrics_of(folder / "run"), &warmup = metrics.at("warmup");
    CHECK(warmup.at("of") == 1'000'000);
    CHECK(warmup.at("step") > 0);
    CHECK(warmup.at("loss") > 0.0);
    CHECK(metrics.at("updates") == 0);
    CHECK(metrics.at("env_steps") == 0);
    CHECK(metrics.at("inference").at("up") == 0);
    run.signal(SIGINT);
    CHECK(run.wait().value_or(-1) == 130);
    CHECK(has(run.out(), "\nwarm-up: stopped after step "));
    CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
    CHECK_FALSE(std::filesystem::exists(folder / "run/endpoints.json"));
  }
  const Json first = Json::parse(text_of(folder / "run/summary.json"));
  const uint64_t step = first.at("warmup").at("steps");
  CHECK(step > 0);
  CHECK(first.at("updates") == 0);
  const CommandLine evaluated({"troupe", "eval", folder / "run"});
  CHECK_MESSAGE(has(evaluated.out, " after 0 updates and " + format_counted(step, "step") + " of the warm-up, "),
                evaluated.out);
  {
    // Another run would lose the warm-up.
    Process other(token_train_line(folder.path(), set({"warmup.steps=1000000", "seed=77"})));
    CHECK(other.wait().value_or(-1) == 2);
    CHECK(has(other.err(), "cannot resume: seed was "));
    CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
  }
  // A setting that the warm-up does not depend on may change.
  TokenTrainProcess run(
      folder.path(), set({"warmup.steps=" + std::to_string(step + 2), "stop.updates=1", "trainer.policy_lr=0.00123"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(has(run.process().out(), "resuming at update 0, in the warm-up after step " + format_count(step) + '\n'));
  CHECK(run.summary().at("warmup").at("steps") == step + 2);
  CHECK(run.summary().at("updates") == 1);
  CHECK(has(run.process().out(), "-> 0.00123"));
  CHECK(json_of(run.folder() + "/config.json").at("trainer").at("policy_lr") == 0.00123);
  check_refused(token_train_line(folder.path(), set({"warmup.steps=" + std::to_string(step + 2), "stop.updates=2"})),
                "cannot resume: trainer.policy_lr was 0.00123 and is now ");
  check_balanced(run);
  CHECK(warmup_lines(run.folder()).back().at("step") == step + 2);
}

TEST_CASE("token run: killed and interrupted, it resumes where its last checkpoint was") {
  TempFolder folder;
  uint64_t updates = 0;
  {
    TokenTrainProcess run(folder.path(), kEndless + set({"warmup.steps=20"}));
    const auto saved = [&] { return checkpoints_of(run.folder()); };
    REQUIRE(eventually([&] { return !saved().empty() && saved().back() > 0; }));
    run.process().signal(SIGKILL);
    CHECK(run.process().wait().value_or(-1) == 128 + SIGKILL);
    updates = checkpoints_of(run.folder()).back();
  }
  {
    TokenTrainProcess run(folder.path(), kEndless + set({"warmup.steps=20"}));
    REQUIRE(run.makes_updates(3));
    CHECK(run.interrupt().value_or(-1) == 130);
    CHECK(has(run.process().out(), "resuming at update " + std::to_string(updates)));
    CHECK_FALSE(has(run.process().out(), "warm-up"));
    check_balanced(run);
    CHECK(run.summary().at("warmup").at("steps") == 20);
    updates = checkpoints_of(run.folder()).back();
    CHECK(run.summary().at("updates") == updates);
  }
  TokenTrainProcess run(folder.path(), set({"warmup.steps=20", "stop.updates=" + std::to_string(updates + 10),
                                            "checkpoint.every_updates=5"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("updates") == updates + 10);
  check_balanced(run);
}

TEST_CASE("token run: killed in its warm-up, it begins again with the same warm-up") {
  TempFolder folder;
  const Words line = set({"warmup.steps=2000", "warmup.pass_at_1=0"});
  Process killed(token_train_line(folder.path(), line));
  REQUIRE(eventually([&] { return log_has(folder / "run", "process "); }));
  killed.signal(SIGKILL);
  CHECK(killed.wait().value_or(-1) == 128 + SIGKILL);
  CHECK(checkpoints_of(folder / "run").empty());
  TokenTrainProcess run(folder.path(), line + set({"warmup.steps=30"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("warmup").at("steps") == 30);
  CHECK(run.summary().at("warmup").at("pass_at_1").is_null());
  check_balanced(run);
}

TEST_CASE("token run: workers and inference in other processes are killed and replaced, and the ledger balances") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(),
                        kEndless + set({"workers.count=0", "inference.count=0", "replay.max_policy_lag=4"}));
  const auto start_inference = [&] {
    return std::make_unique<Process>(Words{"troupe", "inference", "--connect", run.workers_at()});
  };
  auto worker = start_worker(run.workers_at());
  auto inference = start_inference();
  REQUIRE(run.makes_updates(3));
  const double megabytes = static_cast<double>(worker->peak_resident_bytes()) / 1e6;
  MESSAGE("a worker of a token run needs " << megabytes << " MB (target 25)");
  if (!test::kSanitized) CHECK(megabytes < 2 * 25);
  for (int round = 0; round < 2; ++round) {
    worker->signal(SIGKILL);
    CHECK(worker->wait().value_or(-1) == 128 + SIGKILL);
    worker = start_worker(run.workers_at());
    REQUIRE(run.makes_updates(2));
    inference->signal(SIGKILL);
    CHECK(inference->wait().value_or(-1) == 128 + SIGKILL);
    inference = start_inference();
    REQUIRE(run.makes_updates(2));
  }
  CHECK(run.interrupt().value_or(-1) == 130);
  check_balanced(run);
  // The last one may still be joining when the run ends, and is then refused.
  CHECK(worker->wait().has_value());
  CHECK(inference->wait().has_value());
}

TEST_CASE("token run: a new run begins with the weights of another one, and with a folder of transformers") {
  const TempFolder former, folders[4];
  const std::string first = former / "run", exported = former / "hf";
  REQUIRE(CommandLine(token_train_line(former.path(), set({"stop.updates=2"}))).exit_code == 0);
  REQUIRE(CommandLine({"troupe", "export", first, "--hf", exported}).exit_code == 0);
  for (const size_t i : {0, 1}) {
    const std::string source = i == 0 ? first : exported;
    const Words line = token_train_line(folders[i].path(), set({"stop.updates=1"}));
    const CommandLine begun(line + Words{"--init-from", source});
    CHECK_MESSAGE(begun.exit_code == 0, begun.err);
    CHECK(has(begun.out, "beginning with the weights of " + source));
    CHECK(CommandLine(line).exit_code == 0);  // the run is finished
  }
  const CommandLine with_critic(
      token_train_line(folders[3].path(), set({"algorithm.advantage=gae", "model.critic=shared", "stop.updates=1"})) +
      Words{"--init-from", first});
  CHECK_MESSAGE(with_critic.exit_code == 0, with_critic.err);
  CHECK(has(with_critic.out, "; they have no critic like that of this run, which begins anew"));
  check_refused(token_train_line(folders[2].path(), set({"model.decoder.hidden_size=16", "stop.updates=1"})) +
                    Words{"--init-from", first},
                "--init-from: " + first);
}

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

TEST_CASE("token run: warmup ends with the warm-up, and train goes on with the run") {
  const TempFolder folder;
  Words line = token_train_line(folder.path(), set({"warmup.steps=3", "warmup.pass_at_1=0", "stop.updates=1"}));
  const Words train = line;
  line[1] = "warmup";
  const CommandLine first(line);
  CHECK_MESSAGE(first.exit_code == 0, first.err);
  CHECK(has(first.out, "stop.after_warmup reached"));
  CHECK(Json::parse(text_of(folder / "run/summary.json")).at("updates") == 0);
  CHECK(has(CommandLine(line).out, "the warm-up of this run is over"));
  const CommandLine more(train);
  CHECK_MESSAGE(more.exit_code == 0, more.err);
  CHECK(Json::parse(text_of(folder / "run/summary.json")).at("updates") == 1);
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

TEST_CASE("token run: with remax, the greedy answers are counted on their own and never trained on") {
  const TempFolder folder;
  const CommandLine run(token_train_line(folder.path(), set({"algorithm.advantage=remax", "stop.updates=6"})));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const Json summary = Json::parse(text_of(folder / "run/summary.json")), &ledger = summary.at("ledger");
  CHECK_MESSAGE(balances(ledger), ledger.dump());
  CHECK(ledger.at("trained") == 6 * 64);
  // There are four sampled answers to each prompt.
  CHECK(ledger.at("baselines").get<uint64_t>() * 5 == ledger.at("produced").get<uint64_t>());
  CHECK(summary.at("env_steps") == ledger.at("produced"));
}
