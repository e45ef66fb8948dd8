#include "models/learning/answers/start_tokens.h"

namespace troupe {

void StartTokens::open() {
  open_ = true;
  start_.clear();
  rollout_.clear();
  lags_.clear();
}

void StartTokens::add(const AnswerBatch& batch, size_t place, float log_prob) {
  start_.push_back(log_prob);
  rollout_.push_back(batch.log_probs[place]);
  lags_.push_back(batch.lag(place));
}

void StartTokens::add(const AnswerBatch& batch, std::span<const int64_t> places, std::span<const float> log_probs) {
  if (!open_) return;
  for (size_t i = 0; i < places.size(); ++i) add(batch, static_cast<size_t>(places[i]), log_probs[i]);
}

void StartTokens::add(const AnswerBatch& batch, std::span<const float> log_probs) {
  if (!open_) return;
  for (size_t t = 0; t < log_probs.size(); ++t) add(batch, t, log_probs[t]);
}

std::optional<LagFigures> StartTokens::figures() const {
  if (start_.empty()) return std::nullopt;
  return lag_figures(start_, rollout_, lags_, {});
}

}  // namespace troupe
