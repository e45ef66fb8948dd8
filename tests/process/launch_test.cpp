// `troupe train` started as each of several ranks, with the same line: by variables of the environment and by torchrun.
#include <arpa/inet.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "tests/process/children.h"
#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000"});

// An address of this machine at which nobody listens.
std::string free_address() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(::bind(listener, reinterpret_cast<const sockaddr*>(&address), size) == 0);
  REQUIRE(::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  ::close(listener);
  return "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
}

// `line` with variables in its environment.
Words with(const Words& variables, Words line) {
  line[0] = test::built_program(line[0]);
  return Words{"/usr/bin/env"} + variables + line;
}

Words of_two(const std::string& rank, const std::string& rank0) {
  return {"TROUPE_RANK=" + rank, "TROUPE_RANKS=2", "TROUPE_RANK0=" + rank0};
}

// Rank 0 of two.
class RankZero : public TrainProcess {
 public:
  RankZero(const std::string& folder, const std::string& address, const Words& more)
      : TrainProcess(folder, Line{with(of_two("0", address), train_line(folder, more)), {}}) {}
};

CommandLine train_with(const Words& variables, const Words& more = {}) {
  const TempFolder folder;
  return CommandLine(with(variables, Words{"troupe", "train", "cartpole", "--run", folder / "run"} + more));
}

}  // namespace

TEST_CASE("launch: two processes with the same line are one run, and a signal to both ends it with a checkpoint") {
  const TempFolder folder;
  const std::string at = free_address(), path = folder / "run";
  Process other(with(of_two("1", at), train_line(path, kEndless)));  // it waits for rank 0
  RankZero run(path, at, kEndless);
  CHECK(run.makes_updates(3));
  CHECK(children_of(run.process().id()).empty());
  CHECK(has(run.process().out(), "rank 0 of 2 (TROUPE_RANK); the others join at " + at));
  CHECK(log_has(path, "rank 0 of 2 (TROUPE_RANK); the others join at " + at));
  CHECK(has(other.out(), "rank 1 of 2 (TROUPE_RANK): joins rank 0 at " + at));
  CHECK(json_of(path + "/config.json")["trainer"]["shards"] == 2);
  other.signal(SIGUSR1);
  run.process().signal(SIGUSR1);
  CHECK(run.process().wait() == 130);
  CHECK(other.wait() == 0);
  CHECK(!log_has(path, "is gone"));
  CHECK(has(run.process().out(), "  # as each of 2 ranks (TROUPE_RANK)"));
  CHECK(checkpoints_of(path).back() == run.summary()["updates"]);
}

TEST_CASE("launch: all ranks of a run that ends, or is finished, end with 0") {
  const TempFolder folder;
  const std::string at = free_address(), path = folder / "run";
  const Words line = train_line(path, set({"stop.updates=3", "stop.env_steps=0"}));
  for (int start = 0; start < 2; ++start) {
    CAPTURE(start);
    Process other(with(of_two("1", at), line)), run(with(of_two("0", at), line));
    CHECK(run.wait() == 0);
    CHECK(other.wait() == 0);
    CHECK(has(other.out(), "ended: the run ended"));
    CHECK(has(run.out(), "tells the other ranks that the run is finished") == (start == 1));
  }
}

TEST_CASE("launch: a rank with another config is refused, and rank 0 says so; one without the config joins") {
  const TempFolder folder;
  const std::string at = free_address(), path = folder / "run";
  Process other(with(of_two("1", at), train_line(path, kEndless + set({"trainer.epochs=3"}))));
  RankZero run(path, at, kEndless);
  CHECK(other.wait() == 2);
  const std::string why = "another config: trainer.epochs is 3, and in the run 4";
  CHECK(has(other.err(), "troupe: TROUPE_RANK: rank 0 at " + at + ": the run refuses: " + why));
  CHECK(eventually([&] { return log_has(path, "is refused: " + why); }));
  Process without(with(of_two("1", at), {"troupe", "train", folder / "missing.json", "--run", path}));
  CHECK(run.makes_updates(1));
  run.process().signal(SIGTERM);
  CHECK(run.process().wait() == 130);
  CHECK(without.wait() == 0);
}

