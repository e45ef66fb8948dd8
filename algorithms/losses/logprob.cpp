#include "algorithms/losses/logprob.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "algorithms/common/tile.h"
#include "algorithms/common/with_isa.h"

namespace troupe {

namespace {

constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
constexpr int64_t kLogitTile = 128;    // elements processed at once
constexpr int64_t kLogitChunk = 4096;  // read twice (maximum, sums), so it must fit the L1 cache
constexpr int64_t kLanes = 32;
static_assert(kLogitTile == 4 * kLanes && kLogitChunk % kLogitTile == 0);

[[gnu::always_inline]] inline float to_float(float x) { return x; }

[[gnu::always_inline]] inline void put(float& to, float x) { to = x; }
[[gnu::always_inline]] inline void put(BFloat16& to, float x) { to = to_bfloat16(x); }

// A tile of logits, padded with -infinity.
template <class Element>
[[gnu::always_inline]] inline void fetch(const Element* logits, int64_t count, float* tile) {
  if (count >= kLogitTile) {
    for (int64_t i = 0; i < kLogitTile; ++i) tile[i] = to_float(logits[i]);
    return;
  }
  for (int64_t i = 0; i < count; ++i) tile[i] = to_float(logits[i]);
  for (int64_t i = count; i < kLogitTile; ++i) tile[i] = -kFloatInfinity;
}

// d = (z - max) / temperature, at least -kExpLimit, and exp(d). Below the limit exp(d) is 0; an infinite d
// times that 0 would be NaN.
[[gnu::always_inline]] inline float exp_of(float z, float max, float scale, float& d) {
  const float exact = (z - max) * scale;
  const uint32_t alive = mask_of(!(exact < -kExpLimit));
  d = exact < -kExpLimit ? -kExpLimit : exact;
  return select(alive, exp_bounded(d));
}

// Sums over the logits so far, relative to their maximum so far.
struct Running {
  float max = -kFloatInfinity;
  double sum = 0, weighted = 0;  // sum of exp(d); sum of exp(d) d

