// The prompts of a token run: which changes of their file are refused.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/process/token_runs.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

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
