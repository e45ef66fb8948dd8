#include "algorithms/losses/rollout_correction.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "algorithms/common/names.h"
#include "algorithms/common/tile.h"

namespace troupe {

namespace {

using Rule = RejectionRule;

struct Named {
  std::string_view name;
  Rule::Over over;
  Rule::Statistic statistic;
};

constexpr std::array kRules = {
    Named{"token_k1", Rule::Over::token, Rule::Statistic::k1},
    Named{"token_k2", Rule::Over::token, Rule::Statistic::k2},
    Named{"token_k3", Rule::Over::token, Rule::Statistic::k3},
    Named{"seq_sum_k1", Rule::Over::seq_sum, Rule::Statistic::k1},
    Named{"seq_sum_k2", Rule::Over::seq_sum, Rule::Statistic::k2},
    Named{"seq_sum_k3", Rule::Over::seq_sum, Rule::Statistic::k3},
    Named{"seq_mean_k1", Rule::Over::seq_mean, Rule::Statistic::k1},
    Named{"seq_mean_k2", Rule::Over::seq_mean, Rule::Statistic::k2},
    Named{"seq_mean_k3", Rule::Over::seq_mean, Rule::Statistic::k3},
    Named{"seq_max_k2", Rule::Over::seq_max, Rule::Statistic::k2},
    Named{"seq_max_k3", Rule::Over::seq_max, Rule::Statistic::k3},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    pieces.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

[[noreturn]] void refuse(std::string_view path, std::string_view got, std::string_view expected) {
  throw ConfigError(std::string(path) + ": \"" + std::string(got) + "\", expected " + std::string(expected));
}

double positive_number(std::string_view path, std::string_view text, std::string_view whole) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0))
    refuse(path, whole, "a number above 0, or for k1 LOW_HIGH");
  return value;
}

void set_threshold(Rule& rule, std::string_view text, std::string_view path) {
  const std::vector<std::string_view> numbers = split_at(text, '_');
  if (numbers.empty() || numbers.size() > 2) refuse(path, text, "a number above 0, or for k1 LOW_HIGH");
  const double last = positive_number(path, numbers.back(), text);
  if (rule.statistic != Rule::Statistic::k1) {
    if (numbers.size() == 2) refuse(path, text, "one upper bound for k2 and k3");
    rule.high = last;
    return;
  }
  const double first = numbers.size() == 2 ? positive_number(path, numbers[0], text) : 1 / last;
  if (first > last) refuse(path, text, "LOW_HIGH with LOW at most HIGH");
  rule.low = std::log(first);
  rule.high = std::log(last);
}

// The inputs that all passes over a batch read.
struct Batch {
  std::span<const float> log_probs, rollout;
  const TokenSequences& sequences;
  std::span<const uint8_t> mask;

  bool counts(int64_t i) const { return mask.empty() || mask[i] != 0; }
  double log_ratio(int64_t i) const { return double{log_probs[i]} - double{rollout[i]}; }
  double bounded(int64_t i) const { return clamp(log_ratio(i)); }
  static double clamp(double x) {
    constexpr double kLimit = kMaxLogRatio;
    return x < -kLimit ? -kLimit : x > kLimit ? kLimit : x;  // NaN stays NaN
  }
};

double statistic_of(Rule::Statistic statistic, double l) {
  switch (statistic) {
    case Rule::Statistic::k1: return -l;
    case Rule::Statistic::k2: return 0.5 * l * l;
    case Rule::Statistic::k3: return std::expm1(l) - l;
  }
  return 0;
}

// Sum, mean and maximum of a statistic over the unmasked tokens of a sequence; n is 0 if there are none.
struct SequenceStatistic {
  double sum = 0, largest = -std::numeric_limits<double>::infinity(), n = 0;
  SequenceStatistic(const Batch& batch, Rule::Statistic statistic, int64_t sequence) {
    for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i) {
      if (!batch.counts(i)) continue;
      const double value = statistic_of(statistic, batch.bounded(i));
      sum += value, n += 1;
      if (!(value <= largest)) largest = value;
    }
  }
  double over(Rule::Over over) const {
    return over == Rule::Over::seq_sum ? sum : over == Rule::Over::seq_mean ? sum / n : largest;
  }
};

bool within(const Rule& rule, double value) { return rule.low <= value && value <= rule.high; }

void reject(const Batch& batch, const Rule& rule, std::span<uint8_t> kept) {
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence) {
    const int64_t begin = batch.sequences.begin(sequence), end = batch.sequences.end(sequence);
    if (rule.over == Rule::Over::token) {
      for (int64_t i = begin; i < end; ++i)
        if (kept[i] != 0 && !within(rule, statistic_of(rule.statistic, batch.bounded(i)))) kept[i] = 0;
      continue;
    }
    const SequenceStatistic statistic(batch, rule.statistic, sequence);
    if (statistic.n > 0 && !within(rule, statistic.over(rule.over)))
      std::fill(kept.begin() + begin, kept.begin() + end, uint8_t{0});
  }
}

