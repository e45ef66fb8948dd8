// `troupe bench lag_figures`: an optimizer step on answers of several policy lags alone, with the figures of the lag,
// and with these and the pass at the start of an update that a correction needs.

#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/learning/answers/answer_trainer.h"
#include "runtime/base/text_format.h"
#include "tools/bench/bench.h"
#include "tools/bench/lm.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kLags = 5;           // 0 to 4
constexpr int64_t kLaggedTokens = 32;  // of an answer

// 16 prompts with 8 answers each, whose tokens have every lag.
AnswerBatch lagged_answers() {
  AnswerBatch batch =
      random_answers(small_lm_shape().vocabulary, 9, std::vector(16, std::vector<int64_t>(8, kLaggedTokens)));
  batch.index = kLags - 1;
  for (size_t t = 0; t < batch.tokens.size(); ++t) batch.versions.push_back(static_cast<int64_t>(t) % kLags);
  return batch;
}

struct UpdateWay {
  const char* name;
  const char* text;
  bool figures, start_pass;
};

constexpr UpdateWay kWays[] = {{"step", "the optimizer step alone", false, false},
                               {"figures", "with the figures of the lag", true, false},
                               {"figures_and_start", "with these and the pass at the start", true, true}};

OrderedJson measured_ways(const AnswerBatch& batch, int threads, double seconds, std::vector<std::string>& lines) {
  AlgorithmConfig algorithm;
  algorithm.advantage = "grpo";
  AnswerTrainer trainer(small_lm_shape(), TrainerConfig(), choose_algorithm(algorithm),
                        {.seed = 1, .answer_tokens = kLaggedTokens, .threads = threads});
  AnswerTargets targets;
  targets.advantages.assign(batch.tokens.size(), 1.0f);
  std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
  std::iota(groups.begin(), groups.end(), 0);
  const UpdateSettings settings{.rates = {.policy = 1e-6, .value = 0}, .loss = {}};
  double measured = 0;  // tokens
  std::vector<std::function<void()>> runs;
  for (const UpdateWay& way : kWays)
    runs.emplace_back([&, &way = way] {
      if (way.figures) trainer.begin_update(batch, trainer.start(batch, {.policy = way.start_pass}).log_probs);
      trainer.step(batch, targets, groups, settings);
      if (way.figures) measured = trainer.lag_figures()->all.tokens;
    });
  const std::vector<std::vector<double>> times = seconds_in_turns(seconds, runs);
  const auto tokens = static_cast<double>(batch.tokens.size());
  OrderedJson own{{"threads", threads}, {"measured_tokens", measured}};
  lines.push_back(std::to_string(threads) + (threads == 1 ? " thread:" : " threads:"));
  for (size_t i = 0; i < times.size(); ++i) {
    const double speed = tokens / median(times[i]), ratio = median_ratio(times[i], times.front());
    own[kWays[i].name] = {{"tokens_per_second", speed}, {"time_relative_to_step", ratio}};
    lines.push_back("  " + std::string(kWays[i].text) + ": " + format_number(speed, 0) + " tokens/s, " +
                    format_number(ratio, 3) + " of the time");
  }
  return own;
}

}  // namespace

BenchReport bench_lag_figures(double seconds) {
  const AnswerBatch batch = lagged_answers();
  OrderedJson report{{"answers", batch.answers()}, {"answer_tokens", batch.tokens.size()}};
  std::vector<std::string> lines = {std::to_string(batch.answers()) + " answers with " +
                                    std::to_string(batch.tokens.size()) + " tokens that have lags from 0 to " +
                                    std::to_string(kLags - 1)};
  const std::vector<int> thread_counts = bench_thread_counts();
  for (const int threads : thread_counts)
    report["cases"].push_back(
        measured_ways(batch, threads, seconds / static_cast<double>(thread_counts.size()), lines));
  return {report.dump(), lines};
}

}  // namespace troupe
