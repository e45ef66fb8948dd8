#pragma once
// `troupe simulate`: its flags. troupe-bench runs the simulations (tools/bench/simulate.cpp).

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"

namespace troupe {

// From first to last, both included.
struct SeedRange {
  uint64_t first = 1, last = 1;

  std::string text() const { return std::to_string(first) + ".." + std::to_string(last); }
};

// Without --mutate one of the flags that set `seeds` is required.
struct SimulateOptions {
  SeedRange seeds = {1, 400};
  std::string mutate;  // the name of a deliberate bug, or kListBugs; empty = none
  bool verbose = false;
};

inline constexpr const char* kListBugs = "list";

inline SeedRange parse_seeds(std::string_view flag, const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == std::string::npos)
    refuse_flag(flag, '"' + printable(text) + "\" is not a range, expected A..B, like 1..1000");
  const SeedRange seeds = {parse_seed(flag, text.substr(0, dots)), parse_seed(flag, text.substr(dots + 2))};
  if (seeds.first > seeds.last) refuse_flag(flag, printable(text) + " is empty, expected A..B with A <= B");
  return seeds;
}

inline SeedRange parse_one_seed(std::string_view flag, const std::string& text) {
  const uint64_t seed = parse_seed(flag, text);
  return {seed, seed};
}

// In troupe-bench.
int run_simulate(const SimulateOptions& options);

inline SimulateOptions read_simulate(Flags& flags) {
  SimulateOptions options;
  flags.option("--seeds", "A..B", options.seeds, parse_seeds,
               "every seed from A to B, both included; this or --seed is required (default: 1..400 with --mutate)");
  flags.option("--seed", "N", options.seeds, parse_one_seed, "one seed");
  flags.option("--mutate", "NAME", options.mutate, any_text,
               "insert this bug on purpose, and report the first of the seeds that catches it; list prints all bugs");
  flags.toggle("--verbose", options.verbose, "print every event; meant for one seed");
  flags.read();
  const bool range = flags.given("--seeds"), one = flags.given("--seed"), mutate = flags.given("--mutate");
  if ((range && one) || (!range && !one && !mutate)) flags.refuse("expected exactly one of --seeds A..B and --seed N");
  if (mutate && options.mutate.empty()) refuse_flag("--mutate", "is empty, expected the name of a bug, or list");
  if (options.mutate == kListBugs && (range || one || options.verbose))
    flags.refuse("--mutate list: cannot go with other options; leave them out");
  return options;
}

inline void check_simulate(const SimulateOptions&) {}

inline Command simulate_command() {
  return {.name = "simulate",
          .summary = "test the runtime: small runs under random schedules and faults",
          .examples =
              "  troupe simulate --seeds 1..1000\n"
              "  troupe simulate --seed 42 --verbose\n"
              "  troupe simulate --mutate credit_lost\n",
          .exit_codes = {{0, "every seed passed; with --mutate: a seed has caught the bug"},
                         {1,
                          "a seed failed; with --mutate: no seed has caught the bug; or the output could not be "
                          "written"},
                         {2, "a mistake in the command"},
                         {130, "stopped by a signal; the seeds so far passed, or have not caught the bug"}},
          .parse = read_then_run<read_simulate, check_simulate>,
          .done_by = kBenchProgram,
          .for_maintainers = true};
}

}  // namespace troupe
