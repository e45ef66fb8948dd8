#pragma once
// Batches of sequences, and plain-loop float64 oracles of the estimators.

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "algorithms/advantages/advantages.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/algorithms/common/tokens.h"

namespace troupe::test {

using TokenTable = std::vector<std::vector<double>>;  // [B][tokens of the sequence b]

// A random batch of sequences of different lengths, including empty padded ones, with gaps in the mask.
struct RandomSequences {
  std::vector<int64_t> offsets{0}, groups;
  std::vector<float> rewards, values, baselines, old_log_probs, sum_pi_squared, weights;
  std::vector<uint8_t> mask;

  RandomSequences(int64_t sequences, int64_t longest, int64_t group_count, uint64_t seed, bool padded = false,
                  double gaps = 0.25) {
    Rng rng(derive_key(seed, "batch"));
    for (int64_t sequence = 0; sequence < sequences; ++sequence) {
      const auto length = padded ? longest : static_cast<int64_t>(rng.below(static_cast<uint64_t>(longest) + 1));
      offsets.push_back(offsets.back() + length);
      groups.push_back(static_cast<int64_t>(rng.below(static_cast<uint64_t>(group_count))) * 1000 - 3);
      baselines.push_back(rng.normal());
    }
    for (int64_t i = 0; i < offsets.back(); ++i) {
      rewards.push_back(rng.normal());
      values.push_back(rng.normal());
      old_log_probs.push_back(-2 * rng.uniform());
      sum_pi_squared.push_back(rng.uniform());
      weights.push_back(0.5f + rng.uniform());
      mask.push_back(rng.uniform_double() >= gaps);
    }
  }

  int64_t sequences() const { return static_cast<int64_t>(groups.size()); }
  bool counts(std::size_t i) const { return mask.empty() || mask[i] != 0; }

  AdvantageInput input() const {
    AdvantageInput in;
    in.sequences = TokenSequences(offsets);
    in.rewards = rewards;
    in.mask = mask;
    in.groups = groups;
    in.values = values;
    in.baselines = baselines;
    in.old_log_probs = old_log_probs;
    in.sum_pi_squared = sum_pi_squared;
    in.rollout_is_weights = weights;
    return in;
  }

  // Writes `x` wherever the mask is 0.
  void poison(float x) {
    for (std::size_t i = 0; i < mask.size(); ++i)
      if (!mask[i]) rewards[i] = values[i] = old_log_probs[i] = sum_pi_squared[i] = weights[i] = x;
  }
};

struct Estimate {
  std::vector<float> advantages, returns;
};

using EstimatorSettings = std::map<std::string, ParameterValue>;

inline Estimate run_estimator(std::string_view name, const AdvantageInput& in, const EstimatorSettings& settings = {}) {
  const AdvantageEntry& entry = find_advantage(name);
  ParameterValues parameters(entry.parameters);
  for (const auto& [key, value] : settings) parameters.set("test", key, value);
  Estimate out{std::vector<float>(in.rewards.size(), kNaN), std::vector<float>(in.rewards.size(), kNaN)};
  estimate_advantages(entry, in, parameters, {out.advantages, out.returns});
  return out;
}

// --- The oracle: one sequence, one group, one token at a time, in double.

struct AdvantageOracle {
  const RandomSequences& b;

  std::size_t sequences() const { return b.groups.size(); }
  std::size_t length(std::size_t sequence) const {
    return static_cast<std::size_t>(b.offsets[sequence + 1] - b.offsets[sequence]);
  }
  std::size_t at(std::size_t sequence, std::size_t t) const {
    return static_cast<std::size_t>(b.offsets[sequence]) + t;
  }
  bool m(std::size_t sequence, std::size_t t) const { return b.counts(at(sequence, t)); }
  double r(std::size_t sequence, std::size_t t) const {
    return m(sequence, t) ? double{b.rewards[at(sequence, t)]} : 0.0;
  }

  double score(std::size_t sequence) const {
    double sum = 0;
    for (std::size_t t = 0; t < length(sequence); ++t) sum += r(sequence, t);
    return sum;
  }
  double tokens(std::size_t sequence) const {
    double sum = 0;
    for (std::size_t t = 0; t < length(sequence); ++t) sum += m(sequence, t);
    return sum;
  }
  std::vector<std::size_t> peers(std::size_t sequence) const {
    std::vector<std::size_t> out;
    for (std::size_t other = 0; other < sequences(); ++other)
      if (b.groups[other] == b.groups[sequence] && tokens(other) > 0) out.push_back(other);
    return out;
  }
  double mean(std::size_t sequence) const {
    double sum = 0;
    for (const std::size_t peer : peers(sequence)) sum += score(peer);
    return sum / static_cast<double>(peers(sequence).size());
  }
  double deviation(std::size_t sequence) const {
    double sum = 0;
    for (const std::size_t peer : peers(sequence)) sum += std::pow(score(peer) - mean(sequence), 2);
    return std::sqrt(sum / static_cast<double>(peers(sequence).size() - 1));
  }
  bool alone(std::size_t sequence) const { return peers(sequence).size() == 1; }
  // With the sequences that have no unmasked token.
  bool alone_with_masked(std::size_t sequence) const { return std::ranges::count(b.groups, b.groups[sequence]) == 1; }

