// Deterministic token runs with every role, killed at random moments: the same bytes as without a kill.
// TROUPE_KILLS is the number of kills of each run, TROUPE_KILL_SEED repeats the moments of a failure.

#include <signal.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

#include "tests/process/random_reward.h"
#include "tests/process/results.h"
#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoull(given);
}

// Reversing two digits: the file FOLDER/prompts.jsonl, and the settings of a run on it.
Words on_a_list(const std::string& folder) {
  std::ofstream file(folder + "/prompts.jsonl");
  for (char a = '0'; a <= '9'; ++a)
    for (char b = '0'; b <= '9'; ++b) file << R"({"prompt": ")" << a << b << R"(>", "truth": ")" << b << a << "\"}\n";
  return {"task.name=dataset", R"(task.params={"path": ")" + folder + R"(/prompts.jsonl"})",
          "task.sampling=failure_weighted"};
}

// The run folder is `name` in `folder`.
Words line_of(const std::string& folder, const std::string& name, const Words& settings) {
  const Words all{"deterministic=true",
                  "stats.every_updates=1",
                  "stop.updates=40",
                  "checkpoint.every_updates=3",
                  "checkpoint.keep=0",
                  "evaluation.every_updates=7",
                  "evaluation.answers=2",
                  "evaluation.temperature=1",
                  "warmup.steps=40",
                  "replay.max_policy_lag=1",
                  "trainer.value_only_updates=4",
                  "trainer.lr_warmup=6"};
  Words words = token_train_line(folder, set(all + settings));
  *std::next(std::ranges::find(words, "--run")) = folder + '/' + name;
  return words;
}

uint64_t metrics_size(const std::string& run) {
  std::error_code none;
  const auto size = fs::file_size(run + "/metrics.jsonl", none);
  return none ? 0 : size;
}

// Bytes of the lines of the warm-up, which are the first ones.
uint64_t warmup_size(const std::string& run) {
  std::ifstream lines(run + "/metrics.jsonl");
  uint64_t size = 0;
  for (std::string line; std::getline(lines, line) && !Json::parse(line).at("warmup").is_null();)
    size += line.size() + 1;
  return size;
}

// Whether the folder of a checkpoint that is not complete is there.
bool has_part_of_checkpoint(const std::string& run) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run + "/checkpoints", none))
    if (entry.path().extension() == ".tmp") return true;
  return false;
}

// The functions below start a run and kill it. False if it has ended by itself before.
bool killed(Process& process) {
  process.signal(SIGKILL);
  return process.wait() == 128 + SIGKILL;
}

// When its metrics have `bytes`, and a little later.
bool kill_at(const Words& line, const std::string& run, uint64_t bytes, std::chrono::microseconds later) {
  Process process(line);
  REQUIRE(eventually([&] { return metrics_size(run) >= bytes || process.exit_code(); }, kPatience, 50us));
  std::this_thread::sleep_for(later);  // no event: the moment is random
  return killed(process);
}

// While it writes a checkpoint.
bool kill_in_checkpoint(const Words& line, const std::string& run) {
  for (;;) {
    Process process(line);
    bool whole = false;  // what an earlier kill has left is gone
    const auto writes = [&] {
      const bool part = has_part_of_checkpoint(run);
      whole |= !part;
      return (whole && part) || process.exit_code();
    };
    REQUIRE(eventually(writes, kPatience, 50us));
    if (!killed(process)) return false;
    if (has_part_of_checkpoint(run)) return true;
  }
}

