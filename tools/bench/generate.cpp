// `troupe bench generate` and `troupe bench lm_train`: language models with random weights, as the actors of a token
// run use them: answers by the generation scheduler, and optimizer steps on groups of answers.

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "actors/experience/answers/generation_scheduler.h"
#include "models/learning/answers/answer_trainer.h"
#include "models/lm/lm_generator.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/rng.h"
#include "runtime/base/text_format.h"
#include "tools/bench/bench.h"
#include "tools/bench/lm.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct BenchModel {
  const char* name;
  LmShape shape;
  int64_t prompt, answer, groups;  // tokens; groups of one step of training
  int64_t generated;               // tokens of an answer of `troupe bench generate`
  std::vector<int64_t> batches;    // of `troupe bench generate`
};

std::vector<BenchModel> bench_models() {
  return {{"char_1m", small_lm_shape(), 9, 9, 16, 64, {1, 8, 32, 128}},
          {"smollm2_135m", smollm2_shape(), 100, 50, 1, 16, {1, 8, 32}}};
}

std::string named(const BenchModel& model, int threads) {
  return std::string(model.name) + ", " +
         format_number(1e-6 * static_cast<double>(lm_parameter_count(model.shape)), 2) + " million parameters, " +
         std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

// `batch` answers to one prompt at a time. Returns the tokens of answers per second over about `seconds`; the prompts'
// time counts.
double tokens_per_second(Generator& generator, const BenchModel& model, int64_t batch, double seconds) {
  GenerationScheduler scheduler(generator, {.prefill_tokens = 256, .end_tokens = {}});
  uint64_t next = 0;
  const double request = median_call_seconds(seconds, [&] {
    std::vector<uint64_t> keys;
    for (int64_t i = 0; i < batch; ++i) keys.push_back(derive_key(1, "bench", next++));
    scheduler.add({.ticket = next,
                   .prompt = std::vector<int32_t>(static_cast<size_t>(model.prompt), 5),
                   .max_tokens = model.generated,
                   .keys = std::move(keys)});
    while (scheduler.step(generator, 0).empty()) continue;
  });
  return static_cast<double>(batch * model.generated) / request;
}

// Prompts with 8 answers each.
AnswerBatch answers_of(const BenchModel& model) {
  const std::vector<int64_t> lengths(8, model.answer);
  return random_answers(model.shape.vocabulary, model.prompt, std::vector(static_cast<size_t>(model.groups), lengths));
}

}  // namespace

BenchReport bench_generate(double seconds) {
  const std::vector<BenchModel> models = bench_models();
  const std::vector<int> thread_counts = bench_thread_counts();
  const double each = seconds / static_cast<double>(models.size() * thread_counts.size() * 4);
  OrderedJson report;
  std::vector<std::string> lines;
  for (const BenchModel& model : models) {
    WeightBlock weights(lm_signature(model.shape));
    draw_lm_weights(model.shape, 1, weights);
    for (const int threads : thread_counts) {
      ParallelFor parallel(threads);
      const ProcessorLimits limits = measure_limits(parallel);
      const std::unique_ptr<Generator> generator = make_lm_generator(
          model.shape,
          {.prompt_slots = 128, .prompt_tokens = 128, .answer_slots = 128, .answer_tokens = 64, .threads = threads});
      generator->load(*weights.snapshot({}));
      lines.push_back(named(model, threads));
      OrderedJson own{{"threads", threads}, {"peak_gflops", limits.gflops}, {"gb_per_second", limits.gb_per_second}};
      const auto parameters = static_cast<double>(lm_parameter_count(model.shape));
      for (const int64_t batch : model.batches) {
        const double speed = tokens_per_second(*generator, model, batch, each);
        // One step reads every weight once and computes one multiply-add per weight and token.
        const double bandwidth = 4e-9 * parameters * speed / static_cast<double>(batch) / limits.gb_per_second;
        const double flops = 2e-9 * parameters * speed / limits.gflops;
        own["batch" + std::to_string(batch)] = {
            {"tokens_per_second", speed}, {"share_of_bandwidth", bandwidth}, {"share_of_peak", flops}};
        lines.push_back("  batch " + std::to_string(batch) + ": " + format_number(speed, 0) + " tokens/s, " +
                        format_number(bandwidth, 2) + " of the memory's bandwidth, " + format_number(flops, 2) +
                        " of the multiply-adds");
      }
      report[model.name].push_back(own);
    }
  }
  return {report.dump(), lines};
}

BenchReport bench_lm_train(double seconds) {
  const std::vector<int> thread_counts = bench_thread_counts();
  const double each = seconds / static_cast<double>(2 * thread_counts.size());
  OrderedJson report;
  std::vector<std::string> lines;
  AlgorithmConfig algorithm;
  algorithm.advantage = "grpo";
  const AlgorithmChoice choice = choose_algorithm(algorithm);
  for (const BenchModel& model : bench_models()) {
    const AnswerBatch batch = answers_of(model);
    std::vector<int64_t> groups(static_cast<size_t>(batch.groups()));
    std::iota(groups.begin(), groups.end(), 0);
    AnswerTargets targets;
    targets.advantages.assign(batch.tokens.size(), 1.0f);
    const auto tokens = static_cast<double>(batch.prompts.size() + batch.tokens.size());
    for (const int threads : thread_counts) {
      ParallelFor parallel(threads);
      const ProcessorLimits limits = measure_limits(parallel);
      AnswerTrainer trainer(model.shape, TrainerConfig(), choice,
                            {.seed = 1, .answer_tokens = model.answer, .threads = threads});
      const double step = median_call_seconds(
          each, [&] { trainer.step(batch, targets, groups, {.rates = {.policy = 1e-6, .value = 0}, .loss = {}}); });
      const double share = 6e-9 * tokens * static_cast<double>(lm_parameter_count(model.shape)) / step / limits.gflops;
      report[model.name].push_back({{"threads", threads},
                                    {"tokens_per_second", tokens / step},
                                    {"seconds_per_step", step},
                                    {"peak_gflops", limits.gflops},
                                    {"share_of_peak", share}});
      lines.push_back(named(model, threads) + ": " + format_number(tokens / step, 0) + " tokens/s, " +
                      format_number(step, 3) + " s per step, " + format_number(share, 2) + " of the multiply-adds");
    }
  }
  return {report.dump(), lines};
}

}  // namespace troupe
