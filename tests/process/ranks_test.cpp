// `troupe train --ranks N`: other processes compute some shards of each update. They can be killed and come back, and
// none outlives the run.
#include <signal.h>

#include <string>

#include "tests/process/children.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});

std::set<pid_t> ranks_of(TrainProcess& run) { return children_of(run.process().id()); }

// The first rank process; there must be one.
pid_t rank_of(TrainProcess& run) {
  const std::set<pid_t> ranks = ranks_of(run);
  REQUIRE_FALSE(ranks.empty());
  return *ranks.begin();
}

}  // namespace

TEST_CASE(
    "ranks: a run on four ranks trains, ends in order, and is resumed on one and on two, with or without --ranks") {
  const TempFolder folder;
  const std::string path = folder / "run";
  std::set<pid_t> ranks;
  {
    TrainProcess run(path, Words{"--ranks", "4"} + kEndless);
    CHECK(run.makes_updates(5));
    ranks = ranks_of(run);
    CHECK(ranks.size() == 3);
    CHECK(run.interrupt() == 130);
    CHECK(balances(run.summary()["ledger"]));
    CHECK(checkpoints_of(path).back() == run.updates());
  }
  CHECK(eventually([&] { return all_gone(ranks); }));
  const Json config = json_of(path + "/config.json");
  CHECK(config["trainer"]["shards"] == 4);
  CHECK(config["workers"]["count"] == 4);
  const CommandLine other({"troupe", "train", "cartpole", "--run", path, "--set", "trainer.shards=1"});
  CHECK(other.exit_code == 2);
  CHECK(has(other.err, "trainer.shards"));
  for (const auto& [flags, number] : {std::pair{Words{}, 1}, {{"--ranks", "1"}, 1}, {{"--ranks", "2"}, 2}}) {
    CAPTURE(flags.size());
    CAPTURE(number);
    const uint64_t before = checkpoints_of(path).back();
    TrainProcess run(path, flags + kEndless);
    CHECK(eventually([&] { return run.updates() > before + 3; }));
    CHECK(static_cast<int>(ranks_of(run).size()) == number - 1);
    CHECK(run.interrupt() == 130);
    CHECK(json_of(path + "/config.json")["trainer"]["shards"] == 4);
  }
}

TEST_CASE("ranks: a rank that is killed is started again, and nothing is lost") {
  const TempFolder folder;
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + kEndless);
  for (int i = 0; i < 3; ++i) {
    CAPTURE(i);
    CHECK(run.makes_updates(3));
    const std::string number = std::to_string(i + 1);
    CHECK(eventually([&] { return has(run.process().err(), "rank process " + number + ": joined"); }));
    CHECK(run.makes_updates(3));
    const std::set<pid_t> ranks = ranks_of(run);
    REQUIRE(ranks.size() == 1);
    kill(*ranks.begin(), SIGKILL);
    CHECK(eventually([&] { return log_count(run.folder(), "is gone") == static_cast<size_t>(i + 1); }));
    CHECK(run.makes_updates(3));
  }
  CHECK(run.interrupt() == 130);
  const Json ledger = run.summary()["ledger"];
  CHECK(balances(ledger));
  CHECK(ledger["lost_in_crash"] == 0);
}

TEST_CASE("ranks: a rank that stands still loses its shards, and joins again when it goes on") {
  const TempFolder folder;
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + kEndless +
                                       set({"network.heartbeat_ms=100", "network.peer_timeout_ms=1000"}));
  CHECK(run.makes_updates(3));
  const pid_t rank = rank_of(run);
  kill(rank, SIGSTOP);
  CHECK(eventually([&] { return log_has(run.folder(), "is gone"); }));
  CHECK(run.makes_updates(3));
  kill(rank, SIGCONT);
  CHECK(eventually([&] { return has(run.process().err(), "rank process 2: joined"); }));
  CHECK(run.makes_updates(3));
  CHECK(run.interrupt() == 130);
}

TEST_CASE("ranks: a run that trains a language model with a critic goes on when a rank is killed") {
  for (const std::string critic : {"shared", "separate"}) {
    CAPTURE(critic);
    const TempFolder folder;
    TokenTrainProcess run(folder.path(), Words{"--ranks", "2"} + kEndless +
                                             set({"algorithm.advantage=gae", "model.critic=" + critic,
                                                  "reference.model=start", "trainer.micro_batch_tokens=200"}));
    CHECK(run.makes_updates(3));
    std::set<pid_t> ranks;
    CHECK(eventually([&] { return (ranks = ranks_of(run)).size() == 1 && runs(*ranks.begin()); }));
    kill(*ranks.begin(), SIGKILL);
    CHECK(run.makes_updates(3));
    CHECK(run.interrupt() == 130);
    CHECK(balances(run.summary()["ledger"]));
  }
}

