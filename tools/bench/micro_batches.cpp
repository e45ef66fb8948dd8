// `troupe bench micro_batches`: an optimizer step on answers of very different lengths, whose micro-batches are cut in
// three ways with the same limit of tokens: as the trainer does, and at an equal number of answers without and with
// padding.

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "models/learning/answers/answer_trainer.h"
#include "runtime/base/rng.h"
#include "runtime/base/text_format.h"
#include "tools/bench/bench.h"
#include "tools/bench/lm.h"
#include "tools/bench/timing.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int64_t kMostTokens = 512;  // of a micro-batch
constexpr int64_t kPromptTokens = 9, kPrompts = 16, kAnswersEach = 8;
constexpr uint64_t kMeanLength = 32;
constexpr int64_t kLongestAnswer = 256;

// Each token is the last one with the same probability.
std::vector<std::vector<int64_t>> geometric_lengths() {
  Rng random(derive_key(1, "bench lengths"));
  std::vector<std::vector<int64_t>> lengths(static_cast<size_t>(kPrompts));
  for (std::vector<int64_t>& group : lengths) {
    for (int64_t a = 0; a < kAnswersEach; ++a) {
      int64_t length = 1;
      while (length < kLongestAnswer && random.below(kMeanLength) != 0) ++length;
      group.push_back(length);
    }
  }
  return lengths;
}

// How the micro-batches of a step are cut.
struct Cut {
  const char* name;
  const char* text;
  AnswerBatch batch;
  std::vector<MicroBatch> parts;  // empty = those of the trainer
  int64_t each = 0;               // answers of one; 0 = no fixed number
};

// The answers in their order.
std::vector<MicroBatch> parts_of(int64_t answers, int64_t each) {
  std::vector<MicroBatch> parts;
  for (int64_t first = 0; first < answers; first += each) {
    MicroBatch& part = parts.emplace_back(static_cast<size_t>(std::min(each, answers - first)));
    std::iota(part.begin(), part.end(), first);
  }
  return parts;
}

// The batch with answers as long as the longest one of their micro-batch. What is added is not kept: it is computed and
// has no loss.
AnswerBatch padded(const AnswerBatch& batch, const std::vector<MicroBatch>& parts) {
  AnswerBatch result = batch;
  result.tokens.clear();
  result.offsets = {0};
  for (const MicroBatch& part : parts) {
    int64_t longest = 0;
    for (const int64_t a : part) longest = std::max(longest, batch.tokens_of(a));
    for (const int64_t a : part) {
      const auto begin = batch.tokens.begin() + batch.offsets[static_cast<size_t>(a)];
      result.tokens.insert(result.tokens.end(), begin, begin + batch.tokens_of(a));
      result.kept.insert(result.kept.end(), static_cast<size_t>(batch.tokens_of(a)), 1);
      result.tokens.resize(result.tokens.size() + static_cast<size_t>(longest - batch.tokens_of(a)));
      result.kept.resize(result.tokens.size());
      result.offsets.push_back(static_cast<int64_t>(result.tokens.size()));
    }
  }
  result.log_probs.assign(result.tokens.size(), -1.0f);
  return result;
}

// With the most answers in each micro-batch for which none has more than kMostTokens tokens, padding included.
Cut cut_by_number(const AnswerBatch& batch, const char* name, const char* text, bool with_padding) {
  Cut best{.name = name, .text = text, .batch = {}, .parts = {}};
  for (int64_t each = 1; each <= batch.answers(); ++each) {
    std::vector<MicroBatch> parts = parts_of(batch.answers(), each);
    AnswerBatch cut = with_padding ? padded(batch, parts) : batch;
    if (std::ranges::any_of(parts, [&](const MicroBatch& part) { return tokens_of(cut, part) > kMostTokens; }))
      continue;
    best.batch = std::move(cut);
    best.parts = std::move(parts);
    best.each = each;
  }
  return best;
}

std::vector<Cut> all_cuts() {
  const AnswerBatch batch = random_answers(small_lm_shape().vocabulary, kPromptTokens, geometric_lengths());
  std::vector<Cut> cuts;
  cuts.push_back({.name = "balanced", .text = "cut by the trainer", .batch = batch, .parts = {}});
  cuts.push_back(cut_by_number(batch, "by_number", "an equal number of answers", false));
  cuts.push_back(cut_by_number(batch, "padded", "the same with padding", true));
  return cuts;
}

