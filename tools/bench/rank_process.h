#pragma once
// A process of `troupe bench trainer --ranks` and `--exchange`: one of the ranks besides 0, whose learner is not that
// of an environment. Started by the benchmark (BenchRanks), not by users: a command of troupe-bench alone. The rest is
// what `troupe rank` does.

#include <cstdint>
#include <string>
#include <vector>

#include "tools/bench/round_learner.h"
#include "tools/cli/address.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"

namespace troupe {

struct BenchRankOptions {
  Address connect;
  int64_t observations = 1;  // of the made-up environment
  int64_t floats = 0;        // if not 0: a RoundLearner that exchanges so many,
  int64_t rounds = 1;        // so often in an update
};

// The words that start it, without `--connect HOST:PORT`.
std::vector<std::string> bench_rank_command_of(int64_t observations);
std::vector<std::string> bench_rank_command_of(const RoundOptions& rounds);

int run_bench_rank(const BenchRankOptions& options);

inline BenchRankOptions read_bench_rank(Flags& flags) {
  constexpr int64_t kMost = int64_t{1} << 40;
  BenchRankOptions options;
  flags.required_option("--connect", "HOST:PORT", options.connect, parse_address, "address of rank 0");
  flags.option("--observations", "N", options.observations, integer_in(1, kMost), "numbers of an observation");
  flags.option("--floats", "N", options.floats, integer_in(0, kMost), "numbers of the gradients that are exchanged");
  flags.option("--rounds", "N", options.rounds, integer_in(1, kMost), "rounds of an update");
  flags.read();
  return options;
}

inline Command bench_rank_command() {
  return {.name = "bench_rank",
          .summary = "a rank of troupe bench trainer, which starts it",
          .parse = read_then_run<read_bench_rank, run_bench_rank>};
}

}  // namespace troupe