TEST_CASE("ranks: with divided moments a run saves them all, and one that loses a rank resumes from its checkpoint") {
  const TempFolder folder;
  const std::string path = folder / "run";
  const Words zero = kEndless + set({"trainer.zero=1", "checkpoint.every_updates=2"});
  {
    TrainProcess run(path, Words{"--ranks", "2"} + zero);
    CHECK(run.makes_updates(5));
    CHECK(eventually([&] { return checkpoints_of(path).size() > 1; }));
    kill(rank_of(run), SIGKILL);
    CHECK(run.process().wait() == 1);
    CHECK(has(run.process().err(), "the same command resumes from the last checkpoint"));
  }
  for (const char* number : {"2", "1"}) {
    CAPTURE(number);
    TrainProcess run(path, Words{"--ranks", number} + zero);
    const uint64_t before = checkpoints_of(path).back();
    CHECK(eventually([&] { return run.updates() > before + 3; }));
    CHECK(run.interrupt() == 130);
    CHECK(checkpoints_of(path).back() == run.updates());
    CHECK(balances(run.summary()["ledger"]));
  }
}

TEST_CASE("ranks: samples and states that are too large for one message arrive") {
  const TempFolder folder;
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + kEndless + set({"network.chunk_bytes=4096"}));
  CHECK(run.makes_updates(10));
  CHECK(ranks_of(run).size() == 1);
  CHECK(run.interrupt() == 130);
  CHECK_FALSE(log_has(run.folder(), "is gone"));
}

TEST_CASE("ranks: with copies of the divided moments a run goes on when a rank is lost, and saves them all") {
  const TempFolder folder;
  const std::string path = folder / "run";
  const Words copied = kEndless + set({"trainer.zero=1", "trainer.redundancy=neighbour", "trainer.super_batch=960"});
  {
    TrainProcess run(path, Words{"--ranks", "3"} + copied);
    for (size_t i = 1; i <= 3; ++i) {
      CAPTURE(i);
      const std::string last = "rank process " + std::to_string(i + 1) + ": joined";
      CHECK(eventually([&] { return has(run.process().err(), last); }));
      CHECK(run.makes_updates(3));
      const std::set<pid_t> ranks = ranks_of(run);
      REQUIRE(ranks.size() == 2);
      kill(i == 2 ? *ranks.begin() : *ranks.rbegin(), SIGKILL);
      CHECK(eventually([&] { return log_count(run.folder(), "is gone") == i; }));
      CHECK(run.makes_updates(3));
    }
    CHECK(run.interrupt() == 130);
    const Json ledger = run.summary()["ledger"];
    CHECK(balances(ledger));
    CHECK(ledger["lost_in_crash"] == 0);
    CHECK(checkpoints_of(path).back() == run.updates());
  }
  TrainProcess run(path, Words{"--ranks", "2"} + copied);
  const uint64_t before = checkpoints_of(path).back();
  CHECK(eventually([&] { return run.updates() > before + 3; }));
  CHECK(run.interrupt() == 130);
}

TEST_CASE("ranks: with a process group for gradients a run goes on when a rank is killed or stands still") {
  for (const char* zero : {"0", "1"}) {
    CAPTURE(zero);
    const TempFolder folder;
    TrainProcess run(folder / "run",
                     Words{"--ranks", "3"} + kEndless +
                         set({"network.backend=gloo", "network.heartbeat_ms=100", "network.peer_timeout_ms=1000",
                              "trainer.super_batch=960", "trainer.bucket_bytes=4096"}) +
                         (zero[0] == '1' ? set({"trainer.zero=1", "trainer.redundancy=neighbour"}) : Words{}));
    CHECK(run.makes_updates(5));
    CHECK(log_has(run.folder(), "3 ranks exchange gradients with gloo (group 1)"));
    kill(rank_of(run), SIGKILL);
    CHECK(eventually([&] { return log_count(run.folder(), "is gone") == 1; }));
    CHECK(run.makes_updates(3));
    CHECK(eventually([&] { return has(run.process().err(), "rank process 3: joined"); }));
    CHECK(run.makes_updates(3));
    const pid_t rank = rank_of(run);
    kill(rank, SIGSTOP);
    CHECK(eventually([&] { return log_count(run.folder(), "is gone") == 2; }));
    CHECK(run.makes_updates(3));
    kill(rank, SIGCONT);
    CHECK(eventually([&] { return has(run.process().err(), "rank process 4: joined"); }));
    CHECK(run.makes_updates(3));
    CHECK(run.interrupt() == 130);
    const Json ledger = run.summary()["ledger"];
    CHECK(balances(ledger));
    CHECK(ledger["lost_in_crash"] == 0);
  }
}

