// Times act() of a token_transformer with 4, 16 and 64 decisions per action, each of 256 bins: milliseconds of a batch,
// microseconds of one decision of one row, and how the time of a batch grows when the number of decisions grows four
// times. Prints one JSON object.

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/torch/compute.h"
#include "models/torch/learning/make_model.h"
#include "tools/bench/timing.h"

namespace {

using namespace troupe;

constexpr int64_t kRows = 64, kNumbers = 16;
constexpr int kRepeats = 25;

EnvSpec decisions_spec(int32_t decisions) {
  EnvSpec spec;
  spec.observations = {{"state", DType::f32, {kNumbers}}};
  spec.action.kind = ActionKind::multi_discrete;
  spec.action.bins.assign(static_cast<size_t>(decisions), 256);
  return spec;
}

// The shape of configs/token_transformer.json.
RunConfig transformer_config() {
  RunConfig config;
  config.model.kind = "token_transformer";
  config.model.hidden = {64};
  config.model.decoder = R"({"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                             "num_key_value_heads": 4, "intermediate_size": 128})";
  return config;
}

double act_seconds(int32_t decisions) {
  const auto policy = make_policy(transformer_config(), decisions_spec(decisions));
  ActInput input;
  input.observations.set("state", Array(DType::f32, {kRows, kNumbers}));
  input.seeds = Array(DType::i64, {kRows});
  const auto seeds = input.seeds.mutable_view<int64_t>();
  std::iota(seeds.begin(), seeds.end(), 0);
  input.deterministic = Array(DType::u8, {kRows});
  policy->act(input);
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) seconds.push_back(seconds_of([&] { policy->act(input); }));
  return median(seconds);
}

}  // namespace

int main() {
  set_compute_threads(1);
  std::string json = "{\"rows\": " + std::to_string(kRows);
  double before = 0;
  for (const int32_t decisions : {4, 16, 64}) {
    const double seconds = act_seconds(decisions);
    char text[160];
    std::snprintf(text, sizeof text, ", \"act_%d_decisions_ms\": %.3f, \"us_per_decision_of_%d\": %.3f", decisions,
                  1e3 * seconds, decisions, 1e6 * seconds / (kRows * decisions));
    json += text;
    std::snprintf(text, sizeof text, ", \"times_that_of_%d\": %.2f", decisions / 4, seconds / before);
    if (before > 0) json += text;
    before = seconds;
  }
  std::printf("%s}\n", json.c_str());
}
