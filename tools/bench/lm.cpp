#include "tools/bench/lm.h"

#include <algorithm>
#include <vector>

#include "algorithms/common/cpu.h"
#include "models/decoder/kernels/kernel_table.h"
#include "runtime/base/machine.h"
#include "runtime/base/rng.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

constexpr int64_t kChains = 12;  // independent sums: enough to hide the latency of a multiply-add
constexpr int64_t kRounds = int64_t{1} << 20;

using Vector16 [[gnu::vector_size(16)]] = float;
using Vector32 [[gnu::vector_size(32)]] = float;
using Vector64 [[gnu::vector_size(64)]] = float;

// kRounds multiply-adds of each of kChains vectors. Returns something of the sums, so that they are computed.
template <class Vector>
[[gnu::always_inline]] inline float multiply_add_loop(float factor) {
  Vector sums[kChains];
  for (int64_t c = 0; c < kChains; ++c) sums[c] = Vector{} + static_cast<float>(c);
  const Vector x = Vector{} + factor;
  for (int64_t i = 0; i < kRounds; ++i)
#pragma GCC unroll 12
    for (int64_t c = 0; c < kChains; ++c) sums[c] = sums[c] * x + x;
  Vector total{};
  for (const Vector& sum : sums) total += sum;
  return total[0];
}

#if defined(__x86_64__)
[[gnu::target("avx512f"), gnu::optimize("fp-contract=fast")]] float loop_avx512(float x) {
  return multiply_add_loop<Vector64>(x);
}
[[gnu::target("avx2,fma"), gnu::optimize("fp-contract=fast")]] float loop_avx2(float x) {
  return multiply_add_loop<Vector32>(x);
}
#endif
float loop_baseline(float x) { return multiply_add_loop<Vector16>(x); }

double multiply_adds_per_loop() {
  const int64_t lanes = current_isa() == Isa::avx512 ? 16 : current_isa() == Isa::avx2 ? 8 : 4;
  return static_cast<double>(kRounds * kChains * lanes);
}

float run_loop(float x) {
#if defined(__x86_64__)
  if (current_isa() == Isa::avx512) return loop_avx512(x);
  if (current_isa() == Isa::avx2) return loop_avx2(x);
#endif
  return loop_baseline(x);
}

}  // namespace

LmShape small_lm_shape() {
  return {.vocabulary = 13,
          .hidden = 128,
          .layers = 4,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 32,
          .intermediate = 384,
          .max_positions = 512,
          .tied_embeddings = true};
}

LmShape smollm2_shape() {
  return {.vocabulary = 49152,
          .hidden = 576,
          .layers = 30,
          .heads = 9,
          .kv_heads = 3,
          .head_dim = 64,
          .intermediate = 1536,
          .max_positions = 8192,
          .rope_theta = 100000,
          .tied_embeddings = true};
}

std::vector<int> bench_thread_counts() {
  const int all = static_cast<int>(processors());
  return all > 1 ? std::vector<int>{1, all} : std::vector<int>{1};
}

double median_call_seconds(double seconds, const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (double spent = 0; spent < seconds || times.size() < 3; spent += times.back()) {
    const auto start = BenchClock::now();
    run();
    times.push_back(seconds_since(start));
  }
  return median(times);
}

std::vector<std::vector<double>> seconds_in_turns(double seconds, std::span<const std::function<void()>> runs) {
  for (const auto& run : runs) run();
  std::vector<std::vector<double>> times(runs.size());
  const auto begun = BenchClock::now();
  for (size_t turn = 0; turn < 3 || seconds_since(begun) < seconds; ++turn) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const size_t at = turn % 2 == 0 ? i : runs.size() - 1 - i;
      times[at].push_back(seconds_of(runs[at]));
    }
  }
  return times;
}

double median_ratio(std::span<const double> a, std::span<const double> b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / b[i]);
  return median(ratios);
}

AnswerBatch random_answers(int64_t vocabulary, int64_t prompt_tokens,
                           const std::vector<std::vector<int64_t>>& lengths) {
  AnswerBatch batch;
  Rng random(derive_key(1, "bench answers"));
  const auto draw = [&](std::vector<int32_t>& ids, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary))));
  };
  batch.prompt_offsets = batch.group_offsets = batch.offsets = {0};
  for (const std::vector<int64_t>& group : lengths) {
    draw(batch.prompts, prompt_tokens);
    batch.prompt_offsets.push_back(static_cast<int64_t>(batch.prompts.size()));
    for (const int64_t length : group) {
      draw(batch.tokens, length);
      batch.offsets.push_back(static_cast<int64_t>(batch.tokens.size()));
      batch.rewards.push_back(batch.rewards.size() % 2 == 0 ? 1.0f : 0.0f);
    }
    batch.group_offsets.push_back(batch.answers());
  }
  batch.log_probs.assign(batch.tokens.size(), -1.0f);
  return batch;
}

ProcessorLimits measure_limits(ParallelFor& parallel) {
  const int64_t threads = parallel.threads();
  std::vector<float> sums(static_cast<size_t>(std::max<int64_t>(threads, 64)));
  const double loop = median_call_seconds(
      0.2, [&] { parallel.run(threads, [&](int64_t i) { sums[static_cast<size_t>(i)] = run_loop(0.5f); }); });
  const int64_t parts = 64, part = int64_t{1} << 20;
  const std::vector<float> data(static_cast<size_t>(parts * part), 1.0f);
  const double read = median_call_seconds(0.2, [&] {
    parallel.run(parts, [&](int64_t i) {
      const float* x = data.data() + i * part;
      sums[static_cast<size_t>(i)] = lm_kernels().dot(x, x, part);
    });
  });
  return {.gflops = 2e-9 * static_cast<double>(threads) * multiply_adds_per_loop() / loop,
          .gb_per_second = 1e-9 * static_cast<double>(parts * part) * sizeof(float) / read};
}

}  // namespace troupe
