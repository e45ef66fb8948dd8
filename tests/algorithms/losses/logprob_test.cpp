#include "algorithms/losses/logprob.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

BFloat16 rounded(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
double value_of(float x) { return x; }
double value_of(BFloat16 x) { return std::bit_cast<float>(uint32_t{x.bits} << 16); }
void assign(float& to, float x) { to = x; }
void assign(BFloat16& to, float x) { to = rounded(x); }

template <class Element>
struct Batch {
  int64_t rows, vocabulary;
  std::vector<Element> logits;
  std::vector<int64_t> labels;
  double temperature;

  Batch(int64_t rows, int64_t vocabulary, float scale, float offset, double temperature)
      : rows(rows), vocabulary(vocabulary), temperature(temperature) {
    Rng random(derive_key(3, "logits", static_cast<uint64_t>(vocabulary)));
    logits.resize(static_cast<std::size_t>(rows * vocabulary));
    for (Element& z : logits) assign(z, offset + scale * random.normal());
    for (int64_t i = 0; i < rows; ++i)
      labels.push_back(static_cast<int64_t>(random.below(static_cast<uint64_t>(vocabulary))));
  }
  LogitRows<Element> view() const { return {logits.data(), rows, vocabulary, vocabulary}; }
  double z(int64_t i, int64_t j) const {
    return value_of(logits[static_cast<std::size_t>(i * vocabulary + j)]) / temperature;
  }
};

// Probabilities, log-probability of the label and entropy of one row, in double.
struct Softmax {
  std::vector<double> p;
  double log_prob, entropy = 0, log_sum = 0;
  template <class Element>
  Softmax(const Batch<Element>& batch, int64_t i) {
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < batch.vocabulary; ++j) largest = std::max(largest, batch.z(i, j));
    for (int64_t j = 0; j < batch.vocabulary; ++j) sum += std::exp(batch.z(i, j) - largest);
    log_sum = largest + std::log(sum);
    for (int64_t j = 0; j < batch.vocabulary; ++j) {
      p.push_back(std::exp(batch.z(i, j) - log_sum));
      if (p.back() > 0) entropy -= p.back() * (batch.z(i, j) - log_sum);
    }
    log_prob = batch.z(i, batch.labels[static_cast<std::size_t>(i)]) - log_sum;
  }
};

template <class Element>
void check(const Batch<Element>& batch) {
  const auto rows = static_cast<std::size_t>(batch.rows);
  std::vector<float> log_probs(rows), entropy(rows), d_log_probs, d_entropy;
  std::vector<SoftmaxRow> state(rows);
  std::vector<Element> grad(batch.logits.size());
  log_probs_entropy(batch.view(), batch.labels, batch.temperature, log_probs, entropy, state);
  for (std::size_t i = 0; i < rows; ++i)
    d_log_probs.push_back(1.5f - static_cast<float>(i)), d_entropy.push_back(.5f * static_cast<float>(i));
  log_probs_entropy_backward(batch.view(), batch.labels, batch.temperature, state, d_log_probs, d_entropy, grad.data());
  const double rounding = sizeof(Element) == 2 ? 1.0 / 256 : 3e-6;
  for (int64_t i = 0; i < batch.rows; ++i) {
    const Softmax want(batch, i);
    REQUIRE(std::abs(log_probs[i] - want.log_prob) <= 2e-6 * (1 + std::abs(want.log_prob)));
    REQUIRE(std::abs(entropy[i] - want.entropy) <= 2e-6 * (1 + want.entropy));
    double mean = 0;
    for (int64_t j = 0; j < batch.vocabulary; ++j)
      if (want.p[j] > 0) mean += want.p[j] * (batch.z(i, j) - want.log_sum);
    for (int64_t j = 0; j < batch.vocabulary; ++j) {
      const double log_p = batch.z(i, j) - want.log_sum;
      double slope = d_log_probs[i] * ((j == batch.labels[i]) - want.p[j]);
      if (want.p[j] > 0) slope += d_entropy[i] * want.p[j] * (mean - log_p);
      slope /= batch.temperature;
      // The rounding error is relative to the terms, which may cancel.
      const double terms =
          want.p[j] > 0 ? want.p[j] * (std::abs(d_log_probs[i]) + d_entropy[i] * (1 - log_p - mean)) : 0.0;
      const double got = value_of(grad[static_cast<std::size_t>(i * batch.vocabulary + j)]);
      REQUIRE(std::abs(got - slope) <= rounding * (std::abs(slope) + terms / batch.temperature) + 1e-30);
    }
  }
}

}  // namespace

