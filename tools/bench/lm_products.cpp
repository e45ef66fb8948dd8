// bench_lm_products: GFLOP/s of the matrix products of models/lm, next to LibTorch's on as many threads.
//
//   bench_lm_products [threads [rows]...]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <torch/torch.h>

#include "algorithms/common/cpu.h"
#include "models/lm/matrix_product.h"

namespace troupe {
namespace {

double seconds_of(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> x) {
  std::ranges::nth_element(x, x.begin() + static_cast<std::ptrdiff_t>(x.size() / 2));
  return x[x.size() / 2];
}

// The median time of calls for 0.1 s. The first half of them is not measured: until then the other library's threads
// may wait actively for their next product.
double median_seconds(const std::function<void()>& run) {
  std::vector<double> times;
  for (double spent = 0; spent < 0.05;) spent += seconds_of(run);
  for (double spent = 0; spent < 0.05 || times.size() < 3; spent += times.back()) times.push_back(seconds_of(run));
  return median(times);
}

// Prints the GFLOP/s of both, from the medians of 5 turns.
void compare(const char* what, int64_t m, int64_t n, int64_t k, const std::function<void()>& ours,
             const std::function<void()>& theirs) {
  const double work = 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  std::vector<double> a, b;
  for (int turn = 0; turn < 5; ++turn) {
    a.push_back(median_seconds(ours));
    b.push_back(median_seconds(theirs));
  }
  std::printf("%-8s m %5ld n %5ld k %5ld: %6.1f GFLOP/s, LibTorch %6.1f, ratio %.2f\n", what, m, n, k, work / median(a),
              work / median(b), median(b) / median(a));
}

void compare_all(int64_t m, int64_t n, int64_t k, ParallelFor& parallel) {
  const torch::Tensor x = torch::randn({m, k}), w = torch::randn({n, k}), dy = torch::randn({m, n});
  torch::Tensor y = torch::empty({m, n}), dx = torch::empty({m, k}), dw = torch::zeros({n, k});
  torch::Tensor y2 = torch::empty({m, n}), dx2 = torch::empty({m, k}), dw2 = torch::zeros({n, k});
  const auto data = [](const torch::Tensor& t) { return t.data_ptr<float>(); };
  PackedWeights packed;
  const std::span<const float> weights(data(w), static_cast<size_t>(n * k));
  packed.pack({&weights, 1}, k, parallel);
  const torch::Tensor wt = w.t(), dyt = dy.t();
  compare(
      "forward", m, n, k, [&] { multiply_packed({data(x), m, k, k}, packed, data(y), n, parallel); },
      [&] { torch::mm_out(y2, x, wt); });
  compare(
      "dx", m, k, n, [&] { multiply_rows({data(dy), m, n, n}, {data(w), n, k, k}, data(dx), k, false, parallel); },
      [&] { torch::mm_out(dx2, dy, w); });
  compare(
      "dw", n, k, m, [&] { add_outer_products({data(dy), m, n, n}, {data(x), m, k, k}, data(dw), parallel); },
      [&] { dw2.addmm_(dyt, x); });
}

}  // namespace
}  // namespace troupe

int main(int count, char** words) {
  using namespace troupe;
  const int threads = count > 1 ? std::atoi(words[1]) : 1;
  torch::NoGradGuard no_gradients;
  torch::set_num_threads(threads);
  ParallelFor parallel(threads);
  std::printf("%s, %d threads\n", std::string(name_of(current_isa())).c_str(), threads);
  std::vector<int64_t> rows;
  for (int i = 2; i < count; ++i) rows.push_back(std::atoi(words[i]));
  if (rows.empty()) rows = {1, 8, 32, 128, 512};
  for (const int64_t m : rows)
    for (const auto& [n, k] : {std::pair<int64_t, int64_t>{576, 576}, {1536, 576}, {576, 1536}, {2048, 1024}})
      compare_all(m, n, k, parallel);
  return 0;
}