TEST_CASE("launch: a rank that a signal asks to stop computes until rank 0 is gone") {
  const TempFolder folder;
  const std::string at = free_address(), path = folder / "run";
  Process other(with(of_two("1", at), train_line(path, kEndless)));
  RankZero run(path, at, kEndless);
  CHECK(run.makes_updates(1));
  other.signal(SIGTERM);
  CHECK(eventually([&] { return has(other.err(), "stopping at SIGTERM: rank 0 ends the run first"); }));
  CHECK(run.makes_updates(2));
  CHECK(!other.exit_code());
  CHECK(!log_has(path, "is gone"));
  run.process().signal(SIGKILL);
  CHECK(other.wait(std::chrono::seconds(20)) == 130);
}

TEST_CASE("launch: a rank without a rank 0 leaves at once when a signal asks it to") {
  const TempFolder folder;
  Process other(with(of_two("1", free_address()), train_line(folder / "run")));
  CHECK(eventually([&] { return has(other.err(), "trying again for up to 120 s"); }));
  other.signal(SIGTERM);
  CHECK(other.wait(std::chrono::seconds(20)) == 130);
}

TEST_CASE("launch: variables that make no sense are refused with one line") {
  const std::vector<std::pair<Words, std::string>> refused = {
      {{"RANK=abc", "WORLD_SIZE=2"}, "troupe: RANK: \"abc\" is not an integer"},
      {{"RANK=2", "WORLD_SIZE=2"}, "troupe: RANK: 2 is out of range"},
      {{"WORLD_SIZE=2"}, "troupe: WORLD_SIZE: is set, and RANK is not"},
      {{"TROUPE_RANK=0", "TROUPE_RANKS=2"}, "troupe: TROUPE_RANK0: is not set"},
  };
  for (const auto& [variables, error] : refused) {
    CAPTURE(error);
    const CommandLine result = train_with(variables);
    CHECK(result.exit_code == 2);
    CHECK(has(result.err, error));
    CHECK(std::ranges::count(result.err, '\n') == 1);
  }
}

TEST_CASE("launch: a deterministic run refuses a launcher") {
  const CommandLine result = train_with(of_two("0", "127.0.0.1:5555"), set({"deterministic=true"}));
  CHECK(result.exit_code == 2);
  CHECK(result.err ==
        "troupe: TROUPE_RANK: says that there are 2 processes, and a run with deterministic true is one; start one "
        "process, with --ranks 2\n");
}

TEST_CASE("launch: torchrun starts the ranks, and a signal to it ends the run with a checkpoint") {
  const char* python = std::getenv("TROUPE_PYTHON");
  const std::string has_torch = "import importlib.util as u; exit(u.find_spec('torch') is None)";
  if (python == nullptr || CommandLine({"/usr/bin/env", python, "-c", has_torch}).exit_code != 0) {
    MESSAGE("skipped: there is no torchrun, because Python has no torch");
    return;
  }
  const TempFolder folder;
  const std::string path = folder / "run";
  // The ranks outlive a torchrun that is killed, so their run has an end.
  Words line = train_line(path, set({"stop.env_steps=0", "stop.updates=30000"}));
  line[0] = test::built_program(line[0]);
  Process launcher(Words{"/usr/bin/env", python, "-m", "torch.distributed.run", "--standalone", "--no-python",
                         "--nproc-per-node", "2", "--"} +
                   line);
  constexpr std::chrono::seconds kImport{180};  // of torch, on a busy machine
  CHECK(eventually([&] { return updates_of(path) >= 3; }, kImport));
  CHECK(log_has(path, "rank 0 of 2 (torchrun: RANK)"));
  launcher.signal(SIGTERM);
  CHECK(launcher.wait().has_value());
  CHECK(!log_has(path, "is gone"));
  CHECK(json_of(path + "/summary.json")["reason"] == "interrupted");
  CHECK(checkpoints_of(path).back() == json_of(path + "/summary.json")["updates"]);
}
