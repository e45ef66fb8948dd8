#include "models/learning/answers/start_tokens.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

std::vector<int64_t> lags_of(const AnswerBatch& batch) {
  std::vector<int64_t> lags(batch.tokens.size());
  for (size_t t = 0; t < lags.size(); ++t) lags[t] = batch.lag(t);
  return lags;
}

bool keeps_token(const AnswerBatch& batch, const MicroBatch& answers) {
  return std::ranges::any_of(answers, [&](int64_t a) {
    const auto first = static_cast<size_t>(batch.offsets[static_cast<size_t>(a)]);
    for (size_t t = first; t < first + static_cast<size_t>(batch.tokens_of(a)); ++t)
      if (batch.is_kept(t)) return true;
    return false;
  });
}

}  // namespace

void StartTokens::open(const AnswerBatch& batch) {
  open_ = true;
  shares_ = lag_shares(lags_of(batch), batch.kept);
  of_batch_.reset();
  start_.clear();
  rollout_.clear();
  lags_.clear();
  kept_.clear();
  offsets_ = {0};
}

void StartTokens::add(const AnswerBatch& batch, std::span<const MicroBatch> parts, std::span<const float> log_probs) {
  if (log_probs.empty()) return;
  for (const MicroBatch& part : parts)
    if (keeps_token(batch, part)) add(batch, part);
  start_.insert(start_.end(), log_probs.begin(), log_probs.end());
  TROUPE_CHECK(start_.size() == rollout_.size(), start_.size(), rollout_.size());
}

// All but their log-probabilities.
void StartTokens::add(const AnswerBatch& batch, const MicroBatch& answers) {
  for (const int64_t a : answers) {
    const auto first = static_cast<size_t>(batch.offsets[static_cast<size_t>(a)]);
    const size_t end = first + static_cast<size_t>(batch.tokens_of(a));
    offsets_.push_back(offsets_.back() + batch.tokens_of(a));
    for (size_t t = first; t < end; ++t) {
      rollout_.push_back(batch.log_probs[t]);
      lags_.push_back(batch.lag(t));
      kept_.push_back(batch.is_kept(t) ? 1 : 0);
    }
  }
}

void StartTokens::add(const AnswerBatch& batch, std::span<const float> log_probs) {
  const std::vector<int64_t> lags = lags_of(batch);
  of_batch_ = figures_of({.log_probs = log_probs,
                          .rollout = batch.log_probs,
                          .offsets = batch.offsets,
                          .kept = batch.kept,
                          .advantages = {},
                          .lags = lags});
  close();
}

std::optional<LagFigures> StartTokens::figures() const {
  if (of_batch_ || start_.empty()) return of_batch_;
  return figures_of(
      {.log_probs = start_, .rollout = rollout_, .offsets = offsets_, .kept = kept_, .advantages = {}, .lags = lags_});
}

LagFigures StartTokens::figures_of(const TokensToCorrect& tokens) const {
  LagFigures result = lag_figures(tokens.log_probs, tokens.rollout, tokens.lags, tokens.kept);
  result.of_batch = shares_;
  if (corrected_ != nullptr) result.correction = correct_answers(*corrected_, tokens).metrics;
  return result;
}

}  // namespace troupe
