#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/rank_context.h"
#include "tools/bench/rank_process.h"
#include "tools/bench/round_learner.h"
#include "tools/bench/timing.h"
#include "tools/bench/training.h"

namespace troupe {
namespace {

constexpr size_t kRanks = 2;
constexpr double kUsualRoundSeconds = 200e-6;

// One without samples, because the learner reads none.
BenchTraining::Batch empty_batch() { return BenchTraining::Batch(kRanks, std::make_shared<const Rollout>()); }

}  // namespace

BenchReport bench_exchange(int64_t bytes, double seconds) {
  const auto start = BenchClock::now();
  const RunContextPtr context = bench_run_context(
      bench_run_config({.shards = kRanks, .ranks = kRanks, .hidden = {8}, .minibatch = 1}), /*observations=*/1);
  // Rounds of about a tenth of the time make an update, and at most 100 MB of each direction.
  const auto most = static_cast<uint64_t>(
      std::max(2.0, std::min(seconds / 10 / kUsualRoundSeconds, 1e8 / static_cast<double>(bytes))));
  const RoundOptions options{.shards = kRanks, .floats = bytes / static_cast<int64_t>(sizeof(float)), .rounds = most};
  std::vector<double> times;
  {
    BenchTraining training(context, std::make_shared<RoundLearner>(options, &times), {empty_batch()},
                           {.command = bench_rank_command_of(options)});
    training.run(0);
    times.clear();
    training.run(std::max(0.0, seconds - seconds_since(start)));
  }
  const double p50 = 1e6 * percentile(times, 0.5), p99 = 1e6 * percentile(times, 0.99);
  const int64_t sent = options.floats * static_cast<int64_t>(sizeof(float));
  const nlohmann::ordered_json json{
      {"bytes", sent}, {"rounds", times.size()}, {"round_p50_us", p50}, {"round_p99_us", p99}};
  return {json.dump(),
          {"rounds of " + format_count(static_cast<uint64_t>(sent)) + " bytes in each direction between 2 processes; " +
               format_count(times.size()) + " rounds",
           "p50  " + format_number(p50, 1) + " us", "p99  " + format_number(p99, 1) + " us"}};
}

}  // namespace troupe