  // Writes `per_sequence` to the unmasked tokens.
  template <class F>
  TokenTable broadcast(F per_sequence) const {
    TokenTable out;
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence) {
      out.emplace_back();
      for (std::size_t t = 0; t < length(sequence); ++t)
        out.back().push_back(m(sequence, t) ? per_sequence(sequence) : 0.0);
    }
    return out;
  }
  template <class F>
  TokenTable per_token(F f) const {
    TokenTable out;
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence) {
      out.emplace_back();
      for (std::size_t t = 0; t < length(sequence); ++t) out.back().push_back(f(sequence, t));
    }
    return out;
  }
  // Unbiased, over all unmasked tokens; masked ones become 0.
  TokenTable whitened(const TokenTable& x) const {
    double n = 0, sum = 0, squares = 0;
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence)
      for (std::size_t t = 0; t < length(sequence); ++t)
        if (m(sequence, t)) n += 1, sum += x[sequence][t];
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence)
      for (std::size_t t = 0; t < length(sequence); ++t)
        if (m(sequence, t)) squares += std::pow(x[sequence][t] - sum / n, 2);
    const double scale = n > 1 ? 1 / std::sqrt(squares / (n - 1) + 1e-8) : 1;
    return per_token(
        [&](std::size_t sequence, std::size_t t) { return m(sequence, t) ? (x[sequence][t] - sum / n) * scale : 0.0; });
  }
  // The advantage at the next unmasked token of the sequence, including this one, computed as a sum.
  double gae(std::size_t sequence, std::size_t t, double gamma, double lambda) const {
    std::vector<std::size_t> valid;
    for (std::size_t u = t; u < length(sequence); ++u)
      if (m(sequence, u)) valid.push_back(u);
    double sum = 0;
    for (std::size_t k = 0; k < valid.size(); ++k) {
      const double next = k + 1 < valid.size() ? double{b.values[at(sequence, valid[k + 1])]} : 0.0;
      const double delta = r(sequence, valid[k]) + gamma * next - double{b.values[at(sequence, valid[k])]};
      sum += std::pow(gamma * lambda, static_cast<double>(k)) * delta;
    }
    return sum;
  }
  double to_go(std::size_t sequence, std::size_t t) const {
    double sum = 0;
    for (std::size_t u = t; u < length(sequence); ++u) sum += r(sequence, u);
    return sum;
  }
  double weight(std::size_t sequence, std::size_t t, bool importance) const {
    double sum = 0;
    for (std::size_t u = 0; u <= t; ++u) {
      if (!m(sequence, u)) continue;
      const std::size_t i = at(sequence, u);
      const double rho = importance ? double{b.weights[i]} : 1.0;
      sum += (1 - 2 * std::exp(double{b.old_log_probs[i]}) + double{b.sum_pi_squared[i]}) * rho * rho;
    }
    return sum;
  }
  // The step of a token: its position, or the number of unmasked tokens before it.
  std::size_t step(std::size_t sequence, std::size_t t, bool compact) const {
    if (!compact) return t;
    std::size_t before = 0;
    for (std::size_t u = 0; u < t; ++u) before += m(sequence, u);
    return before;
  }
  double optimal(std::size_t sequence, std::size_t t, bool compact, bool cut, bool importance) const {
    const std::vector<std::size_t> others = peers(sequence);
    if (others.size() == 1) return to_go(sequence, t);
    std::vector<double> lengths;
    for (const std::size_t peer : others) lengths.push_back(tokens(peer));
    std::sort(lengths.rbegin(), lengths.rend());
    const bool longest = tokens(sequence) == lengths[0] && lengths[0] > lengths[1];
    if (cut && longest && static_cast<double>(step(sequence, t, compact)) >= lengths[1]) return to_go(sequence, t);
    double top = 0, bottom = 0;
    for (const std::size_t peer : others)
      for (std::size_t u = 0; u < length(peer); ++u) {
        if (!m(peer, u) || step(peer, u, compact) != step(sequence, t, compact)) continue;
        top += to_go(peer, u) * weight(peer, u, importance);
        bottom += weight(peer, u, importance);
      }
    return to_go(sequence, t) - top / (bottom + 1e-8);
  }
};

}  // namespace troupe::test
