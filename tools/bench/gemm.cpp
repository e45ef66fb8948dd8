// `troupe bench gemm`: the matrix products of language models, compared with LibTorch's and with what the processor can
// do.

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <nlohmann/json.hpp>

#include "models/decoder/matrix_product.h"
#include "runtime/base/text_format.h"
#include "tools/bench/bench.h"
#include "tools/bench/lm.h"
#include "tools/bench/support.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct Shape2 {
  int64_t n, k;
};
constexpr int64_t kGemmRows[] = {1, 8, 32, 128, 512};
constexpr Shape2 kShapes[] = {{576, 576}, {1536, 576}, {576, 1536}, {2048, 1024}};
constexpr int kTurns = 3;

struct Compared {
  double ours, theirs;  // seconds
};

Compared compare_products(double seconds, const std::function<void()>& ours, const std::function<void()>& theirs) {
  std::vector<double> a, b;
  for (int turn = 0; turn < kTurns; ++turn) {
    a.push_back(median_call_seconds(seconds / kTurns, ours));
    b.push_back(median_call_seconds(seconds / kTurns, theirs));
  }
  return {median(a), median(b)};
}

class Products {
 public:
  Products(double seconds, int threads) : seconds_(seconds), parallel_(threads), limits_(measure_limits(parallel_)) {
    at::set_num_threads(threads);
    report_ = {{"threads", threads}, {"peak_gflops", limits_.gflops}, {"products", OrderedJson::array()}};
    lines_.push_back(std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", multiply-adds at most " +
                     format_number(limits_.gflops, 0) + " GFLOP/s");
  }

  void measure(int64_t m, int64_t n, int64_t k) {
    const at::Tensor x = at::randn({m, k}), w = at::randn({n, k}), dy = at::randn({m, n});
    at::Tensor y = at::empty({m, n}), dx = at::empty({m, k}), dw = at::zeros({n, k});
    at::Tensor y2 = at::empty({m, n}), dx2 = at::empty({m, k}), dw2 = at::zeros({n, k});
    const auto data = [](const at::Tensor& t) { return t.data_ptr<float>(); };
    PackedWeights packed;
    const std::span<const float> weights(data(w), static_cast<size_t>(n * k));
    packed.pack({&weights, 1}, k, parallel_);
    const at::Tensor wt = w.t(), dyt = dy.t();
    add("forward", m, n, k,
        compare_products(
            seconds_, [&] { multiply_packed({data(x), m, k, k}, packed, data(y), n, parallel_); },
            [&] { at::mm_out(y2, x, wt); }));
    add("input_gradient", m, k, n,
        compare_products(
            seconds_, [&] { multiply_rows({data(dy), m, n, n}, {data(w), n, k, k}, data(dx), k, false, parallel_); },
            [&] { at::mm_out(dx2, dy, w); }));
    add("weight_gradient", n, k, m,
        compare_products(
            seconds_, [&] { add_outer_products({data(dy), m, n, n}, {data(x), m, k, k}, data(dw), parallel_); },
            [&] { dw2.addmm_(dyt, x); }));
  }

  OrderedJson report_;
  std::vector<std::string> lines_;

 private:
  void add(const std::string& what, int64_t m, int64_t n, int64_t k, const Compared& times) {
    const double work = 2e-9 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    const double gflops = work / times.ours, share = gflops / limits_.gflops, ratio = times.theirs / times.ours;
    report_["products"].push_back({{"product", what},
                                   {"m", m},
                                   {"n", n},
                                   {"k", k},
                                   {"gflops", gflops},
                                   {"share_of_peak", share},
                                   {"ratio_to_libtorch", ratio}});
    lines_.push_back(what + " " + std::to_string(m) + " x " + std::to_string(n) + ", sums of " + std::to_string(k) +
                     ": " + format_number(gflops, 1) + " GFLOP/s, " + format_number(share, 2) + " of the peak, " +
                     format_number(ratio, 2) + " of LibTorch's speed");
  }

  double seconds_;
  ParallelFor parallel_;
  ProcessorLimits limits_;
};

}  // namespace

BenchReport bench_gemm(double seconds) {
  const c10::NoGradGuard no_gradients;
  const auto cases = static_cast<double>(std::size(kGemmRows) * std::size(kShapes) * 3 * 2);
  OrderedJson report = OrderedJson::array();
  std::vector<std::string> lines;
  for (const int threads : bench_thread_counts()) {
    Products products(seconds / cases / 2, threads);
    for (const int64_t m : kGemmRows)
      for (const Shape2 shape : kShapes) products.measure(m, shape.n, shape.k);
    report.push_back(products.report_);
    lines.insert(lines.end(), products.lines_.begin(), products.lines_.end());
  }
  return {OrderedJson{{"float32", report}}.dump(), lines};
}

}  // namespace troupe
