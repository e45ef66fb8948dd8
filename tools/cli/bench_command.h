#pragma once
// `troupe bench`: its flags. troupe-bench measures (tools/bench/bench_command.cpp).

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"

namespace troupe {

struct BenchOptions {
  std::string what;  // one of kBenchmarks
  bool json = false;
  double seconds = 5.0;  // to measure, roughly
  std::string plot;      // an SVG file to draw, or empty
  bool nccl = false;     // of weights: between two GPUs
};

// The names that the command accepts, and those of them whose result tools/plot_bench.py can draw.
inline const std::vector<std::string> kBenchmarks = {
    "sampling", "inference",     "trainer",     "weights",  "replay", "gae",  "vtrace",
    "balance",  "surrogate",     "logprob",     "bridge",   "mujoco", "gemm", "generate",
    "lm_train", "micro_batches", "lag_figures", "verdicts", "stats"};
inline const std::vector<std::string> kDrawableBenchmarks = {"gae", "vtrace", "surrogate", "logprob", "balance"};

inline std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// In troupe-bench.
int run_bench(const BenchOptions& options);

inline BenchOptions read_bench(Flags& flags) {
  BenchOptions options;
  const std::string all = joined(kBenchmarks), drawable = joined(kDrawableBenchmarks);
  const auto benchmark = [&](std::string_view, const std::string& text) {
    if (std::ranges::find(kBenchmarks, text) == kBenchmarks.end()) {
      const std::string near = closest(text, kBenchmarks);
      flags.refuse('"' + printable(text) + "\" is unknown, " +
                   (near.empty() ? "expected one of: " + all : "did you mean " + near + '?'));
    }
    return text;
  };
  flags.argument("NAME", options.what, benchmark, "what to measure, one of: " + all);
  flags.toggle("--json", options.json, "print one JSON object, whose keys name their units");
  flags.option("--seconds", "S", options.seconds, parse_seconds, "seconds to measure, roughly (default: 5)");
  flags.option("--plot", kFileType, options.plot, path_to("the name of a file"),
               "draw the result into this SVG file (only " + drawable + ")");
  flags.toggle("--nccl", options.nccl, "only weights: between the first two GPUs with NCCL, instead of Gloo");
  flags.read();
  if (options.nccl && options.what != "weights") flags.refuse("--nccl: goes with weights only, remove it");
  if (!options.plot.empty() && std::ranges::find(kDrawableBenchmarks, options.what) == kDrawableBenchmarks.end())
    flags.refuse("--plot: " + options.what + " cannot be drawn, only " + drawable);
  return options;
}

inline void check_bench(const BenchOptions&) {}

inline Command bench_command() {
  return {.name = "bench",
          .summary = "measure the speed of one part on this machine",
          .examples =
              "  troupe bench sampling\n"
              "  troupe bench inference --seconds 10 --json\n",
          .exit_codes = {{0, "the result was printed"},
                         {1,
                          "the measurement failed or, of verdicts, more than one is wrong, or, of stats, events cost "
                          "more than 0.5 %; or the result could not be written"},
                         {2, "a mistake in the command"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_bench, check_bench>,
          .done_by = kBenchProgram};
}

}  // namespace troupe
