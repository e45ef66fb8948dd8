// Token runs whose answers are scored by functions in Python (verifiers.py) that fail in every way, while their
// processes are killed: the run goes on, its ledger balances, and no answer gets a score that the function did not
// give.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kAnswers = 4;  // of a group
const Words kEndless = set({"stop.updates=1000000"});

// A folder with the verifiers, in which they note what they have done.
struct VerifierFolder : TempFolder {
  VerifierFolder() {
    std::filesystem::copy_file("tests/process/verifiers.py", *this / "verifiers.py");
    std::ofstream(*this / "done");
  }

  Words scored_by(const std::string& function) const {
    return set({"task.verifier=py:" + (*this / "verifiers.py") + ':' + function});
  }
  // How often they have noted this.
  uint64_t done(const std::string& what) const {
    std::istringstream words(text_of(*this / "done"));
    return static_cast<uint64_t>(std::count(std::istream_iterator<std::string>(words), {}, what));
  }
  // The processes of their verifiers that run now.
  std::vector<pid_t> running() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename(), command = text_of("/proc/" + name + "/cmdline");
      if (has(command, "verifier_server.py") && has(command, path())) found.push_back(std::stoi(name));
    }
    return found;
  }
  // Waits until one is running that is not `before`, and returns it.
  pid_t next(pid_t before) const {
    pid_t found = 0;
    REQUIRE(eventually([&] {
      for (const pid_t id : running())
        if (id != before) found = id;
      return found != 0;
    }));
    return found;
  }
};

// The verifier's figures in the summary, after it was checked that the ledger balances, that every answer that got a
// score got the reward 1, and that no process is left.
Json check_books(const VerifierFolder& folder, const TrainProcess& run) {
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK_MESSAGE(balances(summary.at("ledger")), summary.at("ledger").dump());
  CHECK(summary.at("ledger").at("unscored") == 0);
  uint64_t points = 0;
  for (const Json& line : lines_of(run.folder())) {
    if (line.at("episodes").at("count") == 0) continue;
    CHECK(line.at("episodes").at("return_mean") == 1.0);
    ++points;
  }
  CHECK(points > 0);
  CHECK(eventually([&] { return folder.running().empty(); }));
  return summary.at("last_start").at("verifier");
}

uint64_t failed_answers(const TrainProcess& run) { return run.summary().at("ledger").at("verifier_failed"); }

}  // namespace

TEST_CASE("verifier: killed again and again, its process is replaced and no answer counts as 0") {
  const VerifierFolder folder;
  TokenTrainProcess run(folder.path(), kEndless + folder.scored_by("ones"));
  REQUIRE(run.makes_updates(1));
  constexpr uint64_t kKills = 6;
  pid_t last = 0;
  for (uint64_t kill = 0; kill < kKills; ++kill) {
    last = folder.next(last);
    REQUIRE(::kill(last, SIGKILL) == 0);
    REQUIRE(eventually([&] { return metrics_of(run.folder()).at("verifier").at("restarts") == kill + 1; }));
    REQUIRE(run.makes_updates(1));
  }
  CHECK(run.interrupt().value_or(-1) == 130);
  const Json verifier = check_books(folder, run);
  CHECK(verifier.at("restarts") == kKills);
  CHECK(verifier.at("failed_calls") == kKills);
  CHECK(verifier.at("scored").get<uint64_t>() > kKills * kAnswers);
  CHECK(verifier.at("seconds") > 0.0);
  CHECK(verifier.at("wait_seconds") > 0.0);
  CHECK(failed_answers(run) <= kKills * kAnswers);  // if a kill meets the second attempt too
  CHECK(has(run.process().out(), "\nverifier: 6 of "));
}

TEST_CASE("verifier: one that hangs, prints, ends, returns NaN and raises on every 50th answer costs only that") {
  const VerifierFolder folder;
  TokenTrainProcess run(folder.path(),
                        folder.scored_by("unreliable") + set({"stop.updates=12", "task.verifier_timeout_ms=3000"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  const Json verifier = check_books(folder, run);
  CHECK(run.summary().at("updates") == 12);
  const uint64_t failed = folder.done("hang") + folder.done("exit") + folder.done("raise"), nan = folder.done("nan");
  CHECK(folder.done("print") > 0);
  CHECK(folder.done("raise") > 0);
  REQUIRE(nan > 0);
  // What has happened in a call that the end of the run has met may be missing.
  CHECK(verifier.at("failed_calls").get<uint64_t>() <= failed);
  CHECK(verifier.at("failed_calls").get<uint64_t>() + 1 >= failed);
  CHECK(failed_answers(run) <= nan);
  CHECK(failed_answers(run) + 1 >= nan);
  CHECK(log_count(run.folder(), "in misbehave") == 1);  // of the traceback
  CHECK(log_count(run.folder(), "the verifier has not answered within task.verifier_timeout_ms") == 1);
}

TEST_CASE("verifier: workers with verifiers and inference in other processes are killed and replaced") {
  const VerifierFolder folder;
  TokenTrainProcess run(folder.path(), kEndless + folder.scored_by("ones") +
                                           set({"workers.count=0", "inference.count=0", "replay.max_policy_lag=4"}));
  const auto start_inference = [&] {
    return std::make_unique<Process>(Words{"troupe", "inference", "--connect", run.workers_at()});
  };
  auto worker = start_worker(run.workers_at());
  auto inference = start_inference();
  REQUIRE(run.makes_updates(2));
  for (int round = 0; round < 2; ++round) {
    const std::vector<pid_t> before = folder.running();
    worker->signal(SIGKILL);
    CHECK(worker->wait().value_or(-1) == 128 + SIGKILL);
    REQUIRE(eventually([&] {  // its verifier ends with it
      return std::ranges::none_of(folder.running(), [&](pid_t id) { return std::ranges::count(before, id) > 0; });
    }));
    worker = start_worker(run.workers_at());
    REQUIRE(run.makes_updates(2));
    inference->signal(SIGKILL);
    CHECK(inference->wait().value_or(-1) == 128 + SIGKILL);
    inference = start_inference();
    REQUIRE(run.makes_updates(2));
  }
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(worker->wait().has_value());
  CHECK(inference->wait().has_value());
  const Json verifier = check_books(folder, run);
  CHECK(verifier.at("calls") > 0);
  CHECK(verifier.at("failed_calls") == 0);
  CHECK(failed_answers(run) == 0);
}

TEST_CASE("verifier: a run that is stopped does not wait for a call that hangs, of a worker or in an evaluation") {
  for (const char* function : {"hangs_at_last", "hangs_in_evaluations"}) {
    CAPTURE(function);
    const VerifierFolder folder;
    TokenTrainProcess run(folder.path(), folder.scored_by(function) + set({"stop.updates=4", "workers.groups=1",
                                                                           "task.verifier_timeout_ms=3600000"}));
    REQUIRE(eventually([&] { return folder.done("hang") > 0; }));
    const auto begin = std::chrono::steady_clock::now();
    CHECK(run.interrupt().value_or(-1) == 130);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    MESSAGE("stopped within " << seconds << " s (target 2.5)");
    CHECK_FALSE(log_has(run.folder(), "did not stop within"));
    CHECK(eventually([&] { return folder.running().empty(); }));
  }
}