TEST_CASE("ranks: none outlives a run that is killed") {
  const TempFolder folder;
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + kEndless);
  CHECK(run.makes_updates(2));
  const std::set<pid_t> ranks = ranks_of(run);
  CHECK(ranks.size() == 1);
  run.process().signal(SIGKILL);
  CHECK(run.process().wait() == 128 + SIGKILL);
  CHECK(eventually([&] { return all_gone(ranks); }));
}

TEST_CASE("ranks: a process that is one too many, or joins a run on one rank, is refused with one line") {
  const TempFolder folder;
  TrainProcess two(folder / "two", Words{"--ranks", "2"} + kEndless);
  CHECK(two.makes_updates(2));
  const CommandLine third({"troupe", "rank", "--connect", two.workers_at(), "--wait", "0"});
  CHECK(third.exit_code == 2);
  CHECK(has(third.err, "the run has all of its 2 ranks"));
  CHECK(std::ranges::count(third.err, '\n') == 1);
  TrainProcess one(folder / "one", kEndless);
  CHECK(one.makes_updates(2));
  const CommandLine other({"troupe", "rank", "--connect", one.workers_at()});
  CHECK(other.exit_code == 2);
  CHECK(has(other.err, "the run trains on one rank; train with --ranks"));
  CHECK(std::ranges::count(other.err, '\n') == 1);
  CHECK(two.makes_updates(2));
}

TEST_CASE("ranks: with divided moments a run that loses a rank before its first checkpoint begins again") {
  const TempFolder folder;
  const Words zero = kEndless + set({"trainer.zero=1"});
  {
    TrainProcess run(folder / "run", Words{"--ranks", "2"} + zero);
    CHECK(run.makes_updates(5));
    kill(rank_of(run), SIGKILL);
    CHECK(run.process().wait() == 1);
    CHECK(checkpoints_of(run.folder()).empty());
    CHECK(run.summary()["has_checkpoint"] == false);
  }
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + zero);
  CHECK(run.makes_updates(2));
  CHECK(run.interrupt() == 130);
  CHECK(run.summary()["has_checkpoint"] == true);
}

TEST_CASE("ranks: shards that are set get a worker each") {
  const TempFolder folder;
  TrainProcess run(folder / "run",
                   Words{"--ranks", "2"} + kEndless + set({"trainer.shards=4", "trainer.super_batch=4096"}));
  CHECK(run.makes_updates(2));
  CHECK(json_of(run.folder() + "/config.json")["workers"]["count"] == 4);
  CHECK(run.interrupt() == 130);
}

TEST_CASE("ranks: a signal that comes to all processes at once ends the run with a checkpoint of its last update") {
  const TempFolder folder;
  TrainProcess run(folder / "run", Words{"--ranks", "2"} + kEndless + set({"trainer.zero=1"}));
  CHECK(run.makes_updates(5));
  kill(rank_of(run), SIGTERM);
  CHECK(run.interrupt() == 130);
  CHECK(checkpoints_of(run.folder()).back() == run.updates());
}

TEST_CASE("ranks: more of them than shards are refused, and what is no number") {
  const TempFolder folder;
  const CommandLine more({"troupe", "train", "cartpole", "--run", folder / "run", "--ranks", "3", "--set",
                          "trainer.shards=2", "--set", "workers.count=2"});
  CHECK(more.exit_code == 2);
  CHECK(has(more.err, "trainer.ranks"));
  CHECK(has(more.err, "trainer.shards is 2"));
  for (const char* number : {"0", "-1", "two", "1025"}) {
    const CommandLine none({"troupe", "train", "cartpole", "--run", folder / "run", "--ranks", number});
    CHECK(none.exit_code == 2);
    CHECK(has(none.err, "--ranks: "));
    CHECK(std::ranges::count(none.err, '\n') == 1);
  }
}