TEST_CASE("logprob: values and gradients agree with float64, for float32 and bfloat16, on every instruction set") {
  on_every_isa([] {
    for (const int64_t vocabulary : {1, 2, 127, 128, 129, 5000})
      for (const auto& [scale, offset] : {std::pair{1.0f, 0.0f}, {8.0f, 300.0f}, {0.0f, -5.0f}})
        for (const double temperature : {1.0, .7}) {
          check(Batch<float>(3, vocabulary, scale, offset, temperature));
          check(Batch<BFloat16>(3, vocabulary, scale, offset, temperature));
        }
  });
}

TEST_CASE("logprob: a vocabulary of 152064 tokens") {
  check(Batch<float>(2, 152064, 4.0f, 0.0f, 1.0));
  check(Batch<BFloat16>(2, 152064, 4.0f, 0.0f, 1.0));
}

TEST_CASE("logprob: with increasing logits the maximum changes in every chunk") {
  Batch<float> batch(1, 20000, 1.0f, 0.0f, 1.0);
  for (int64_t j = 0; j < 20000; ++j) batch.logits[static_cast<std::size_t>(j)] = static_cast<float>(j) * .01f;
  batch.labels[0] = 19990;
  check(batch);
}

TEST_CASE("logprob: -infinity is a token of probability 0") {
  Batch<float> batch(2, 9000, 2.0f, 0.0f, 1.0);
  for (int64_t j = 0; j < 18000; ++j)
    if (j % 3 != 0 || j % 9000 < 4500) batch.logits[static_cast<std::size_t>(j)] = -kInf;  // the first chunk is empty
  batch.labels = {6000, 7500};
  check(batch);
  batch.labels[0] = 1;
  std::vector<float> log_probs(2), entropy(2);
  log_probs_entropy<float>(batch.view(), batch.labels, 1.0, log_probs, entropy, {});
  CHECK(log_probs[0] == -kInf);
  CHECK(std::isfinite(entropy[0]));
}

TEST_CASE("logprob: NaN appears in results, but a row whose outer gradients are 0 gets zeros") {
  Batch<float> batch(2, 300, 1.0f, 0.0f, 1.0);
  batch.logits[5] = kNaN;
  std::vector<float> log_probs(2), entropy(2), d_log_probs = {0, 1}, d_entropy = {0, 1}, grad(600, kNaN);
  std::vector<SoftmaxRow> state(2);
  log_probs_entropy<float>(batch.view(), batch.labels, 1.0, log_probs, entropy, state);
  CHECK(std::isnan(log_probs[0]));
  CHECK(std::isnan(entropy[0]));
  CHECK(std::isfinite(log_probs[1]));
  log_probs_entropy_backward<float>(batch.view(), batch.labels, 1.0, state, d_log_probs, d_entropy, grad.data());
  CHECK(std::ranges::all_of(grad.begin(), grad.begin() + 300, [](float x) { return x == 0; }));
  CHECK(std::ranges::all_of(grad, [](float x) { return std::isfinite(x); }));
}

TEST_CASE("logprob: rows may be strided, and outputs are optional") {
  Batch<float> batch(4, 500, 1.0f, 0.0f, 1.0);
  const LogitRows<float> every_other{batch.logits.data(), 2, 500, 1000};
  const std::vector<int64_t> labels = {batch.labels[0], batch.labels[2]};
  std::vector<float> apart(2), all(4), entropy(4);
  log_probs_entropy<float>(every_other, labels, 1.0, apart, {}, {});
  log_probs_entropy<float>(batch.view(), batch.labels, 1.0, all, {}, {});
  CHECK(apart[0] == all[0]);
  CHECK(apart[1] == all[2]);
  log_probs_entropy<float>(batch.view(), {}, 1.0, {}, entropy, {});
  CHECK(entropy[3] == doctest::Approx(Softmax(batch, 3).entropy));
}

