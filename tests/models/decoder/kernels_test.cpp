// Every table of kernels against plain loops, bit for bit. wide_kernels.cpp builds the kernels for 16 lanes without
// AVX-512, so that its tiles are tested on every processor with AVX2.

#include <cmath>
#include <string>
#include <vector>

#include "algorithms/common/cpu.h"
#include "models/decoder/buffer.h"
#include "models/decoder/kernels/kernel_table.h"
#include "tests/support/test.h"

#include "tests/models/decoder/tiny_models.h"
#include "tests/models/decoder/wide_kernels.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Table {
  std::string name;
  const LmKernels* kernels;
};

std::vector<Table> tables() {
  std::vector<Table> result = {{"sse2", lm_kernels_sse2()}};
  for (const Isa isa : available_isas()) {
    if (isa == Isa::avx2) result.push_back({"avx2", lm_kernels_avx2()});
    if (isa == Isa::avx2 && lm_kernels_wide() != nullptr) result.push_back({"wide", lm_kernels_wide()});
    if (isa == Isa::avx512) result.push_back({"avx512", lm_kernels_avx512()});
  }
  return result;
}

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes kSizes[] = {{1, 1, 1},       {1, 16, 7},   {1, 200, 300},  {2, 33, 600},  {3, 70, 40},
                            {5, 48, 257},    {6, 16, 256}, {7, 31, 513},   {13, 64, 100}, {14, 96, 64},
                            {15, 40, 300},   {29, 17, 5},  {100, 50, 260}, {197, 20, 3},  {4, 530, 20},
                            {110, 600, 270}, {1, 240, 9},  {2, 112, 40},   {8, 80, 1030}, {3, 48, 9000}};

// A product whose matrices have rows that are longer than needed.
struct Problem {
  Sizes size;
  bool panels, transposed, continued;
  std::vector<float> a, b, packed, c;

  Problem(const Sizes& of, bool in_panels, bool a_transposed, bool from_c, uint64_t seed)
      : size(of), panels(in_panels), transposed(a_transposed), continued(from_c) {
    a = random_floats((of.m + 3) * (of.k + 3), seed);
    b = random_floats(of.k * (of.n + 5), seed + 1);
    c = random_floats(of.m * (of.n + 2), seed + 2);
    packed.assign(static_cast<size_t>(padded(of.n) * of.k), 0.0f);
    for (int64_t k = 0; k < of.k; ++k)
      for (int64_t j = 0; j < of.n; ++j)
        packed[static_cast<size_t>((j / kPanel * of.k + k) * kPanel + j % kPanel)] =
            b[static_cast<size_t>(k * (of.n + 5) + j)];
  }
  int64_t row_stride() const { return transposed ? 1 : size.k + 3; }
  int64_t k_stride() const { return transposed ? size.m + 3 : 1; }

  std::vector<float> computed(const LmKernels& kernels) const {
    std::vector<float> result = c;
    FloatBuffer scratch(kProductScratch);
    LmProduct p{.a = a.data(), .a_row_stride = row_stride(), .a_k_stride = k_stride()};
    if (panels) {
      p.panels = packed.data();
      p.panel_stride = size.k * kPanel;
    } else {
      p.rows = b.data();
      p.row_stride = size.n + 5;
    }
    p.m = size.m, p.n = size.n, p.k = size.k;
    p.c = result.data(), p.c_stride = size.n + 2;
    p.continued = continued;
    kernels.product(p, scratch.data());
    return result;
  }
  std::vector<float> expected() const {
    std::vector<float> result = c;
    for (int64_t i = 0; i < size.m; ++i)
      for (int64_t j = 0; j < size.n; ++j) {
        float& out = result[static_cast<size_t>(i * (size.n + 2) + j)];
        float sum = continued ? out : 0.0f;
        for (int64_t k = 0; k < size.k; ++k)
          sum = std::fma(a[static_cast<size_t>(i * row_stride() + k * k_stride())],
                         b[static_cast<size_t>(k * (size.n + 5) + j)], sum);
        out = sum;
      }
    return result;
  }
};

