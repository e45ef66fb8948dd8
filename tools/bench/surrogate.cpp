// `troupe bench surrogate`: one pass of each policy surrogate (loss, gradient and diagnostics), compared in turns with
// a kernel that only reads the same arrays and writes one.

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "algorithms/common/cpu.h"
#include "algorithms/losses/surrogate.h"
#include "runtime/base/rng.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

constexpr int64_t kSurrogateRows = 512, kSurrogateSteps = 2048, kTokens = kSurrogateRows * kSurrogateSteps;
constexpr double kBytes =
    3.0 * sizeof(float) + 1 + sizeof(float);  // of one token: three arrays and the mask read, one written

struct Tokens {
  std::vector<float> log_probs, old_log_probs, advantages, grad;
  std::vector<uint8_t> mask;
  std::vector<double> sequence_weights;

  Tokens() : grad(kTokens), sequence_weights(kSurrogateRows, 1.0 / kTokens) {
    Rng random(derive_key(1, "bench surrogate"));
    for (int64_t i = 0; i < kTokens; ++i) {
      old_log_probs.push_back(-3.0f * random.uniform());
      log_probs.push_back(old_log_probs.back() + random.uniform(-0.3f, 0.3f));
      advantages.push_back(random.uniform(-1.0f, 1.0f));
      mask.push_back(random.below(10) != 0);
    }
  }
};

// The least that a loss over these arrays must do: read the four, write the one.
void stream(Tokens& tokens) {
  for (int64_t i = 0; i < kTokens; ++i)
    tokens.grad[i] =
        (tokens.log_probs[i] - tokens.old_log_probs[i]) * tokens.advantages[i] * static_cast<float>(tokens.mask[i]);
}

nlohmann::ordered_json measure(const SurrogateEntry& entry, Isa isa, Tokens& tokens, double seconds) {
  const Surrogate surrogate = make_surrogate(entry.name);
  SurrogateInput in{tokens.log_probs, tokens.old_log_probs, tokens.advantages, tokens.mask};
  in.sequences = TokenSequences(kSurrogateRows, kSurrogateSteps);
  in.sequence_weights = tokens.sequence_weights;
  force_isa(isa);
  std::vector<double> losses, streams;
  for (double spent = 0; spent < seconds || losses.size() < 3; spent += losses.back() + streams.back()) {
    losses.push_back(seconds_of([&] { surrogate(in, {{}, tokens.grad}); }));
    streams.push_back(seconds_of([&] { stream(tokens); }));
  }
  force_isa(std::nullopt);
  const double time = median(losses);
  return {{"surrogate", entry.name},
          {"isa", name_of(isa)},
          {"seconds", time},
          {"tokens_per_second", kTokens / time},
          {"gigabytes_per_second", kBytes * kTokens / time / 1e9},
          {"stream_gigabytes_per_second", kBytes * kTokens / median(streams) / 1e9},
          {"ratio_to_stream", median(streams) / time}};
}

}  // namespace

BenchReport bench_surrogate(double seconds) {
  BenchReport report;
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  Tokens tokens;
  stream(tokens);
  const double share = seconds / static_cast<double>(surrogate_table().size() * available_isas().size());
  for (const SurrogateEntry& entry : surrogate_table())
    for (const Isa isa : available_isas()) {
      const nlohmann::ordered_json c = measure(entry, isa, tokens, share);
      report.lines.push_back(std::string(entry.name) + ", " + std::string(name_of(isa)) + ": " +
                             format_number(c["tokens_per_second"].get<double>() / 1e6, 0) + " M tokens/s, " +
                             format_number(c["gigabytes_per_second"], 1) + " GB/s of " +
                             format_number(c["stream_gigabytes_per_second"], 1) + " streamed");
      cases.push_back(c);
    }
  report.json =
      nlohmann::ordered_json{{"rows", kSurrogateRows}, {"steps", kSurrogateSteps}, {"threads", 1}, {"cases", cases}}
          .dump();
  return report;
}

}  // namespace troupe