  float shift() const { return max == -kFloatInfinity ? 0.0f : max; }
  // Rescales the sums to a larger maximum.
  void raise(float larger, double scale) {
    if (!(larger > max)) return;
    if (max != -kFloatInfinity) {
      const double by = (double{max} - double{larger}) * scale, factor = std::exp(by);
      weighted = factor == 0 ? 0.0 : factor * (weighted + sum * by);
      sum *= factor;
    }
    max = larger;
  }
};

template <class Element>
[[gnu::always_inline]] inline float largest_of(const Element* logits, int64_t count) {
  float lanes[kLanes];
  float tile[kLogitTile];
  for (float& lane : lanes) lane = -kFloatInfinity;
  for (int64_t at = 0; at < count; at += kLogitTile) {
    fetch(logits + at, count - at, tile);
    for (int64_t i = 0; i < kLanes; ++i) {
      const float a = tile[i] < tile[i + kLanes] ? tile[i + kLanes] : tile[i];
      const float b = tile[i + 2 * kLanes] < tile[i + 3 * kLanes] ? tile[i + 3 * kLanes] : tile[i + 2 * kLanes];
      const float c = a < b ? b : a;
      lanes[i] = lanes[i] < c ? c : lanes[i];
    }
  }
  float largest = lanes[0];
  for (const float lane : lanes) largest = largest < lane ? lane : largest;
  return largest;
}

// Adds a chunk's exponentials. Groups of four are added in float32, everything else in float64.
template <class Element>
[[gnu::always_inline]] inline void add_chunk(const Element* logits, int64_t count, float scale, Running& running) {
  const float max = running.shift();
  double sums[kLanes] = {}, weighted[kLanes] = {};
  float tile[kLogitTile], e[kLogitTile], product[kLogitTile];
  for (int64_t at = 0; at < count; at += kLogitTile) {
    fetch(logits + at, count - at, tile);
    for (int64_t i = 0; i < kLogitTile; ++i) {
      float d;
      e[i] = exp_of(tile[i], max, scale, d);
      product[i] = e[i] * d;
    }
    for (int64_t i = 0; i < kLanes; ++i) {
      sums[i] += (e[i] + e[i + kLanes]) + (e[i + 2 * kLanes] + e[i + 3 * kLanes]);
      weighted[i] += (product[i] + product[i + kLanes]) + (product[i + 2 * kLanes] + product[i + 3 * kLanes]);
    }
  }
  for (int64_t i = 0; i < kLanes; ++i) running.sum += sums[i], running.weighted += weighted[i];
}

template <class Element>
Running sums_of(Isa isa, const Element* logits, int64_t count, double temperature) {
  const double inverse = 1 / temperature;
  const auto scale = static_cast<float>(inverse);
  Running running;
  with_isa(isa, [&]() TROUPE_INLINE_LAMBDA {
    for (int64_t at = 0; at < count; at += kLogitChunk) {
      const int64_t size = std::min(kLogitChunk, count - at);
      running.raise(largest_of(logits + at, size), inverse);
      add_chunk(logits + at, size, scale, running);
    }
  });
  return running;
}

void check_shape(int64_t rows, int64_t vocabulary, int64_t stride, double temperature) {
  TROUPE_CHECK(rows >= 0 && vocabulary >= 1 && stride >= vocabulary, "rows", rows, "vocabulary", vocabulary, "stride",
               stride);
  TROUPE_CHECK(std::isfinite(temperature) && temperature > 0, "temperature", temperature, "want more than 0");
}

void check_size(std::size_t size, int64_t rows, const char* name) {
  TROUPE_CHECK(size == 0 || static_cast<int64_t>(size) == rows, name, size, "rows", rows);
}

void check_label(int64_t label, int64_t vocabulary, int64_t row) {
  TROUPE_CHECK((label >= 0 && label < vocabulary) || label == kIgnoredLabel, "labels row", row, "label", label,
               "vocabulary", vocabulary);
}

bool ignored(std::span<const int64_t> labels, int64_t row) {
  return !labels.empty() && labels[static_cast<std::size_t>(row)] == kIgnoredLabel;
}

// grad_j = p_j * (slope + entropy_slope * (mean - d_j)).
template <class Element>
[[gnu::always_inline]] inline void write_gradient(const Element* logits, int64_t count, float scale,
                                                  const SoftmaxRow& row, float slope, float entropy_slope,
                                                  Element* __restrict grad) {
  const auto inverse_sum = static_cast<float>(1 / row.sum);
  float tile[kLogitTile];
  for (int64_t at = 0; at < count; at += kLogitTile) {
    fetch(logits + at, count - at, tile);
    for (int64_t i = 0; i < kLogitTile; ++i) {
      float d;
      const float p = exp_of(tile[i], row.max, scale, d) * inverse_sum;
      tile[i] = p * (slope + entropy_slope * (row.mean - d));
    }
    if (count - at >= kLogitTile) {
      for (int64_t i = 0; i < kLogitTile; ++i) put(grad[at + i], tile[i]);
    } else {
      for (int64_t i = 0; i < count - at; ++i) put(grad[at + i], tile[i]);
    }
  }
}

// KL(p || q) of one row. p, q: maximum and sum of each distribution.
template <class Element>
double kl_row(const Element* logits, const Element* reference, int64_t count, double inverse, const Running& p,
              const Running& q) {
  double total = 0;
  for (int64_t j = 0; j < count; ++j) {
    const double d = (double{to_float(logits[j])} - p.max) * inverse;
    const double weight = std::exp(d);
    if (weight == 0) continue;
    total += weight * (d - (double{to_float(reference[j])} - q.max) * inverse);
  }
  return total / p.sum - std::log(p.sum) + std::log(q.sum);
}

}  // namespace

template <class Element>
void log_probs_entropy(const LogitRows<Element>& logits, std::span<const int64_t> labels, double temperature,
                       std::span<float> log_probs, std::span<float> entropy, std::span<SoftmaxRow> state) {
  check_shape(logits.rows, logits.vocabulary, logits.stride, temperature);
  check_size(labels.size(), logits.rows, "labels");
  check_size(log_probs.size(), logits.rows, "log_probs");
  check_size(entropy.size(), logits.rows, "entropy");
  check_size(state.size(), logits.rows, "state");
  TROUPE_CHECK(log_probs.empty() || !labels.empty(), "log_probs want labels, rows", logits.rows);
  for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) check_label(labels[i], logits.vocabulary, i);
  const Isa isa = current_isa();
  for (int64_t i = 0; i < logits.rows; ++i) {
    if (ignored(labels, i)) {
      if (!log_probs.empty()) log_probs[i] = 0;
      if (!entropy.empty()) entropy[i] = 0;
      if (!state.empty()) state[i] = {};
      continue;
    }
    const Element* row = logits.data + i * logits.stride;
    const Running sums = sums_of(isa, row, logits.vocabulary, temperature);
    const double log_sum = std::log(sums.sum), mean = sums.weighted / sums.sum;
    if (!log_probs.empty())
      log_probs[i] = static_cast<float>((double{to_float(row[labels[i]])} - double{sums.max}) / temperature - log_sum);
    if (!entropy.empty()) entropy[i] = static_cast<float>(log_sum - mean);
    if (!state.empty()) state[i] = {sums.max, static_cast<float>(mean), sums.sum};
  }
}

