#pragma once
// TokenLogProbs: log-probabilities and entropies of chosen tokens from a decoder's hidden rows, and their gradients.
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

class TokenLogProbs {
 public:
  // At most `chunk` rows of logits exist at once. The results do not depend on it. Both must outlive this. `tokens`:
  // the distributions are over the ids below it; 0 = over the vocabulary.
  TokenLogProbs(Decoder& decoder, ParallelFor& parallel, int64_t chunk = 128, int64_t tokens = 0);

  // log_probs, entropy and squared, the sums of the squared probabilities of all tokens in place of the chosen one:
  // [N], each may be empty = not computed. hidden: [P, hidden].
  void forward(std::span<const float> hidden, const ChosenTokens& chosen, std::span<float> log_probs,
               std::span<float> entropy, std::span<float> squared = {});
  // Writes d_hidden, [P, hidden], and adds the gradient of the output layer. d_log_probs and d_entropy: [N], or empty =
  // 0.
  void backward(std::span<const float> hidden, const ChosenTokens& chosen, std::span<const float> d_log_probs,
                std::span<const float> d_entropy, std::span<float> d_hidden, const DecoderGradients& gradients);

 private:
  // Rows [first, first + count) of the chosen tokens: fills rows_, logits_ and states_.
  void compute(std::span<const float> hidden, const ChosenTokens& chosen, int64_t first, int64_t count,
               std::span<float> log_probs, std::span<float> entropy, std::span<float> squared);

  Decoder& decoder_;
  ParallelFor& parallel_;
  int64_t chunk_, tokens_;
  FloatBuffer rows_, d_rows_;      // [chunk, hidden]
  FloatBuffer logits_, d_logits_;  // [chunk, vocabulary]
  std::vector<SoftmaxRow> states_;
};

}  // namespace troupe