// Off-policy sequence masking: tokens with a negative advantage, in sequences that the policy has moved away from.
void reject_opsm(const Batch& batch, std::span<const float> advantages, double delta, std::span<uint8_t> kept) {
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence) {
    const int64_t begin = batch.sequences.begin(sequence), end = batch.sequences.end(sequence);
    double kl = 0, n = 0;
    for (int64_t i = begin; i < end; ++i)
      if (batch.counts(i)) kl -= batch.log_ratio(i), n += 1;
    if (n == 0 || !(kl / n > delta)) continue;
    for (int64_t i = begin; i < end; ++i)
      if (batch.counts(i) && advantages[i] < 0) kept[i] = 0;
  }
}

double sequence_log_ratio(const Batch& batch, int64_t sequence) {
  double sum = 0;
  for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i)
    if (batch.counts(i)) sum += batch.log_ratio(i);
  return sum;
}

// Weights before the bounds are applied, and their moments per token.
void raw_weights(const Batch& batch, const RolloutCorrection& params, std::span<float> weights,
                 OffPolicyMetrics& metrics) {
  double n = 0, sum = 0, squares = 0, clamped_sum = 0, clamped_squares = 0, high = 0, low = 0;
  double largest = -std::numeric_limits<double>::infinity(), smallest = -largest;
  const double floor = params.high > 0 ? 1 / params.high : 0;
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence) {
    const bool whole = params.level == WeightLevel::sequence;
    const double sequence_weight = whole ? std::exp(Batch::clamp(sequence_log_ratio(batch, sequence))) : 1.0;
    for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i) {
      weights[i] = 0;
      if (!batch.counts(i)) continue;
      const double w = params.level == WeightLevel::token ? std::exp(batch.bounded(i)) : sequence_weight;
      const double clamped = w < floor ? floor : w > params.high ? params.high : w;
      weights[i] = static_cast<float>(w);
      n += 1, sum += w, squares += w * w, clamped_sum += clamped, clamped_squares += clamped * clamped;
      high += w > params.high, low += w < params.low;
      largest = std::max(largest, w), smallest = std::min(smallest, w);
    }
  }
  if (n == 0) return;
  metrics.weight_mean = sum / n;
  metrics.weight_std = std::sqrt(std::max(0.0, squares / n - metrics.weight_mean * metrics.weight_mean));
  metrics.weight_min = smallest, metrics.weight_max = largest;
  metrics.weight_high_fraction = high / n, metrics.weight_low_fraction = low / n;
  metrics.ess = clamped_squares > 0 ? clamped_sum * clamped_sum / (n * clamped_squares) : 0.0;
}

void bound_weights(const Batch& batch, const RolloutCorrection& params, std::span<float> weights) {
  const auto low = static_cast<float>(params.low), high = static_cast<float>(params.high);
  for (int64_t i = 0; i < static_cast<int64_t>(weights.size()); ++i) {
    if (!batch.counts(i)) continue;
    const bool outside = weights[i] < low || weights[i] > high;
    weights[i] =
        params.bound == WeightBound::zero ? (outside ? 0.0f : weights[i]) : clamp_keep_nan(weights[i], low, high);
  }
}

// Divides by the mean weight, over tokens or over sequences. Does nothing when the mean is (nearly) 0.
void normalize_weights(const Batch& batch, WeightLevel level, std::span<float> weights) {
  double sum = 0, n = 0;
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence)
    for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i) {
      if (!batch.counts(i)) continue;
      sum += weights[i], n += 1;
      if (level == WeightLevel::sequence) break;
    }
  const double mean = n == 0 ? 0.0 : sum / n;
  if (mean <= 1e-8) return;
  for (float& weight : weights) weight = static_cast<float>(weight / mean);
}

struct SequenceMeans {
  double training = 0, rollout = 0, log_ratio_sum = 0, n = 0;
  SequenceMeans(const Batch& batch, int64_t sequence) {
    for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i) {
      if (!batch.counts(i)) continue;
      training -= batch.log_probs[i], rollout -= batch.rollout[i], log_ratio_sum += batch.log_ratio(i), n += 1;
    }
    if (n > 0) training /= n, rollout /= n;
  }
};

void measure_tokens(const Batch& batch, OffPolicyMetrics& out) {
  double n = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(batch.log_probs.size()); ++i) {
    if (!batch.counts(i)) continue;
    const double l = batch.bounded(i);
    out.kl -= batch.log_ratio(i);
    out.k3_kl += std::expm1(l) - l;
    out.chi2_token += std::expm1(2 * l);
    n += 1;
  }
  if (n == 0) return;
  for (double* sum : {&out.kl, &out.k3_kl, &out.chi2_token}) *sum /= n;
}

