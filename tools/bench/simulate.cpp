// Runs seeds in parallel and prints one line for each that fails.

#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/log.h"
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

void print_failure(uint64_t seed, const sim::Outcome& outcome) {
  std::cout << "seed " << seed << " failed after " << outcome.events << " events: " << *outcome.violation << "\n  "
            << outcome.scenario << "\n  replay with: troupe simulate --seed " << seed << " --verbose" << std::endl;
}

}  // namespace

int run_simulate(const SimulateOptions& options) {
  StopSignals signals;
  signals.begin({});
  const auto begun = std::chrono::steady_clock::now();
  open_log(nullptr, {.to_stderr = false});  // hides the actors' warnings about the injected faults
  std::mutex mutex;
  Totals totals;
  std::atomic<uint64_t> next = options.seeds.first;
  const auto work = [&] {
    for (uint64_t seed = next++; seed <= options.seeds.last && seed >= options.seeds.first && !signals.asked();
         seed = next++) {
      const auto trace = options.verbose ? [](const std::string& line) { std::cout << line << '\n'; }
                                         : std::function<void(const std::string&)>();
      const sim::Outcome outcome = sim::simulate(seed, sim::Mutation::none, trace);
      const std::lock_guard lock(mutex);
      add(totals, outcome);
      if (outcome.violation) print_failure(seed, outcome);
    }
  };
  const uint64_t seeds = options.seeds.last - options.seeds.first + 1;
  const uint64_t threads =
      options.verbose ? 1 : std::min<uint64_t>(std::max(1u, std::thread::hardware_concurrency()), seeds);
  std::vector<std::thread> workers;
  for (uint64_t i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  close_log();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  std::cout << totals.seeds << " seeds, " << totals.failed << " failed; " << totals.processes << " processes, "
            << totals.updates << " updates, " << totals.events << " events, " << totals.faults << " faults; " << seconds
            << " s" << std::endl;
  if (totals.failed > 0) return kExitFailure;
  return signals.asked() ? kExitInterrupted : 0;
}

}  // namespace troupe
