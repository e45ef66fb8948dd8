// Runs seeds in parallel and prints one line for each that fails, or looks for one that catches a deliberate bug.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "sim/simulation.h"
#include "tools/cli/launch.h"
#include "tools/cli/simulate_command.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

namespace {

struct Totals {
  uint64_t seeds = 0, failed = 0, events = 0, updates = 0, processes = 0, faults = 0;
};

void add(Totals& totals, const sim::Outcome& outcome) {
  ++totals.seeds;
  totals.failed += outcome.violation.has_value();
  totals.events += outcome.events;
  totals.updates += outcome.updates;
  totals.processes += outcome.processes;
  totals.faults += outcome.faults;
}

// The command that replays a seed.
std::string replay(uint64_t seed, std::string_view bug = {}) {
  return "replay with: troupe simulate --seed " + std::to_string(seed) +
         (bug.empty() ? "" : " --mutate " + std::string(bug)) + " --verbose";
}

void print_failure(uint64_t seed, const sim::Outcome& outcome) {
  std::cout << "seed " << seed << " failed after " << outcome.events << " events: " << *outcome.violation << "\n  "
            << outcome.scenario << "\n  " << replay(seed) << std::endl;
}

// Gets one outcome at a time; returns whether to go on with seeds that have not begun.
using TakeOutcome = std::function<bool(uint64_t seed, const sim::Outcome& outcome)>;

// Simulates the seeds in parallel, and begins them in order.
void simulate_seeds(const SimulateOptions& options, sim::Mutation mutation, StopSignals& signals,
                    const TakeOutcome& take) {
  std::mutex mutex;
  std::atomic<uint64_t> next = options.seeds.first;
  std::atomic<bool> enough = false;
  const auto work = [&] {
    for (uint64_t seed = next++;
         seed <= options.seeds.last && seed >= options.seeds.first && !signals.asked() && !enough; seed = next++) {
      const auto trace = options.verbose ? [](const std::string& line) { std::cout << line << '\n'; }
                                         : std::function<void(const std::string&)>();
      const sim::Outcome outcome = sim::simulate(seed, mutation, trace);
      const std::lock_guard lock(mutex);
      if (!take(seed, outcome)) enough = true;
    }
  };
  const uint64_t more = options.seeds.last - options.seeds.first;  // seeds, after the first one
  const uint64_t threads =
      options.verbose ? 1 : std::min<uint64_t>(std::max(1u, std::thread::hardware_concurrency()) - 1, more) + 1;
  std::vector<std::thread> workers;
  for (uint64_t i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
}

int print_bugs() {
  for (const sim::MutationInfo& bug : sim::mutations())
    std::cout << bug.name << ": " << bug.what << (bug.tokens ? " (token runs)" : "") << '\n';
  return 0;
}

const sim::MutationInfo& find_bug(const std::string& name) {
  if (const sim::MutationInfo* bug = sim::find_mutation(name)) return *bug;
  Words names;
  for (const sim::MutationInfo& bug : sim::mutations()) names.emplace_back(bug.name);
  const std::string near = did_you_mean(name, names);
  refuse_flag("--mutate", '"' + printable(name) + "\" is unknown" + (near.empty() ? "" : ", " + near) +
                              "; `troupe simulate --mutate list` shows all bugs");
}

// Looks for the first seed in which the bug is caught by its own invariant.
int catch_bug(const SimulateOptions& options, const sim::MutationInfo& bug, StopSignals& signals) {
  uint64_t seeds = 0;
  std::optional<uint64_t> seed_of_catch;
  std::string caught, other;
  simulate_seeds(options, bug.mutation, signals, [&](uint64_t seed, const sim::Outcome& outcome) {
    ++seeds;
    if (!sim::catches(bug, outcome)) {
      other = outcome.violation.value_or(other);
    } else if (!seed_of_catch || seed < *seed_of_catch) {
      seed_of_catch = seed;
      caught = *outcome.violation + "\n  " + outcome.scenario;
    }
    return !seed_of_catch;
  });
  std::cout << bug.name << " (" << bug.what << ") ";
  if (seed_of_catch) {
    std::cout << "is caught with seed " << *seed_of_catch << ": " << caught << "\n  "
              << replay(*seed_of_catch, bug.name) << std::endl;
    return 0;
  }
  std::cout << "is not caught by its invariant, whose message has \"" << bug.caught_by << "\", with " << seeds
            << " seeds" << (other.empty() ? "" : "; last violation: " + other) << std::endl;
  return signals.asked() ? kExitInterrupted : kExitFailure;
}

int check_seeds(const SimulateOptions& options, StopSignals& signals) {
  const auto begun = std::chrono::steady_clock::now();
  Totals totals;
  simulate_seeds(options, sim::Mutation::none, signals, [&](uint64_t seed, const sim::Outcome& outcome) {
    add(totals, outcome);
    if (outcome.violation) print_failure(seed, outcome);
    return true;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::cout << totals.seeds << " seeds, " << totals.failed << " failed; " << totals.processes << " processes, "
            << totals.updates << " updates, " << totals.events << " events, " << totals.faults << " faults; " << seconds
            << " s" << std::endl;
  if (totals.failed > 0) return kExitFailure;
  return signals.asked() ? kExitInterrupted : 0;
}

}  // namespace

int run_simulate(const SimulateOptions& options) {
  if (options.mutate == kListBugs) return print_bugs();
  const sim::MutationInfo* bug = options.mutate.empty() ? nullptr : &find_bug(options.mutate);
  StopSignals signals;
  signals.begin({});
  open_log(nullptr, {.to_stderr = false});  // hides the actors' warnings about the injected faults
  const int code = bug == nullptr ? check_seeds(options, signals) : catch_bug(options, *bug, signals);
  close_log();
  return code;
}

}  // namespace troupe
