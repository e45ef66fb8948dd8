#pragma once
// TokenLogProbs: log-probabilities and entropies of chosen tokens from a decoder's hidden rows, their divergence from
// the distributions of a reference, and the gradients of all these.
// The logits exist for one chunk of rows at a time. Owned by a learner or a scorer; one thread at a time.

#include <cstdint>
#include <span>

#include "algorithms/losses/logprob.h"
#include "models/decoder/decoder.h"

namespace troupe {

// Which tokens: `labels[i]` is predicted by row `rows[i]` of the hidden rows. A row may predict several tokens, such as
// the last row of a prompt the first tokens of its answers.
struct ChosenTokens {
  std::span<const int64_t> rows;    // [N]
  std::span<const int64_t> labels;  // [N] token ids
  double temperature = 1.0;

  int64_t size() const { return static_cast<int64_t>(rows.size()); }
};

// The distributions of another model, a reference, over the chosen tokens.
struct ReferenceRows {
  std::span<const float> hidden = {};     // [N, hidden] its hidden rows, one per chosen token
  const PackedWeights* output = nullptr;  // its output layer
};

// Rows of logits that exist at once.
inline constexpr int64_t kLogitRows = 128;

class TokenLogProbs {
 public:
  // At most `chunk` rows of logits exist at once. The results do not depend on it. Both must outlive this. `tokens`:
  // the distributions are over the ids below it; 0 = over the vocabulary.
  TokenLogProbs(Decoder& decoder, ParallelFor& parallel, int64_t chunk = kLogitRows, int64_t tokens = 0);

  // log_probs, entropy and squared, the sums of the squared probabilities of all tokens in place of the chosen one:
  // [N], each may be empty = not computed. hidden: [P, hidden].
  void forward(std::span<const float> hidden, const ChosenTokens& chosen, std::span<float> log_probs,
               std::span<float> entropy, std::span<float> squared = {});
  // KL(model || reference) of the whole distributions. kl: [N].
  void divergence(std::span<const float> hidden, const ChosenTokens& chosen, const ReferenceRows& reference,
                  std::span<float> kl);
  // Writes d_hidden, [P, hidden], and adds the gradient of the output layer. d_log_probs, d_entropy and d_kl: [N], or
  // empty = 0.
  void backward(std::span<const float> hidden, const ChosenTokens& chosen, std::span<const float> d_log_probs,
                std::span<const float> d_entropy, std::span<float> d_hidden, const DecoderGradients& gradients,
                const ReferenceRows& reference = {}, std::span<const float> d_kl = {});

 private:
  // Rows [first, first + count) of the chosen tokens: fills rows_, logits_ and states_.
  void compute(std::span<const float> hidden, const ChosenTokens& chosen, int64_t first, int64_t count,
               std::span<float> log_probs, std::span<float> entropy, std::span<float> squared);

  // The logits of the reference for the same tokens, in reference_logits_.
  void compute(const ReferenceRows& reference, int64_t first, int64_t count);
  // Adds the gradients of the divergence to row i of d_logits_, that of token first + i.
  void add_divergence(const ChosenTokens& chosen, int64_t i, float d_kl);

  Decoder& decoder_;
  ParallelFor& parallel_;
  int64_t chunk_, tokens_;
  FloatBuffer rows_, d_rows_;                         // [chunk, hidden]
  FloatBuffer logits_, d_logits_, reference_logits_;  // [chunk, vocabulary]
  std::vector<SoftmaxRow> states_;
};

}  // namespace troupe
