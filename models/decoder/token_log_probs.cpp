#include "models/decoder/token_log_probs.h"

#include <algorithm>
#include <vector>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

// Elements [first, first + count), or nothing of an empty span.
template <class T>
std::span<T> part_of(std::span<T> all, int64_t first, int64_t count) {
  return all.empty() ? all : all.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
}

// At half the temperature the exponentials are the squares of those in `states`.
void square_sums(const LogitRows<float>& logits, double temperature, std::span<const SoftmaxRow> states,
                 std::span<float> squared) {
  std::vector<SoftmaxRow> halves(states.size());
  log_probs_entropy<float>(logits, {}, temperature / 2, {}, {}, halves);
  for (size_t i = 0; i < states.size(); ++i)
    squared[i] = static_cast<float>(halves[i].sum / (states[i].sum * states[i].sum));
}

}  // namespace

TokenLogProbs::TokenLogProbs(Decoder& decoder, ParallelFor& parallel, int64_t chunk, int64_t tokens)
    : decoder_(decoder),
      parallel_(parallel),
      chunk_(chunk),
      tokens_(tokens > 0 ? tokens : decoder.shape().vocabulary),
      states_(static_cast<size_t>(chunk)) {
  TROUPE_CHECK(chunk >= 1 && tokens_ <= decoder.shape().vocabulary, "chunk", chunk, "tokens", tokens);
}

void TokenLogProbs::compute(std::span<const float> hidden, const ChosenTokens& chosen, int64_t first, int64_t count,
                            std::span<float> log_probs, std::span<float> entropy, std::span<float> squared) {
  const int64_t width = decoder_.shape().hidden, vocabulary = decoder_.shape().vocabulary;
  rows_.resize(count * width);
  logits_.resize(count * vocabulary);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = chosen.rows[static_cast<size_t>(first + i)];
    TROUPE_CHECK(row >= 0 && (row + 1) * width <= static_cast<int64_t>(hidden.size()), "row", row, "floats",
                 hidden.size());
    std::copy_n(hidden.data() + row * width, width, rows_.data() + i * width);
  }
  decoder_.logits(rows_.span(), logits_.span());
  for_parts(count, rows_per_part(vocabulary), parallel_, [&](int64_t from, int64_t to) {
    const LogitRows<float> logits{logits_.data() + from * vocabulary, to - from, tokens_, vocabulary};
    const std::span<SoftmaxRow> states = part_of(std::span<SoftmaxRow>(states_), from, to - from);
    log_probs_entropy<float>(logits, part_of(chosen.labels, first + from, to - from), chosen.temperature,
                             part_of(log_probs, first + from, to - from), part_of(entropy, first + from, to - from),
                             states);
    if (!squared.empty()) square_sums(logits, chosen.temperature, states, part_of(squared, first + from, to - from));
  });
}

void TokenLogProbs::forward(std::span<const float> hidden, const ChosenTokens& chosen, std::span<float> log_probs,
                            std::span<float> entropy, std::span<float> squared) {
  TROUPE_CHECK(chosen.labels.size() == chosen.rows.size(), chosen.labels.size(), chosen.rows.size());
  for (int64_t first = 0; first < chosen.size(); first += chunk_)
    compute(hidden, chosen, first, std::min(chunk_, chosen.size() - first), log_probs, entropy, squared);
}

void TokenLogProbs::compute(const ReferenceRows& reference, int64_t first, int64_t count) {
  const int64_t width = decoder_.shape().hidden, vocabulary = decoder_.shape().vocabulary;
  TROUPE_CHECK((first + count) * width <= static_cast<int64_t>(reference.hidden.size()), first, count);
  reference_logits_.resize(count * vocabulary);
  multiply_packed({reference.hidden.data() + first * width, count, width, width}, *reference.output,
                  reference_logits_.data(), vocabulary, parallel_);
}

void TokenLogProbs::divergence(std::span<const float> hidden, const ChosenTokens& chosen,
                               const ReferenceRows& reference, std::span<float> kl) {
  const int64_t vocabulary = decoder_.shape().vocabulary;
  for (int64_t first = 0; first < chosen.size(); first += chunk_) {
    const int64_t count = std::min(chunk_, chosen.size() - first);
    compute(hidden, chosen, first, count, {}, {}, {});
    compute(reference, first, count);
    for_parts(count, rows_per_part(vocabulary), parallel_, [&](int64_t from, int64_t to) {
      kl_from_logits<float>({logits_.data() + from * vocabulary, to - from, tokens_, vocabulary},
                            {reference_logits_.data() + from * vocabulary, to - from, tokens_, vocabulary},
                            chosen.temperature, part_of(kl, first + from, to - from));
    });
  }
}

void TokenLogProbs::add_divergence(const ChosenTokens& chosen, int64_t i, float d_kl) {
  const int64_t vocabulary = decoder_.shape().vocabulary;
  thread_local FloatBuffer gradient;
  gradient.resize(tokens_);
  kl_from_logits_backward<float>({logits_.data() + i * vocabulary, 1, tokens_, vocabulary},
                                 {reference_logits_.data() + i * vocabulary, 1, tokens_, vocabulary},
                                 chosen.temperature, {&d_kl, 1}, gradient.data());
  lm_kernels().add(gradient.data(), tokens_, d_logits_.data() + i * vocabulary);
}

void TokenLogProbs::backward(std::span<const float> hidden, const ChosenTokens& chosen,
                             std::span<const float> d_log_probs, std::span<const float> d_entropy,
                             std::span<float> d_hidden, const DecoderGradients& gradients,
                             const ReferenceRows& reference, std::span<const float> d_kl) {
  TROUPE_CHECK(chosen.labels.size() == chosen.rows.size(), chosen.labels.size(), chosen.rows.size());
  TROUPE_CHECK(d_hidden.size() == hidden.size(), d_hidden.size(), hidden.size());
  const int64_t width = decoder_.shape().hidden, vocabulary = decoder_.shape().vocabulary;
  std::ranges::fill(d_hidden, 0.0f);
  for (int64_t first = 0; first < chosen.size(); first += chunk_) {
    const int64_t count = std::min(chunk_, chosen.size() - first);
    compute(hidden, chosen, first, count, {}, {}, {});
    if (!d_kl.empty()) compute(reference, first, count);
    d_rows_.resize(count * width);
    d_logits_.resize(count * vocabulary);
    for_parts(count, rows_per_part(vocabulary), parallel_, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i) {
        float* row = d_logits_.data() + i * vocabulary;
        log_probs_entropy_backward<float>({logits_.data() + i * vocabulary, 1, tokens_, vocabulary},
                                          part_of(chosen.labels, first + i, 1), chosen.temperature,
                                          part_of(std::span<const SoftmaxRow>(states_), i, 1),
                                          part_of(d_log_probs, first + i, 1), part_of(d_entropy, first + i, 1), row);
        std::fill(row + tokens_, row + vocabulary, 0.0f);
        if (!d_kl.empty()) add_divergence(chosen, i, d_kl[static_cast<size_t>(first + i)]);
      }
    });
    decoder_.logits_backward(rows_.span(), d_logits_.span(), d_rows_.span(), gradients);
    for (int64_t i = 0; i < count; ++i)
      lm_kernels().add(d_rows_.data() + i * width, width,
                       d_hidden.data() + chosen.rows[static_cast<size_t>(first + i)] * width);
  }
}

}  // namespace troupe