// One optimizer step on a cut, with its figures.
class CutStep {
 public:
  CutStep(AnswerTrainer& trainer, const Cut& cut) : trainer_(trainer), cut_(cut) {
    targets_.advantages.assign(cut.batch.tokens.size(), 1.0f);
    targets_.kept = cut.batch.kept;
    groups_.resize(static_cast<size_t>(cut.batch.groups()));
    std::iota(groups_.begin(), groups_.end(), 0);
  }

  void run() {
    micro_batches_ = trainer_.begin_step(cut_.batch, targets_, groups_, settings_).size();
    if (!cut_.parts.empty()) {
      trainer_.use_parts(cut_.parts);
      micro_batches_ = cut_.parts.size();
    }
    for (size_t part = 0; part < micro_batches_; ++part) {
      trainer_.backward(part);
      trainer_.end_micro_batch();
    }
    if (trainer_.apply().applied()) trainer_.use_parameters();
  }

  size_t micro_batches() const { return micro_batches_; }

 private:
  AnswerTrainer& trainer_;
  const Cut& cut_;
  AnswerTargets targets_;
  std::vector<int64_t> groups_;
  UpdateSettings settings_{.rates = {.policy = 1e-6, .value = 0}, .loss = {}};
  size_t micro_batches_ = 0;
};

// Tokens that all passes of a step compute.
int64_t computed_tokens(const Cut& cut) {
  const std::vector<MicroBatch> parts =
      cut.parts.empty() ? cut_answers(cut.batch, kMostTokens, answer_cost(small_lm_shape())) : cut.parts;
  int64_t tokens = 0;
  for (const MicroBatch& part : parts) tokens += tokens_of(cut.batch, part);
  return tokens;
}

// With this number of threads: one object, whose lines are added too.
OrderedJson measured_cuts(const std::vector<Cut>& cuts, int threads, double seconds, std::vector<std::string>& lines) {
  AlgorithmConfig algorithm;
  algorithm.advantage = "grpo";
  AnswerTrainer trainer(
      small_lm_shape(), TrainerConfig(), choose_algorithm(algorithm),
      {.seed = 1, .answer_tokens = kLongestAnswer, .micro_batch_tokens = kMostTokens, .threads = threads});
  std::vector<CutStep> steps;
  for (const Cut& cut : cuts) steps.emplace_back(trainer, cut);
  std::vector<std::function<void()>> runs;
  for (CutStep& step : steps) runs.emplace_back([&step] { step.run(); });
  const std::vector<std::vector<double>> times = seconds_in_turns(seconds, runs);
  const auto tokens = static_cast<double>(cuts.front().batch.tokens.size());
  OrderedJson own{{"threads", threads}};
  lines.push_back(std::to_string(threads) + (threads == 1 ? " thread:" : " threads:"));
  for (size_t i = 0; i < cuts.size(); ++i) {
    const double speed = tokens / median(times[i]), ratio = median_ratio(times[i], times.front());
    own[cuts[i].name] = {{"tokens_per_second", speed},
                         {"micro_batches", steps[i].micro_batches()},
                         {"answers_each", cuts[i].each},
                         {"computed_tokens", computed_tokens(cuts[i])},
                         {"time_relative_to_balanced", ratio}};
    lines.push_back("  " + std::string(cuts[i].text) + ": " + format_number(speed, 0) + " tokens/s in " +
                    std::to_string(steps[i].micro_batches()) + " micro-batches, " + format_number(ratio, 2) +
                    " of the time");
  }
  return own;
}

}  // namespace

BenchReport bench_micro_batches(double seconds) {
  const std::vector<Cut> cuts = all_cuts();
  const AnswerBatch& batch = cuts.front().batch;
  OrderedJson report{{"answers", batch.answers()},
                     {"answer_tokens", batch.tokens.size()},
                     {"prompt_tokens", batch.prompts.size()},
                     {"most_tokens", kMostTokens},
                     {"cases", OrderedJson::array()}};
  std::vector<std::string> lines = {std::to_string(batch.answers()) + " answers with " +
                                    std::to_string(batch.tokens.size()) + " tokens, drawn geometrically; at most " +
                                    std::to_string(kMostTokens) + " tokens in a micro-batch"};
  const std::vector<int> thread_counts = bench_thread_counts();
  for (const int threads : thread_counts)
    report["cases"].push_back(measured_cuts(cuts, threads, seconds / static_cast<double>(thread_counts.size()), lines));
  return {report.dump(), lines};
}

}  // namespace troupe