template <class Element>
void log_probs_entropy_backward(const LogitRows<Element>& logits, std::span<const int64_t> labels, double temperature,
                                std::span<const SoftmaxRow> state, std::span<const float> d_log_probs,
                                std::span<const float> d_entropy, Element* grad) {
  check_shape(logits.rows, logits.vocabulary, logits.stride, temperature);
  check_size(labels.size(), logits.rows, "labels");
  check_size(d_log_probs.size(), logits.rows, "d_log_probs");
  check_size(d_entropy.size(), logits.rows, "d_entropy");
  TROUPE_CHECK(static_cast<int64_t>(state.size()) == logits.rows, "state", state.size(), "rows", logits.rows);
  TROUPE_CHECK(d_log_probs.empty() || !labels.empty(), "d_log_probs want labels, rows", logits.rows);
  for (int64_t i = 0; i < static_cast<int64_t>(labels.size()); ++i) check_label(labels[i], logits.vocabulary, i);
  const Isa isa = current_isa();
  const auto scale = static_cast<float>(1 / temperature);
  for (int64_t i = 0; i < logits.rows; ++i) {
    const Element* row = logits.data + i * logits.stride;
    Element* out = grad + i * logits.vocabulary;
    const float by_log_prob = (d_log_probs.empty() ? 0.0f : d_log_probs[i]) * scale;
    const float by_entropy = (d_entropy.empty() ? 0.0f : d_entropy[i]) * scale;
    if (ignored(labels, i) || (by_log_prob == 0 && by_entropy == 0)) {
      std::fill(out, out + logits.vocabulary, Element{});
      continue;
    }
    with_isa(isa, [&]() TROUPE_INLINE_LAMBDA {
      write_gradient(row, logits.vocabulary, scale, state[i], -by_log_prob, by_entropy, out);
    });
    if (by_log_prob == 0) continue;
    float d;
    const double p = exp_of(to_float(row[labels[i]]), state[i].max, scale, d) / state[i].sum;
    put(out[labels[i]],
        static_cast<float>(by_log_prob * (1 - p) + by_entropy * p * (double{state[i].mean} - double{d})));
  }
}

template <class Element>
void kl_from_logits(const LogitRows<Element>& logits, const LogitRows<Element>& reference, double temperature,
                    std::span<float> kl) {
  check_shape(logits.rows, logits.vocabulary, logits.stride, temperature);
  check_shape(reference.rows, reference.vocabulary, reference.stride, temperature);
  TROUPE_CHECK(reference.rows == logits.rows && reference.vocabulary == logits.vocabulary &&
                   static_cast<int64_t>(kl.size()) == logits.rows,
               "logits", logits.rows, logits.vocabulary, "reference", reference.rows, reference.vocabulary, "kl",
               kl.size());
  const Isa isa = current_isa();
  for (int64_t i = 0; i < logits.rows; ++i) {
    const Element* a = logits.data + i * logits.stride;
    const Element* b = reference.data + i * reference.stride;
    const Running p = sums_of(isa, a, logits.vocabulary, temperature);
    const Running q = sums_of(isa, b, logits.vocabulary, temperature);
    kl[i] = static_cast<float>(kl_row(a, b, logits.vocabulary, 1 / temperature, p, q));
  }
}

