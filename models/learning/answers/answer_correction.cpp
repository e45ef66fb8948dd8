#include "models/learning/answers/answer_correction.h"

#include <limits>

#include "runtime/base/errors.h"

namespace troupe {
namespace {

// Distances are those of the policy being trained, weights those of the proximal policy, which lies between.
OffPolicyMetrics with_weights_of(OffPolicyMetrics distances, const OffPolicyMetrics& proximal) {
  for (auto member : {&OffPolicyMetrics::weight_mean, &OffPolicyMetrics::weight_std, &OffPolicyMetrics::weight_min,
                      &OffPolicyMetrics::weight_max, &OffPolicyMetrics::weight_high_fraction,
                      &OffPolicyMetrics::weight_low_fraction, &OffPolicyMetrics::ess})
    distances.*member = proximal.*member;
  return distances;
}

}  // namespace

AnswerCorrection correct_answers(const AlgorithmChoice& choice, const TokensToCorrect& tokens) {
  TROUPE_CHECK(choice.correction.has_value(), choice.advantage->name);
  RolloutCorrection correction = *choice.correction;
  if (tokens.advantages.empty()) correction.opsm_delta = std::numeric_limits<double>::infinity();
  AnswerCorrection result;
  result.weights.resize(tokens.log_probs.size());
  result.kept.resize(tokens.log_probs.size());
  const auto correct = [&](std::span<const float> log_probs) {
    return rollout_correction(log_probs, tokens.rollout, TokenSequences(tokens.offsets), tokens.kept, tokens.advantages,
                              correction, result.weights, result.kept);
  };
  result.metrics = correct(tokens.log_probs);
  switch (choice.proximal) {
    case Proximal::computed: result.old_log_probs.assign(tokens.log_probs.begin(), tokens.log_probs.end()); break;
    case Proximal::interpolated:
      result.old_log_probs.resize(tokens.log_probs.size());
      interpolate_proximal(tokens.log_probs, tokens.rollout, tokens.lags, result.old_log_probs);
      result.metrics = with_weights_of(result.metrics, correct(result.old_log_probs));
      break;
    case Proximal::rollout: break;
  }
  if (correction.level == WeightLevel::none) result.weights.clear();
  return result;
}

}  // namespace troupe
