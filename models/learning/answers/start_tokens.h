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
#include "models/learning/lag_figures.h"

namespace troupe {

class StartTokens {
 public:
  // An update begins: forgets the tokens of the one before.
  void open();
  // The weights change.
  void close() { open_ = false; }
  // Does nothing unless open. log_probs: [N], of the packed tokens.
  void add(const AnswerBatch& batch, const PackedAnswers& packed, std::span<const float> log_probs);
  // The same for all tokens of the batch.
  void add(const AnswerBatch& batch, std::span<const float> log_probs);

  // Nothing without tokens. `corrected`: also those of its correction, whose proximal policy is interpolated; or null.
  std::optional<LagFigures> figures(const AlgorithmChoice* corrected) const;

 private:
  void add(const AnswerBatch& batch, size_t place, float log_prob);

  bool open_ = false;
  std::vector<float> start_, rollout_;
  std::vector<int64_t> lags_, offsets_;
  std::vector<uint8_t> kept_;  // by the batch
};

}  // namespace troupe
