#pragma once
// AnswerPass: forward passes of packed answers without gradients: hidden rows, and the log-probabilities of the tokens.
// Owned by a trainer or a reference; one thread at a time.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_batch.h"

namespace troupe {

// to[places[i]] = from[i], unless `to` is empty.
void scatter(std::span<const float> from, std::span<const int64_t> places, std::span<float> to);

class AnswerPass {
 public:
  // Both must outlive this. `temperature`: at which the answers were sampled.
  AnswerPass(Decoder& decoder, TokenLogProbs& token_log_probs, double temperature)
      : decoder_(decoder), token_log_probs_(token_log_probs), temperature_(temperature) {}

  // Keys and values for a pass of these inputs.
  KvStore& store(const PackedAnswers& packed);
  // hidden: [P, hidden] of all inputs.
  void forward(const PackedAnswers& packed, FloatBuffer& hidden);
  // At the places of the tokens in the batch, from the result of forward(). log_probs: [T]; squared: [T], as
  // TokenLogProbs::forward(), or empty.
  void log_probs(const PackedAnswers& packed, std::span<const float> hidden, std::span<float> log_probs,
                 std::span<float> squared = {});

 private:
  Decoder& decoder_;
  TokenLogProbs& token_log_probs_;
  double temperature_;
  std::optional<KvStore> store_;
  std::vector<float> log_probs_, squared_;  // [N] of one pass
};

}  // namespace troupe
