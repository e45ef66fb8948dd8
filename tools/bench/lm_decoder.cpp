// bench_lm_decoder: tokens per second of decoders with random weights: generation at several batch sizes, a prompt at
// once, and training (forward and backward). Beside each, the share of what the processor could do: its memory
// bandwidth for the weights of one step, or its multiply-adds, both measured in the same process.
//
//   bench_lm_decoder [threads] [small|large|both]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "algorithms/common/cpu.h"
#include "models/lm/token_log_probs.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

// 0.86 million and 135 million parameters; the larger one has the shape of SmolLM2-135M.
LmShape small_shape() {
  return {.vocabulary = 96,
          .hidden = 128,
          .layers = 4,
          .heads = 4,
          .kv_heads = 4,
          .head_dim = 32,
          .intermediate = 384,
          .max_positions = 512,
          .tied_embeddings = true};
}
LmShape large_shape() {
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

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The median over at least 3 calls and one second.
double median_seconds(const std::function<void()>& run) {
  run();
  std::vector<double> times;
  for (double spent = 0; spent < 1 || times.size() < 3; spent += times.back()) times.push_back(seconds_of(run));
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

// Bytes per second when a large array is read once.
double memory_bandwidth(ParallelFor& parallel) {
  const int64_t parts = 64, part = int64_t{1} << 20;
  const std::vector<float> data(static_cast<size_t>(parts * part), 1.0f);
  std::vector<float> sums(static_cast<size_t>(parts));
  const double seconds = median_seconds([&] {
    parallel.run(parts, [&](int64_t i) {
      const float* x = data.data() + i * part;
      sums[static_cast<size_t>(i)] = lm_kernels().dot(x, x, part);
    });
  });
  return static_cast<double>(parts * part) * sizeof(float) / seconds;
}

// Multiply-adds per second of a product that suits the processor.
double multiply_adds(ParallelFor& parallel) {
  const int64_t m = 1024, n = 1024, k = 1024;
  const std::vector<float> x(static_cast<size_t>(m * k), 0.5f), w(static_cast<size_t>(n * k), 0.5f);
  std::vector<float> y(static_cast<size_t>(m * n));
  PackedWeights packed;
  const std::span<const float> weights(w);
  packed.pack({&weights, 1}, k, parallel);
  const double seconds = median_seconds([&] { multiply_packed({x.data(), m, k, k}, packed, y.data(), n, parallel); });
  return static_cast<double>(m * n * k) / seconds;
}

struct Model {
  LmShape shape;
  std::map<std::string, std::vector<float>> weights, gradients;

  explicit Model(const LmShape& of) : shape(of) {
    for (const LmTensor& tensor : lm_tensors(shape)) {
      Rng random(derive_key(1, tensor.name));
      std::vector<float>& x = weights[tensor.name];
      x.resize(static_cast<size_t>(tensor.shape.elements()));
      for (float& value : x) value = 0.02f * random.normal();
      gradients[tensor.name].resize(x.size());
    }
  }
  template <class T>
  DecoderTensors<T> views(std::map<std::string, std::vector<float>>& from) const {
    return bind_decoder<T>(shape, [&](const std::string& name) { return std::span<T>(from.at(name)); });
  }
};

struct Limits {
  double bandwidth, multiply_adds;
};

// One token for each of `batch` sequences that have `before` tokens.
void measure_generation(Decoder& decoder, int64_t batch, int64_t before, const Limits& limits) {
  const LmShape& shape = decoder.shape();
  const int64_t slot = before + 16;
  KvStore store(shape, batch * slot);
  std::vector<int32_t> ids(static_cast<size_t>(batch), 5);
  std::vector<LmSequence> sequences;
  for (int64_t i = 0; i < batch; ++i) sequences.push_back({.tokens = 1, .own_begin = i * slot, .own_before = before});
  std::vector<float> hidden(static_cast<size_t>(batch * shape.hidden));
  std::vector<float> logits(static_cast<size_t>(batch * shape.vocabulary));
  const double seconds = median_seconds([&] {
    decoder.forward({ids, sequences}, store, hidden);
    decoder.logits(hidden, logits);
  });
  const auto parameters = static_cast<double>(lm_parameter_count(shape));
  std::printf("  generation, batch %3ld: %9.0f tokens/s, %.2f of the bandwidth, %.2f of the multiply-adds\n", batch,
              static_cast<double>(batch) / seconds, 4 * parameters / seconds / limits.bandwidth,
              static_cast<double>(batch) * parameters / seconds / limits.multiply_adds);
}

// Groups of 8 answers of 50 tokens to a prompt of 100.
void measure_training(Decoder& decoder, ParallelFor& parallel, Model& model, const Limits& limits) {
  const LmShape& shape = decoder.shape();
  const int64_t prompt = 100, answers = 8, length = 50, tokens = prompt + answers * length;
  std::vector<LmSequence> sequences = {{.tokens = prompt}};
  std::vector<int64_t> rows, labels;
  for (int64_t i = 0; i < answers; ++i) {
    const int64_t first = prompt + i * length;
    sequences.push_back({.tokens = length, .prefix_begin = 0, .prefix_end = prompt, .own_begin = first});
    for (int64_t t = 0; t < length; ++t) rows.push_back(t == 0 ? prompt - 1 : first + t - 1), labels.push_back(7);
  }
  const std::vector<int32_t> ids(static_cast<size_t>(tokens), 5);
  const std::vector<float> d_log_probs(rows.size(), 1.0f);
  std::vector<float> hidden(static_cast<size_t>(tokens * shape.hidden)), d_hidden(hidden.size());
  std::vector<float> log_probs(rows.size());
  const DecoderGradients gradients = model.views<float>(model.gradients);
  Activations activations;
  TokenLogProbs chosen(decoder, parallel);
  const LmBatch batch{ids, sequences};
  const double forward = median_seconds([&] {
    decoder.forward_training(batch, activations, hidden);
    chosen.forward(hidden, {rows, labels}, log_probs, {});
  });
  const double backward = median_seconds([&] {
    chosen.backward(hidden, {rows, labels}, d_log_probs, {}, d_hidden, gradients);
    decoder.backward(batch, activations, d_hidden, gradients);
  });
  const double load = median_seconds([&] { decoder.load(model.views<const float>(model.weights)); });
  const double work = static_cast<double>(tokens) * static_cast<double>(lm_parameter_count(shape));
  std::printf("  training: %9.0f tokens/s; forward %.2f, backward %.2f of the multiply-adds; %.1f MB of activations\n",
              static_cast<double>(tokens) / (forward + backward), work / forward / limits.multiply_adds,
              2 * work / backward / limits.multiply_adds, static_cast<double>(activations.bytes()) * 1e-6);
  std::printf("  load(): %.1f ms\n", 1e3 * load);
}

void measure(const char* name, const LmShape& shape, int64_t before, ParallelFor& parallel, const Limits& limits) {
  Model model(shape);
  Decoder decoder(shape, parallel);
  decoder.load(model.views<const float>(model.weights));
  std::printf("%s: %.2f million parameters\n", name, 1e-6 * static_cast<double>(lm_parameter_count(shape)));
  for (const int64_t batch : {1, 8, 32, 128}) measure_generation(decoder, batch, before, limits);
  measure_training(decoder, parallel, model, limits);
}

}  // namespace
}  // namespace troupe

int main(int count, char** words) {
  using namespace troupe;
  const int threads = count > 1 ? std::atoi(words[1]) : 1;
  const std::string which = count > 2 ? words[2] : "both";
  ParallelFor parallel(threads);
  const Limits limits{memory_bandwidth(parallel), multiply_adds(parallel)};
  std::printf("%s, %d threads, %.1f GB/s, %.1f GFLOP/s\n", std::string(name_of(current_isa())).c_str(), threads,
              1e-9 * limits.bandwidth, 2e-9 * limits.multiply_adds);
  if (which != "large") measure("small", small_shape(), 20, parallel, limits);
  if (which != "small") measure("large", large_shape(), 100, parallel, limits);
  return 0;
}