TEST_CASE("logprob: an ignored row is not read, and its results and gradients are 0") {
  Batch<float> batch(3, 300, 1.0f, 0.0f, 1.0);
  const Batch<float> whole = batch;
  std::fill(batch.logits.begin() + 300, batch.logits.begin() + 600, kNaN);
  batch.labels[1] = kIgnoredLabel;
  std::vector<float> log_probs(3), entropy(3), want_log_probs(3), want_entropy(3), d = {1, 1, 1};
  std::vector<float> grad(900, kNaN), want_grad(900);
  std::vector<SoftmaxRow> state(3), want_state(3);
  log_probs_entropy<float>(batch.view(), batch.labels, 1.0, log_probs, entropy, state);
  log_probs_entropy_backward<float>(batch.view(), batch.labels, 1.0, state, d, d, grad.data());
  log_probs_entropy<float>(whole.view(), whole.labels, 1.0, want_log_probs, want_entropy, want_state);
  log_probs_entropy_backward<float>(whole.view(), whole.labels, 1.0, want_state, d, d, want_grad.data());
  want_log_probs[1] = want_entropy[1] = 0;
  std::fill(want_grad.begin() + 300, want_grad.begin() + 600, 0.0f);
  CHECK(log_probs == want_log_probs);
  CHECK(entropy == want_entropy);
  CHECK(grad == want_grad);
}

TEST_CASE("logprob: invalid labels, sizes and temperatures are rejected") {
  Batch<float> batch(2, 10, 1.0f, 0.0f, 1.0);
  std::vector<float> two(2), three(3);
  const auto refused = [&](const std::vector<int64_t>& labels, double temperature, std::span<float> out) {
    CHECK_THROWS_AS(log_probs_entropy<float>(batch.view(), labels, temperature, out, {}, {}), InvariantError);
  };
  refused({0, 10}, 1, two);
  refused({-1, 0}, 1, two);
  refused({0}, 1, two);
  refused({}, 1, two);
  refused({0, 1}, 0, two);
  refused({0, 1}, std::nan(""), two);
  refused({0, 1}, 1, three);
}

TEST_CASE("kl_from_logits: value and gradient agree with float64 and finite differences") {
  for (const double temperature : {1.0, 2.0}) {
    Batch<float> p(3, 400, 2.0f, 0.0f, temperature), q(3, 400, 2.0f, 5.0f, temperature);
    std::rotate(q.logits.begin(), q.logits.begin() + 17, q.logits.end());
    p.logits[3] = -kInf;
    std::vector<float> kl(3), d_kl = {1, -2, 0}, grad(1200, kNaN);
    kl_from_logits(p.view(), q.view(), temperature, kl);
    kl_from_logits_backward<float>(p.view(), q.view(), temperature, d_kl, grad.data());
    for (int64_t i = 0; i < 3; ++i) {
      const Softmax a(p, i), b(q, i);
      double want = 0;
      for (int64_t j = 0; j < 400; ++j)
        if (a.p[j] > 0) want += a.p[j] * (std::log(a.p[j]) - std::log(b.p[j]));
      CHECK(kl[i] == doctest::Approx(want).epsilon(1e-5));
      for (int64_t j = 0; j < 400; ++j) {
        const double slope =
            a.p[j] > 0 ? d_kl[i] * a.p[j] * (std::log(a.p[j]) - std::log(b.p[j]) - want) / temperature : 0.0;
        REQUIRE(std::abs(grad[static_cast<std::size_t>(i * 400 + j)] - slope) <= 1e-6 * (1 + std::abs(slope)));
      }
    }
  }
}

TEST_CASE("kl_from_logits: the same logits give 0") {
  const Batch<BFloat16> p(2, 1000, 3.0f, 0.0f, 1.0);
  std::vector<float> kl(2);
  kl_from_logits(p.view(), p.view(), 1.0, kl);
  CHECK(std::abs(kl[0]) < 1e-6);
}

TEST_CASE("gaussian: closed forms at known points") {
  CHECK(gaussian_log_prob(0, 0, 0) == doctest::Approx(-.9189385332));
  CHECK(gaussian_log_prob(3, 1, std::log(2.0)) == doctest::Approx(-.5 - std::log(2.0) - .9189385332));
  CHECK(gaussian_entropy(0) == doctest::Approx(1.4189385332));
  CHECK(gaussian_kl(1, .3, 1, .3) == doctest::Approx(0));
  CHECK(gaussian_kl(1, 0, 0, 0) == doctest::Approx(.5));
  CHECK(gaussian_kl(0, std::log(2.0), 0, 0) == doctest::Approx(-std::log(2.0) + 2 - .5));
}