template <class Element>
void kl_from_logits_backward(const LogitRows<Element>& logits, const LogitRows<Element>& reference, double temperature,
                             std::span<const float> d_kl, Element* grad) {
  check_shape(logits.rows, logits.vocabulary, logits.stride, temperature);
  check_shape(reference.rows, reference.vocabulary, reference.stride, temperature);
  TROUPE_CHECK(reference.rows == logits.rows && reference.vocabulary == logits.vocabulary &&
                   static_cast<int64_t>(d_kl.size()) == logits.rows,
               "logits", logits.rows, logits.vocabulary, "reference", reference.rows, reference.vocabulary, "d_kl",
               d_kl.size());
  const Isa isa = current_isa();
  const double inverse = 1 / temperature;
  for (int64_t i = 0; i < logits.rows; ++i) {
    const Element* a = logits.data + i * logits.stride;
    const Element* b = reference.data + i * reference.stride;
    Element* out = grad + i * logits.vocabulary;
    if (d_kl[i] == 0) {
      std::fill(out, out + logits.vocabulary, Element{});
      continue;
    }
    const Running p = sums_of(isa, a, logits.vocabulary, temperature);
    const Running q = sums_of(isa, b, logits.vocabulary, temperature);
    const double kl = kl_row(a, b, logits.vocabulary, inverse, p, q);
    const double constant = std::log(q.sum) - std::log(p.sum) - kl;
    for (int64_t j = 0; j < logits.vocabulary; ++j) {
      const double d = (double{to_float(a[j])} - p.max) * inverse, weight = std::exp(d) / p.sum;
      const double log_ratio = d - (double{to_float(b[j])} - q.max) * inverse + constant;
      put(out[j], weight == 0 ? 0.0f : static_cast<float>(d_kl[i] * inverse * weight * log_ratio));
    }
  }
}

double gaussian_log_prob(double x, double mean, double log_std) {
  const double z = (x - mean) * std::exp(-log_std);
  return -0.5 * z * z - log_std - 0.5 * std::log(2 * std::numbers::pi);
}

double gaussian_entropy(double log_std) { return 0.5 + 0.5 * std::log(2 * std::numbers::pi) + log_std; }

double gaussian_kl(double mean, double log_std, double other_mean, double other_log_std) {
  const double ratio = std::exp(log_std - other_log_std), shift = (mean - other_mean) * std::exp(-other_log_std);
  return other_log_std - log_std + 0.5 * (ratio * ratio + shift * shift) - 0.5;
}

template void log_probs_entropy(const LogitRows<float>&, std::span<const int64_t>, double, std::span<float>,
                                std::span<float>, std::span<SoftmaxRow>);
template void log_probs_entropy(const LogitRows<BFloat16>&, std::span<const int64_t>, double, std::span<float>,
                                std::span<float>, std::span<SoftmaxRow>);
template void log_probs_entropy_backward(const LogitRows<float>&, std::span<const int64_t>, double,
                                         std::span<const SoftmaxRow>, std::span<const float>, std::span<const float>,
                                         float*);
template void log_probs_entropy_backward(const LogitRows<BFloat16>&, std::span<const int64_t>, double,
                                         std::span<const SoftmaxRow>, std::span<const float>, std::span<const float>,
                                         BFloat16*);
template void kl_from_logits(const LogitRows<float>&, const LogitRows<float>&, double, std::span<float>);
template void kl_from_logits(const LogitRows<BFloat16>&, const LogitRows<BFloat16>&, double, std::span<float>);
template void kl_from_logits_backward(const LogitRows<float>&, const LogitRows<float>&, double, std::span<const float>,
                                      float*);
template void kl_from_logits_backward(const LogitRows<BFloat16>&, const LogitRows<BFloat16>&, double,
                                      std::span<const float>, BFloat16*);

}  // namespace troupe