void measure_sequences(const Batch& batch, OffPolicyMetrics& out) {
  double n = 0;
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence) {
    const SequenceMeans means(batch, sequence);
    if (means.n == 0) continue;
    const double difference = means.training - means.rollout;
    out.log_ppl_diff_max = n == 0 ? difference : std::max(out.log_ppl_diff_max, difference);
    out.log_ppl_diff_min = n == 0 ? difference : std::min(out.log_ppl_diff_min, difference);
    out.training_log_ppl += means.training, out.rollout_log_ppl += means.rollout;
    out.training_ppl += std::exp(Batch::clamp(means.training));
    out.rollout_ppl += std::exp(Batch::clamp(means.rollout));
    out.log_ppl_diff += difference, out.log_ppl_abs_diff += std::abs(difference);
    out.ppl_ratio += std::exp(Batch::clamp(difference));
    out.chi2_seq += std::expm1(2 * Batch::clamp(means.log_ratio_sum));
    n += 1;
  }
  if (n == 0) return;
  for (double* sum : {&out.training_log_ppl, &out.rollout_log_ppl, &out.training_ppl, &out.rollout_ppl,
                      &out.log_ppl_diff, &out.log_ppl_abs_diff, &out.ppl_ratio, &out.chi2_seq})
    *sum /= n;
}

void measure_rejected(const Batch& batch, std::span<const uint8_t> kept, OffPolicyMetrics& out) {
  double tokens = 0, sequences = 0, lost_tokens = 0, lost_sequences = 0;
  for (int64_t sequence = 0; sequence < batch.sequences.count(); ++sequence) {
    double live = 0, lost = 0;
    for (int64_t i = batch.sequences.begin(sequence); i < batch.sequences.end(sequence); ++i)
      if (batch.counts(i)) live += 1, lost += kept[i] == 0;
    tokens += live, lost_tokens += lost, sequences += live > 0, lost_sequences += lost > 0;
  }
  if (tokens == 0) return;
  out.rejected_token_fraction = lost_tokens / tokens;
  out.rejected_sequence_fraction = lost_sequences / sequences;
}

}  // namespace

std::vector<RejectionRule> parse_rejection_rules(std::string_view rules, std::string_view thresholds,
                                                 std::string_view path) {
  std::array<std::string_view, kRules.size()> names;
  for (std::size_t i = 0; i < kRules.size(); ++i) names[i] = kRules[i].name;
  const std::vector<std::string_view> words = split_at(rules, ','), bounds = split_at(thresholds, ',');
  if (words.empty()) return {};
  if (bounds.size() != 1 && bounds.size() != words.size())
    throw ConfigError(std::string(path) + ": " + std::to_string(words.size()) + " rules and " +
                      std::to_string(bounds.size()) + " thresholds, expected one threshold or one per rule");
  std::vector<Rule> parsed;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const Named& named = kRules[find_name(path, words[i], names, "rule")];
    Rule rule{named.statistic, named.over};
    set_threshold(rule, bounds[bounds.size() == 1 ? 0 : i], path);
    parsed.push_back(rule);
  }
  return parsed;
}

OffPolicyMetrics rollout_correction(std::span<const float> log_probs, std::span<const float> rollout_log_probs,
                                    const TokenSequences& sequences, std::span<const uint8_t> mask,
                                    std::span<const float> advantages, const RolloutCorrection& params,
                                    std::span<float> weights, std::span<uint8_t> kept) {
  const std::size_t n = log_probs.size();
  TROUPE_CHECK(rollout_log_probs.size() == n && fits_or_empty(mask, n) &&
                   sequences.tokens() == static_cast<int64_t>(n) && weights.size() == n && kept.size() == n,
               "log_probs", n, "rollout_log_probs", rollout_log_probs.size(), "mask", mask.size(), "sequences",
               sequences.tokens(), "weights", weights.size(), "kept", kept.size());
  TROUPE_CHECK(params.low >= 0 && params.low <= params.high, "low", params.low, "high", params.high);
  const bool opsm = std::isfinite(params.opsm_delta);
  TROUPE_CHECK(!opsm || advantages.size() == n, "log_probs", n, "advantages", advantages.size());
  const Batch batch{log_probs, rollout_log_probs, sequences, mask};
  OffPolicyMetrics metrics;
  measure_tokens(batch, metrics);
  measure_sequences(batch, metrics);
  raw_weights(batch, params, weights, metrics);
  if (params.level != WeightLevel::none) {
    bound_weights(batch, params, weights);
    if (params.batch_normalize) normalize_weights(batch, params.level, weights);
  }
  for (std::size_t i = 0; i < n; ++i) kept[i] = mask.empty() || mask[i] != 0 ? 1 : 0;
  for (const Rule& rule : params.rules) reject(batch, rule, kept);
  if (opsm) reject_opsm(batch, advantages, params.opsm_delta, kept);
  measure_rejected(batch, kept, metrics);
  return metrics;
}

}  // namespace troupe
