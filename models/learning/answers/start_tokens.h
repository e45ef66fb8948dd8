#pragma once
// StartTokens: the tokens of an update whose log-probabilities were computed with the weights from before it: all of
// them if the update computes them anyway, else those of its first optimizer step, whose forward pass has them. So
// measuring the distance to the policies that sampled the tokens takes no pass of its own. Owned by a trainer; one
// thread at a time.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/answer_correction.h"
#include "models/learning/answers/answer_parts.h"
#include "models/learning/lag_figures.h"

namespace troupe {

class StartTokens {
 public:
  // `corrected`: figures are also those of its correction, which each step makes anew; or null. It must outlive this.
  explicit StartTokens(const AlgorithmChoice* corrected) : corrected_(corrected) {}

  // An update with these tokens begins: forgets those of the one before.
  void open(const AnswerBatch& batch);
  // Until the weights change, or all tokens of the batch are there.
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  // log_probs: [N], of all tokens of the answers in these micro-batches, but for those in which the batch keeps no
  // token; or empty.
  void add(const AnswerBatch& batch, std::span<const MicroBatch> parts, std::span<const float> log_probs);
  // Of all tokens of the batch; there will be no others.
  void add(const AnswerBatch& batch, std::span<const float> log_probs);

  // Nothing without tokens.
  std::optional<LagFigures> figures() const;

 private:
  void add(const AnswerBatch& batch, const MicroBatch& answers);
  LagFigures figures_of(const TokensToCorrect& tokens) const;

  const AlgorithmChoice* corrected_;
  bool open_ = false;
  LagShares shares_;                    // of all tokens of the batch
  std::optional<LagFigures> of_batch_;  // where it was added as a whole
  std::vector<float> start_, rollout_;
  std::vector<int64_t> lags_, offsets_;
  std::vector<uint8_t> kept_;  // by the batch
};

}  // namespace troupe
