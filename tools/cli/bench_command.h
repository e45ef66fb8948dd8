#pragma once
// `troupe bench`: its flags. troupe-bench measures (tools/bench/bench_command.cpp).

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/suggest.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"

namespace troupe {

// Sizes of the hidden layers of a network, like "1024,1024".
struct LayerSizes {
  std::vector<int64_t> sizes;
  std::string text() const {
    std::string result;
    for (const int64_t size : sizes) result += (result.empty() ? "" : ",") + std::to_string(size);
    return result;
  }
};

// Of `troupe bench trainer` with several ranks, or of the exchange between two.
struct TrainerBenchOptions {
  int64_t ranks = 1;
  double link = 0;  // megabytes (10^6 bytes) a second that the connection of a rank lets through; 0 = no limit
  LayerSizes hidden{{1024, 1024}};
  int64_t observations = 17;  // numbers
  int64_t minibatch = 4096;   // samples of an optimizer step, over all shards
  int64_t exchange = 0;       // bytes of gradients that two ranks exchange; 0 = measure updates
};

struct BenchOptions {
  std::string what;  // one of kBenchmarks
  bool json = false;
  double seconds = 5.0;  // to measure, roughly
  std::string plot;      // an SVG file to draw, or empty
  bool nccl = false;     // of weights: between two GPUs
  TrainerBenchOptions trainer;
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

inline LayerSizes parse_layer_sizes(std::string_view flag, const std::string& text) {
  constexpr int64_t kLargest = 65'536;
  LayerSizes result;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    result.sizes.push_back(parse_integer(flag, text.substr(begin, end - begin), 1, kLargest));
    begin = end + 1;
  }
  return result;
}

inline void add_trainer_bench_flags(Flags& flags, TrainerBenchOptions& into) {
  constexpr int64_t kMostBenchRanks = 64, kMostMegabytes = 1'000'000, kMostNumbers = 1'000'000;
  constexpr int64_t kMostExchangeBytes = 1'000'000'000;
  flags.option("--ranks", "N", into.ranks, integer_in(2, kMostBenchRanks),
               "only trainer: measure updates of a larger policy on 1 rank and on N, each a process with one thread");
  flags.option(
      "--link", "MB/S", into.link,
      [](std::string_view flag, const std::string& text) {
        return static_cast<double>(parse_integer(flag, text, 1, kMostMegabytes));
      },
      "with --ranks: measure also over connections that let so many megabytes a second through in each direction, and "
      "what share of the transfers is hidden behind computation");
  flags.option("--hidden", "SIZES", into.hidden, parse_layer_sizes,
               "with --ranks: units of the hidden layers (default: 1024,1024)");
  flags.option("--observations", "N", into.observations, integer_in(1, kMostNumbers),
               "with --ranks: numbers of an observation (default: 17)");
  flags.option("--minibatch", "N", into.minibatch, integer_in(1, kMostNumbers),
               "with --ranks: samples of an optimizer step, over all shards (default: 4096)");
  flags.option("--exchange", "BYTES", into.exchange, integer_in(4, kMostExchangeBytes),
               "only trainer: measure how long two ranks without computation take to exchange so many bytes of "
               "gradients");
}

// Refuses what does not go together.
inline void check_trainer_bench_flags(const Flags& flags, const BenchOptions& options) {
  const bool ranks = flags.given("--ranks"), exchange = flags.given("--exchange");
  for (const char* flag : {"--ranks", "--exchange"})
    if (flags.given(flag) && options.what != "trainer") flags.refuse(std::string(flag) + ": only for trainer");
  for (const char* flag : {"--link", "--hidden", "--observations", "--minibatch"})
    if (flags.given(flag) && !ranks) flags.refuse(std::string(flag) + ": needs --ranks N");
  if (ranks && exchange) flags.refuse("--exchange: cannot go with --ranks; leave one out");
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
  add_trainer_bench_flags(flags, options.trainer);
  flags.read();
  if (options.nccl && options.what != "weights") flags.refuse("--nccl: goes with weights only, remove it");
  check_trainer_bench_flags(flags, options);
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
              "  troupe bench inference --seconds 10 --json\n"
              "  troupe bench trainer --ranks 2 --link 100 --seconds 60\n",
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
