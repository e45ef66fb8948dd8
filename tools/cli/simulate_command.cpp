// `troupe simulate`: seeds in parallel, one line per failing seed.

#include <atomic>
#include <chrono>
#include <iostream>
#include <mutex>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/base/suggest.h"
#include "sim/simulation.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launch.h"

namespace troupe {

namespace {

// From first to last, both included.
struct Seeds {
  uint64_t first = 1, last = 1;

  std::string text() const { return std::to_string(first) + ".." + std::to_string(last); }
};

struct SimulateOptions {
  Seeds seeds;
  bool verbose = false;
};

Seeds parse_seeds(std::string_view flag, const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos)
    refuse_flag(flag, '"' + printable(text) + "\" is not a range, expected A..B, like 1..1000");
  const Seeds seeds = {parse_seed(flag, text.substr(0, dots)), parse_seed(flag, text.substr(dots + 2))};
  if (seeds.first > seeds.last) refuse_flag(flag, printable(text) + " is empty, expected A..B with A <= B");
  return seeds;
}

Seeds parse_one_seed(std::string_view flag, const std::string& text) {
  const uint64_t seed = parse_seed(flag, text);
  return {seed, seed};
}

SimulateOptions read_simulate(Flags& flags) {
  SimulateOptions options;
  flags.option("--seeds", "A..B", options.seeds, parse_seeds, "every seed from A to B, both included");
  flags.option("--seed", "N", options.seeds, parse_one_seed, "one seed");
  flags.toggle("--verbose", options.verbose, "print every event; meant for one seed");
  flags.exactly_one_of({"--seeds", "--seed"});
  flags.read();
  return options;
}

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

int simulate(const SimulateOptions& options) {
  const auto begun = std::chrono::steady_clock::now();
  open_log(nullptr, {.to_stderr = false});  // hides the actors' warnings about the injected faults
  std::mutex mutex;
  Totals totals;
  std::atomic<uint64_t> next = options.seeds.first;
  const auto work = [&] {
    for (uint64_t seed = next++; seed <= options.seeds.last && seed >= options.seeds.first; seed = next++) {
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
  return totals.failed == 0 ? 0 : kExitFailure;
}

}  // namespace

Command simulate_command() {
  return {.name = "simulate",
          .summary = "test the runtime: small runs under random schedules and faults",
          .examples =
              "  troupe simulate --seeds 1..1000\n"
              "  troupe simulate --seed 42 --verbose\n",
          .exit_codes = {{0, "every seed passed"},
                         {1, "a seed failed, or the output could not be written"},
                         {2, "a mistake in the command"}},
          .parse = read_then_run<read_simulate, simulate>,
          .for_maintainers = true};
}

}  // namespace troupe