// Every result of the kernels that work on rows.
std::vector<float> row_results(const LmKernels& k, int64_t count) {
  const std::vector<float> x = random_floats(count, 1), y = random_floats(count, 2), w = random_floats(count, 3);
  std::vector<float> out(x.size()), second(y), third(y), all;
  const auto keep = [&](const std::vector<float>& values) { all.insert(all.end(), values.begin(), values.end()); };
  k.add(x.data(), count, second.data()), keep(second);
  k.add_scaled(0.7f, x.data(), count, second.data()), keep(second);
  all.push_back(k.dot(x.data(), y.data(), count));
  const float inverse = k.rms_norm(x.data(), w.data(), 1e-6f, count, out.data());
  all.push_back(inverse), keep(out);
  k.rms_apply(x.data(), w.data(), inverse, count, out.data()), keep(out);
  for (const bool added : {false, true})
    k.rms_norm_backward(x.data(), w.data(), inverse, y.data(), count, added, out.data()), keep(out);
  k.rms_weight_backward(x.data(), inverse, y.data(), count, second.data()), keep(second);
  for (const bool backward : {false, true})
    k.rotate(x.data(), y.data(), count / 2, backward, second.data()), keep(second);
  k.swiglu(x.data(), y.data(), count, out.data()), keep(out);
  k.swiglu_backward(x.data(), y.data(), w.data(), count, second.data(), third.data()), keep(second), keep(third);
  second = x;
  float max = 0, sum = 0;
  k.exp_scores(second.data(), count, &max, &sum), keep(second), keep({max, sum});
  k.probabilities(x.data(), max, 1 / sum, count, out.data()), keep(out);
  k.scale(x.data(), 0.3f, count, second.data()), keep(second);
  k.softmax_backward(out.data(), y.data(), 0.1f, 0.3f, count, second.data()), keep(second);
  return all;
}

}  // namespace

TEST_CASE("lm_kernels: every product is one chain of fused multiply-adds over k, bit for bit") {
  for (const Sizes& size : kSizes)
    for (int form = 0; form < 8; ++form) {
      const Problem problem(size, form & 1, form & 2, form & 4, static_cast<uint64_t>(form));
      const std::vector<float> expected = problem.expected();
      for (const Table& table : tables()) {
        CAPTURE(table.name);
        CAPTURE(size.m);
        CAPTURE(size.n);
        CAPTURE(size.k);
        CAPTURE(form);
        CHECK(same_bits(problem.computed(*table.kernels), expected));
      }
    }
}

TEST_CASE("lm_kernels: a product without inner elements is zero, or what was there") {
  for (const Table& table : tables()) {
    CHECK(same_bits(Problem({3, 20, 0}, false, false, false, 1).computed(*table.kernels),
                    Problem({3, 20, 0}, false, false, false, 1).expected()));
    CHECK(same_bits(Problem({3, 20, 0}, true, false, true, 1).computed(*table.kernels),
                    Problem({3, 20, 0}, true, false, true, 1).expected()));
  }
}

TEST_CASE("lm_kernels: the kernels of rows give the same bits on every instruction set") {
  for (const int64_t count : {2, 10, 16, 30, 64, 150})
    for (const Table& table : tables()) {
      CAPTURE(table.name);
      CAPTURE(count);
      CHECK(same_bits(row_results(*table.kernels, count), row_results(*lm_kernels_sse2(), count)));
    }
}

TEST_CASE("lm_kernels: sums and normalised rows agree with plain loops in float64") {
  const int64_t count = 77;
  const std::vector<float> x = random_floats(count, 1), w = random_floats(count, 2);
  double squares = 0;
  for (const float value : x) squares += double{value} * double{value};
  const double inverse = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-6);
  for (const Table& table : tables()) {
    std::vector<float> out(x.size());
    CHECK(table.kernels->dot(x.data(), x.data(), count) == doctest::Approx(squares).epsilon(1e-6));
    CHECK(table.kernels->rms_norm(x.data(), w.data(), 1e-6f, count, out.data()) ==
          doctest::Approx(inverse).epsilon(1e-6));
    for (size_t i = 0; i < x.size(); ++i)
      CHECK(out[i] == doctest::Approx(double{w[i]} * double{x[i]} * inverse).epsilon(1e-6));
  }
}

TEST_CASE("lm_kernels: the largest score has no influence on a softmax") {
  std::vector<float> scores = {3.0f, -200.0f, 1.0f}, higher = {1003.0f, 800.0f, 1001.0f};
  float max = 0, sum = 0, higher_sum = 0;
  for (const Table& table : tables()) {
    std::vector<float> a = scores, b = higher;
    table.kernels->exp_scores(a.data(), 3, &max, &sum);
    table.kernels->exp_scores(b.data(), 3, &max, &higher_sum);
    CHECK(a == b);
    CHECK(a[1] == 0.0f);
    CHECK(sum == doctest::Approx(1 + std::exp(-2.0)).epsilon(1e-6));
  }
}
