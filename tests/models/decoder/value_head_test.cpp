#include "models/decoder/value_head.h"

#include <vector>

#include "tests/models/decoder/tiny_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kWidth = 37;
const std::vector<int64_t> kRows = {2, 0, 2, 4, 4, 4};  // of 5; rows may be chosen several times, or not at all

struct Head {
  std::vector<float> hidden = random_floats(5 * kWidth, 1), weight = random_floats(kWidth, 2), bias = {0.3f};

  ValueHeadTensors<const float> tensors() const { return {weight, bias}; }
  std::vector<float> values(int threads = 1) const {
    ParallelFor parallel(threads);
    std::vector<float> result(kRows.size());
    head_values(hidden, kRows, tensors(), result, parallel);
    return result;
  }
};

struct HeadGradients {
  std::vector<float> weight = std::vector<float>(kWidth), bias = {0.0f}, hidden = std::vector<float>(5 * kWidth);
};

// Of rows [from, to) of kRows.
void add_gradients(const Head& head, const std::vector<float>& d, size_t from, size_t to, int threads,
                   HeadGradients& out) {
  ParallelFor parallel(threads);
  head_values_backward(head.hidden, std::span(kRows).subspan(from, to - from), head.tensors(),
                       std::span(d).subspan(from, to - from), {out.weight, out.bias}, out.hidden, parallel);
}

}  // namespace

TEST_CASE("value_head: values are products of rows and weights, and gradients their derivatives") {
  const Head head;
  const std::vector<float> d = random_floats(static_cast<int64_t>(kRows.size()), 3);
  HeadGradients gradients;
  add_gradients(head, d, 0, d.size(), 2, gradients);
  const std::vector<float> values = head.values();
  for (size_t i = 0; i < kRows.size(); ++i) {
    double expected = head.bias.front();
    for (int64_t k = 0; k < kWidth; ++k)
      expected += double{head.hidden[static_cast<size_t>(kRows[i] * kWidth + k)]} * head.weight[static_cast<size_t>(k)];
    CHECK(values[i] == doctest::Approx(expected).epsilon(1e-5));
  }
  const auto check = [&](std::vector<float> Head::* member, const std::vector<float>& found) {
    for (size_t i = 0; i < found.size(); ++i) {
      const auto at = [&](float step) {
        Head moved = head;
        (moved.*member)[i] += step;
        const std::vector<float> said = moved.values();
        double sum = 0;
        for (size_t t = 0; t < d.size(); ++t) sum += double{d[t]} * said[t];
        return sum;
      };
      CHECK(found[i] == doctest::Approx((at(0.25f) - at(-0.25f)) / 0.5).epsilon(1e-4).scale(1));
    }
  };
  check(&Head::weight, gradients.weight);
  check(&Head::bias, gradients.bias);
  check(&Head::hidden, gradients.hidden);
}

TEST_CASE("value_head: the bits depend neither on threads nor on how rows are divided among calls") {
  const Head head;
  const std::vector<float> d = random_floats(static_cast<int64_t>(kRows.size()), 3);
  CHECK(head.values(1) == head.values(3));
  HeadGradients whole, parts;
  add_gradients(head, d, 0, d.size(), 1, whole);
  add_gradients(head, d, 0, 2, 3, parts);
  add_gradients(head, d, 2, d.size(), 3, parts);
  CHECK(whole.weight == parts.weight);
  CHECK(whole.bias == parts.bias);
  CHECK(whole.hidden == parts.hidden);
}
