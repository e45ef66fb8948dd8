#include "models/learning/answers/start_tokens.h"

namespace troupe {

void StartTokens::open() {
  open_ = true;
  start_.clear();
  rollout_.clear();
  lags_.clear();
  kept_.clear();
  offsets_ = {0};
}

void StartTokens::add(const AnswerBatch& batch, size_t place, float log_prob) {
  start_.push_back(log_prob);
  rollout_.push_back(batch.log_probs[place]);
  lags_.push_back(batch.lag(place));
  kept_.push_back(batch.is_kept(place) ? 1 : 0);
}

void StartTokens::add(const AnswerBatch& batch, const PackedAnswers& packed, std::span<const float> log_probs) {
  if (!open_) return;
  const auto before = static_cast<int64_t>(start_.size());
  for (size_t i = 1; i < packed.offsets.size(); ++i) offsets_.push_back(before + packed.offsets[i]);
  for (size_t i = 0; i < log_probs.size(); ++i) add(batch, static_cast<size_t>(packed.places[i]), log_probs[i]);
}

void StartTokens::add(const AnswerBatch& batch, std::span<const float> log_probs) {
  if (!open_) return;
  offsets_ = batch.offsets;
  for (size_t t = 0; t < log_probs.size(); ++t) add(batch, t, log_probs[t]);
}

std::optional<LagFigures> StartTokens::figures(const AlgorithmChoice* corrected) const {
  if (start_.empty()) return std::nullopt;
  LagFigures result = lag_figures(start_, rollout_, lags_, kept_);
  if (corrected != nullptr)
    result.correction = correct_answers(*corrected, {.log_probs = start_,
                                                     .rollout = rollout_,
                                                     .offsets = offsets_,
                                                     .kept = kept_,
                                                     .advantages = {},
                                                     .lags = lags_})
                            .metrics;
  return result;
}

}  // namespace troupe