// One kill in the warm-up, one in a checkpoint, the others at any time. False if one of them came too late.
bool leave_in_parts(const Words& line, const std::string& run, const std::string& whole, uint64_t kills,
                    std::mt19937_64& draw) {
  fs::remove_all(run);
  const auto below = [&](uint64_t end) { return std::uniform_int_distribution<uint64_t>(0, end - 1)(draw); };
  const uint64_t of_warmup = warmup_size(whole), of_all = metrics_size(whole);
  REQUIRE(of_warmup > 0);
  if (!kill_at(line, run, 1 + below(of_warmup), 0us) || metrics_size(run) > of_warmup) return false;
  std::vector<uint64_t> moments;
  while (moments.size() + 2 < kills) moments.push_back(below(of_all * 9 / 10));
  std::ranges::sort(moments);
  const uint64_t in_checkpoint = below(moments.size() + 1);
  for (size_t i = 0; i <= moments.size(); ++i) {
    if (i == in_checkpoint && !kill_in_checkpoint(line, run)) return false;
    if (i < moments.size() && !kill_at(line, run, moments[i], std::chrono::microseconds(below(20'000)))) return false;
  }
  return true;
}

// The most memory that the kernel gives a process that this one starts.
class MemoryLimit {
 public:
  explicit MemoryLimit(rlim_t bytes) {
    REQUIRE(getrlimit(RLIMIT_DATA, &before_) == 0);
    rlimit limited = before_;
    limited.rlim_cur = bytes;
    REQUIRE(setrlimit(RLIMIT_DATA, &limited) == 0);
  }
  ~MemoryLimit() { setrlimit(RLIMIT_DATA, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  rlimit before_{};
};

void check_kills(const std::string& folder, const Words& settings) {
  const uint64_t kills = number_in("TROUPE_KILLS", 10), seed = number_in("TROUPE_KILL_SEED", std::random_device()());
  MESSAGE(kills << " kills, TROUPE_KILL_SEED=" << seed);
  std::mt19937_64 draw(seed);
  const std::string whole = folder + "/whole", parts = folder + "/parts";
  const CommandLine uninterrupted(line_of(folder, "whole", settings));
  REQUIRE_MESSAGE(uninterrupted.exit_code == 0, uninterrupted.err);
  const Words line = line_of(folder, "parts", settings);
  int attempts = 0;
  while (!leave_in_parts(line, parts, whole, kills, draw)) REQUIRE(++attempts < 20);
  const CommandLine last(line);
  REQUIRE_MESSAGE(last.exit_code == 0, last.err);
  check_same(parts, whole, 40, 6);
  CHECK(lines_of(whole).back().at("learner").at("reference_kl").get<double>() != 0.0);
}

}  // namespace

TEST_CASE("deterministic: all four roles, with a critic of its own, killed at random moments") {
  const TempFolder folder;
  const RandomReward reward(folder.path());
  check_kills(folder.path(), on_a_list(folder.path()) + reward.settings() +
                                 Words{"algorithm.advantage=gae", "model.critic=separate", "reference.model=start",
                                       "reference.kl_controller=adaptive", "reference.kl_horizon=500"});
}

TEST_CASE("deterministic: new weights while answers are in progress, killed at random moments with little memory") {
  const MemoryLimit limit(256 << 20);
  for (const std::string on_new_weights : {"keep", "recompute", "finish"}) {
    CAPTURE(on_new_weights);
    const TempFolder folder;
    check_kills(folder.path(), {"trainer.value_only_updates=0", "generation.on_new_weights=" + on_new_weights,
                                "generation.prefill_tokens=8", "generation.answer_slots=24", "replay.max_policy_lag=2",
                                "trainer.micro_batch_tokens=48", "workers.count=2", "reference.model=start"});
  }
}

TEST_CASE("deterministic: answers of several turns, killed at random moments") {
  const TempFolder folder;
  check_kills(folder.path(),
              {"trainer.value_only_updates=0", "task.name=countdown",
               R"(task.params={"numbers": 2, "max_number": 9, "max_target": 20})", "task.turns=3",
               "generation.answer_slots=24", "replay.max_policy_lag=2", "workers.count=2", "reference.model=start"});
}

TEST_CASE("deterministic: a shared critic and the KL to a reference in the loss, killed at random moments") {
  const TempFolder folder;
  check_kills(folder.path(), {"algorithm.advantage=vtrace", "model.critic=shared", "reference.model=start",
                              "reference.in=loss", "workers.count=2"});
}
