#include "tools/cli/bench_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <system_error>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/weights.h"
#include "tools/cli/launch.h"
#include "tools/cli/output_file.h"
#include "tools/cli/stop_signals.h"

namespace troupe {
namespace {

BenchReport report_weights(double seconds, bool nccl) {
  constexpr double kSecondsPerRepeat = 0.25;  // 100 MB in both ways, on a slow machine
  WeightsBenchmarkOptions options;
  options.repeats = std::max(1, static_cast<int>(seconds / kSecondsPerRepeat) - 3);  // three more warm it up
  options.nccl = nccl;
  const WeightsBenchmark b = bench_weights(options);
  const nlohmann::ordered_json json{{"backend", nccl ? "nccl" : "gloo"},
                                    {"bytes", b.bytes},
                                    {"repeats", b.repeats},
                                    {"ratio_to_bare_broadcast", b.ratio_to_bare_broadcast},
                                    {"channel_seconds", b.channel_seconds},
                                    {"bare_broadcast_seconds", b.bare_broadcast_seconds}};
  return {json.dump(),
          {format_bytes(b.bytes) + (nccl ? " between two GPUs with NCCL" : " over loopback with Gloo") +
               "; medians of " + std::to_string(b.repeats) + " repeats",
           (nccl ? "bare broadcast with Gloo  " : "bare broadcast  ") +
               format_number(1e3 * b.bare_broadcast_seconds, 1) + " ms",
           "weight channel  " + format_number(1e3 * b.channel_seconds, 1) + " ms, " +
               format_number(b.ratio_to_bare_broadcast, 2) + " of the bare broadcast's speed"}};
}

BenchReport measure_trainer(const TrainerBenchOptions& options, double seconds) {
  if (options.exchange > 0) return bench_exchange(options.exchange, seconds);
  if (options.ranks > 1) return bench_trainer_ranks(options, seconds);
  return bench_trainer(seconds);
}

BenchReport measure(const BenchOptions& options) {
  const std::string& what = options.what;
  const double seconds = options.seconds;
  if (what == "sampling") return bench_sampling(seconds);
  if (what == "inference") return bench_inference(seconds);
  if (what == "trainer") return measure_trainer(options.trainer, seconds);
  if (what == "replay") return bench_replay(seconds);
  if (what == "gae") return bench_gae(seconds);
  if (what == "vtrace") return bench_vtrace(seconds);
  if (what == "balance") return bench_balance(seconds);
  if (what == "surrogate") return bench_surrogate(seconds);
  if (what == "logprob") return bench_logprob(seconds);
  if (what == "bridge") return bench_bridge(seconds);
  if (what == "mujoco") return bench_mujoco(seconds);
  if (what == "gemm") return bench_gemm(seconds);
  if (what == "generate") return bench_generate(seconds);
  if (what == "lm_train") return bench_lm_train(seconds);
  if (what == "micro_batches") return bench_micro_batches(seconds);
  if (what == "lag_figures") return bench_lag_figures(seconds);
  if (what == "verdicts") return bench_verdicts(seconds);
  if (what == "stats") return bench_stats(seconds);
  if (what == "weights") return report_weights(seconds, options.nccl);
  throw InvariantError("no such benchmark: " + what);
}

constexpr const char* kPlotScript = TROUPE_SOURCE_DIR "/tools/plot_bench.py";

// Called before anything is measured. Throws ConfigError when no plot can be written to `file`.
void check_plot(const std::string& file) {
  const auto refuse = [&](const std::string& why) { throw ConfigError("--plot " + printable(file) + ": " + why); };
  if (!std::filesystem::exists(kPlotScript)) refuse(std::string(kPlotScript) + " draws the plot and is missing");
  if (std::filesystem::is_directory(file)) refuse("is a folder, expected a file name like gae.svg");
  const std::string parent = std::filesystem::path(file).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  if (::access(folder.c_str(), W_OK) != 0)
    refuse("cannot be written: " + folder + ": " + std::generic_category().message(errno));
  require_replaceable("--plot", file, picture_output());
}

// Draws `json` with tools/plot_bench.py of the source tree.
void plot(const std::string& json, const std::string& file) {
  const auto quoted = [](const std::string& text) {
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  };
  const std::string command = "python3 " + quoted(kPlotScript) + " " + quoted(file);
  std::FILE* script = ::popen(command.c_str(), "w");
  if (script == nullptr) throw ConfigError("--plot: python3 cannot be started");
  std::fwrite(json.data(), 1, json.size(), script);
  if (::pclose(script) != 0) throw ConfigError("--plot: the plot was not drawn, see the error above");
}

}  // namespace

int run_bench(const BenchOptions& options) {
  const StopSignals signals("stopped; nothing was measured");  // at once: there is nothing to lose
  if (!options.plot.empty()) check_plot(options.plot);
  const BenchReport report = measure(options);
  if (options.json) {
    std::cout << report.json << std::endl;
  } else {
    for (const std::string& line : report.lines) std::cout << line << std::endl;
  }
  if (!options.plot.empty()) plot(report.json, options.plot);
  return report.failed ? kExitFailure : 0;
}

}  // namespace troupe
