// The simulator as a test: many seeds give no violation, the same seed gives the same events, and every injected bug is
// caught.

#include "sim/simulation.h"

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::sim;

namespace {

// Discards the log, because the actors log every injected fault.
struct QuietLog {
  QuietLog() { open_log(nullptr, {.to_stderr = false}); }
  ~QuietLog() { close_log(); }
};

std::string describe(uint64_t seed, const Outcome& outcome) {
  return "seed " + std::to_string(seed) + ": " + outcome.violation.value_or("") +
         "; replay with: troupe simulate --seed " + std::to_string(seed) + " --verbose";
}

std::vector<uint64_t> seeds_that_failed() {
  std::ifstream file("tests/actors/simulation_seeds.txt");
  std::vector<uint64_t> seeds;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    uint64_t seed = 0;
    if (words >> seed) seeds.push_back(seed);
  }
  return seeds;
}

// The violations of the seeds first..last, computed by two threads.
std::vector<std::string> violations(uint64_t first, uint64_t last) {
  std::atomic<uint64_t> next = first;
  std::mutex mutex;
  std::vector<std::string> found;
  const auto work = [&] {
    for (uint64_t seed = next++; seed <= last; seed = next++) {
      const Outcome outcome = simulate(seed);
      const std::lock_guard lock(mutex);
      if (outcome.violation) found.push_back(describe(seed, outcome));
    }
  };
  std::thread other(work);
  work();
  other.join();
  return found;
}

TEST_CASE("simulation: five thousand seeds break no invariant") {
  const QuietLog quiet;
  for (const std::string& violation : violations(1, 5000)) CHECK_MESSAGE(false, violation);
}

TEST_CASE("simulation: seeds that failed once do not fail again") {
  const QuietLog quiet;
  const std::vector<uint64_t> seeds = seeds_that_failed();
  REQUIRE(!seeds.empty());
  for (const uint64_t seed : seeds) {
    const Outcome outcome = simulate(seed, Mutation::none, nullptr, RunKind::control);
    CHECK_MESSAGE(!outcome.violation, describe(seed, outcome));
  }
}

TEST_CASE("simulation: the same seed gives the same events, another seed others") {
  const QuietLog quiet;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Outcome first = simulate(seed), second = simulate(seed);
    CHECK(first.trace_hash == second.trace_hash);
    CHECK(first.events == second.events);
    CHECK(first.trace_hash != simulate(seed + 50).trace_hash);
  }
}

TEST_CASE("simulation: faults occur, and runs continue after them") {
  const QuietLog quiet;
  uint64_t faults = 0, processes = 0, updates = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = simulate(seed);
    faults += outcome.faults;
    processes += outcome.processes;
    updates += outcome.updates;
  }
  CHECK(faults >= 300);
  CHECK(processes >= 120);  // some were killed and resumed
  CHECK(updates >= 500);
}

TEST_CASE("simulation: verifiers score several groups in a call, and die") {
  const QuietLog quiet;
  uint64_t shared = 0, lost = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = simulate(seed, Mutation::none, nullptr, RunKind::tokens);
    shared += outcome.shared_score_calls;
    lost += outcome.lost_groups;
  }
  CHECK(shared >= 50);
  CHECK(lost >= 20);
}

TEST_CASE("simulation: scorers compute several groups at a time, and die") {
  const QuietLog quiet;
  uint64_t shared = 0, killed = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    const Outcome outcome = simulate(seed, Mutation::none, nullptr, RunKind::tokens);
    shared += outcome.shared_scorings;
    killed += outcome.killed_scorers;
  }
  CHECK(shared >= 20);
  CHECK(killed >= 10);
}

TEST_CASE("simulation: rank processes are killed, and the others go on, or the run ends because moments are lost") {
  const QuietLog quiet;
  uint64_t killed = 0, broken = 0, frozen = 0, muted = 0, recoveries = 0, lost_moments = 0;
  for (uint64_t seed = 2; seed <= 500; seed += 5) {  // those with shards
    const Outcome outcome = simulate(seed);
    CHECK_MESSAGE(!outcome.violation, describe(seed, outcome));
    killed += outcome.killed_ranks;
    broken += outcome.broken_rank_connections;
    frozen += outcome.frozen_ranks;
    muted += outcome.muted_ranks;
    recoveries += outcome.recoveries;
    lost_moments += outcome.lost_moments;
  }
  CHECK(killed >= 20);
  CHECK(broken >= 5);
  CHECK(frozen >= 5);
  CHECK(muted >= 5);
  CHECK(recoveries >= 3);
  CHECK(lost_moments >= 3);
}

TEST_CASE("simulation: inference processes get weights, lose transfers and are killed") {
  const QuietLog quiet;
  uint64_t transfers = 0, damaged = 0, broken = 0, killed = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const Outcome outcome = simulate(seed);
    transfers += outcome.transfers;
    damaged += outcome.damaged_transfers;
    broken += outcome.broken_transfers;
    killed += outcome.killed_inference_processes;
  }
  CHECK(transfers >= 400);
  CHECK(damaged >= 5);
  CHECK(broken >= 5);
  CHECK(killed >= 20);
}

TEST_CASE("simulation: keys and values are computed anew with new weights") {
  const QuietLog quiet;
  uint64_t computed_anew = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed)
    computed_anew += simulate(seed, Mutation::none, nullptr, RunKind::tokens).computed_anew;
  CHECK(computed_anew >= 100);
}

TEST_CASE("simulation: answers have several turns") {
  const QuietLog quiet;
  uint64_t turns = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) turns += simulate(seed, Mutation::none, nullptr, RunKind::tokens).turns;
  CHECK(turns >= 200);
}

TEST_CASE("simulation: every injected bug is caught") {
  constexpr uint64_t kSeeds = 400;  // some faults show in one of a hundred
  const QuietLog quiet;
  for (const MutationInfo& info : mutations()) {
    bool caught = false;
    std::string last;
    for (uint64_t seed = 1; seed <= kSeeds && !caught; ++seed) {
      const Outcome outcome = simulate(seed, info.mutation);
      last = outcome.violation.value_or(last);
      caught = catches(info, outcome);
    }
    CHECK_MESSAGE(caught, info.name << " (" << info.what << ") is not caught by its invariant within " << kSeeds
                                    << " seeds; last: " << last);
  }
}

TEST_CASE("simulation: each bug has a name and words of the invariant that catches it") {
  std::set<std::string_view> names;
  for (const MutationInfo& info : mutations()) {
    CHECK_MESSAGE(names.insert(info.name).second, info.name);
    CHECK_MESSAGE(!info.caught_by.empty(), info.name);
    CHECK(find_mutation(info.name) == &info);
  }
  CHECK(find_mutation("none") == nullptr);
}

TEST_CASE("simulation: a bug is caught by its own invariant alone") {
  const MutationInfo& info = *find_mutation("reply_twice");
  Outcome outcome;
  CHECK(!catches(info, outcome));
  outcome.violation = "the run is stuck";
  CHECK(!catches(info, outcome));
  outcome.violation = "request 7 is " + std::string(info.caught_by);
  CHECK(catches(info, outcome));
}

}  // namespace
