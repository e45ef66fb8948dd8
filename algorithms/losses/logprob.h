#pragma once
// Log-probabilities and entropies of categorical distributions, computed directly from logits without copying them: one
// pass over the vocabulary, in chunks. Also the closed forms for Gaussians. Pure functions; any thread; no allocation.

#include <cstdint>
#include <limits>
#include <span>

#include "runtime/base/float16.h"

namespace troupe {

// Logits [rows, vocabulary]: row i begins at data + i * stride.
template <class Element>
struct LogitRows {
  const Element* data;
  int64_t rows, vocabulary, stride;
};

// What the backward pass needs per row, with d_j = (z_j - max) / temperature: p_j = exp(d_j) / sum.
struct SoftmaxRow {
  float max;   // of the logits
  float mean;  // sum_j p_j d_j; the entropy is log(sum) - mean
  double sum;  // sum_j exp(d_j)
};

// The label of a position without a token, such as padding. The logits of its row are not read; log-probability,
// entropy and their gradients are 0.
inline constexpr int64_t kIgnoredLabel = std::numeric_limits<int64_t>::min();

// log softmax(logits / temperature)[label], and the entropy of that distribution. A logit of -infinity is a token of
// probability 0: it adds nothing to the entropy, and its own log-probability is -infinity. Element: float or BFloat16.
// labels: [rows], in [0, vocabulary) or kIgnoredLabel, or empty = no log-probabilities. log_probs, entropy, state:
// [rows], each may be empty = not computed. Throws InvariantError for a label out of range or a temperature that is not
// above 0.
template <class Element>
void log_probs_entropy(const LogitRows<Element>& logits, std::span<const int64_t> labels, double temperature,
                       std::span<float> log_probs, std::span<float> entropy, std::span<SoftmaxRow> state);

// grad[i, j] = d_log_probs[i] * d log_prob_i / d z_ij + d_entropy[i] * d entropy_i / d z_ij; each element is written
// once. d_log_probs and d_entropy: [rows], or empty = 0. grad: [rows, vocabulary], contiguous. A row that is ignored,
// or whose two factors are 0, gets zeros, even if its logits are NaN.
template <class Element>
void log_probs_entropy_backward(const LogitRows<Element>& logits, std::span<const int64_t> labels, double temperature,
                                std::span<const SoftmaxRow> state, std::span<const float> d_log_probs,
                                std::span<const float> d_entropy, Element* grad);

// KL(softmax(logits) || softmax(reference)) of each row, exact. A token with probability 0 under the first distribution
// adds nothing. kl: [rows]. The backward function writes grad[i, j] = d_kl[i] * p_j (log p_j - log q_j - kl_i), [rows,
// vocabulary], contiguous.
template <class Element>
void kl_from_logits(const LogitRows<Element>& logits, const LogitRows<Element>& reference, double temperature,
                    std::span<float> kl);
template <class Element>
void kl_from_logits_backward(const LogitRows<Element>& logits, const LogitRows<Element>& reference, double temperature,
                             std::span<const float> d_kl, Element* grad);

// Diagonal Gaussians, per dimension; sum over the dimensions for a whole action.
double gaussian_log_prob(double x, double mean, double log_std);  // -((x - mean) / std)^2 / 2 - log std - log(2 pi) / 2
double gaussian_entropy(double log_std);                          // 1/2 + log(2 pi) / 2 + log std
// KL(N(mean, std) || N(other_mean, other_std)).
double gaussian_kl(double mean, double log_std, double other_mean, double other_log_std);

}  // namespace troupe
