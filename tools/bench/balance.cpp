// `troupe bench balance`: how long it takes to distribute sequences, and how balanced the parts are.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/balance/partition.h"
#include "runtime/base/rng.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

constexpr int64_t kSizes[] = {1000, 10000, 100000};
constexpr int64_t kParts[] = {8, 64};

// Lengths of answers: log-normal with a median of 600 tokens, cut off at 8192.
std::vector<int64_t> answer_lengths(int64_t count) {
  Rng rng(derive_key(1, "bench balance"));
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<int64_t>(std::min(600.0 * std::exp(double{rng.normal()}), 8192.0)));
  return out;
}

struct BalanceCase {
  int64_t sequences = 0;
  int64_t parts = 0;
  bool equal_size = false;
  double seconds = 0;         // median
  double greedy_seconds = 0;  // median
  BalanceStats balanced, greedy;
};

// Alternates for `seconds`, at least three times.
BalanceCase measure(int64_t sequences, int64_t parts, bool equal_size, double seconds) {
  constexpr std::size_t kLeastTurns = 3;
  BalanceCase out{sequences, parts, equal_size};
  const std::vector<int64_t> lengths = answer_lengths(sequences / parts * parts);
  std::vector<double> balanced, greedy;
  double spent = 0;
  while (spent < seconds || balanced.size() < kLeastTurns) {
    Partition first, second;
    balanced.push_back(seconds_of([&] { first = balanced_partitions(lengths, parts, equal_size); }));
    greedy.push_back(seconds_of([&] { second = greedy_partition(lengths, parts, equal_size); }));
    spent += balanced.back() + greedy.back();
    out.balanced = balance_stats(lengths, first);
    out.greedy = balance_stats(lengths, second);
  }
  const auto median = [](std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
  };
  out.seconds = median(balanced);
  out.greedy_seconds = median(greedy);
  return out;
}

nlohmann::ordered_json json_of(const BalanceCase& c) {
  return {{"sequences", c.sequences},
          {"parts", c.parts},
          {"equal_size", c.equal_size},
          {"seconds", c.seconds},
          {"sequences_per_second", static_cast<double>(c.sequences) / c.seconds},
          {"imbalance", c.balanced.imbalance},
          {"imbalance_lower_bound", c.balanced.lower_bound / c.balanced.mean},
          {"greedy_seconds", c.greedy_seconds},
          {"greedy_imbalance", c.greedy.imbalance}};
}

std::string line_of(const BalanceCase& c) {
  return std::to_string(c.sequences) + " into " + std::to_string(c.parts) + (c.equal_size ? " of equal size: " : ": ") +
         format_number(1e3 * c.seconds, 2) + " ms, " +
         format_number(static_cast<double>(c.sequences) / c.seconds / 1e6, 1) + " M/s, max/mean " +
         format_number(c.balanced.imbalance, 6) + " (at least " +
         format_number(c.balanced.lower_bound / c.balanced.mean, 6) + "); greedy " +
         format_number(1e3 * c.greedy_seconds, 2) + " ms, " + format_number(c.greedy.imbalance, 6);
}

}  // namespace

BenchReport bench_balance(double seconds) {
  constexpr double kCases = 2.0 * std::size(kSizes) * std::size(kParts);
  BenchReport report;
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  for (const bool equal_size : {false, true})
    for (const int64_t parts : kParts)
      for (const int64_t sequences : kSizes) {
        const BalanceCase c = measure(sequences, parts, equal_size, seconds / kCases);
        cases.push_back(json_of(c));
        report.lines.push_back(line_of(c));
      }
  report.json = nlohmann::ordered_json{{"cases", cases}}.dump();
  return report;
}

}  // namespace troupe
