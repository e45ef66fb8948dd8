#include "algorithms/advantages/advantages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <vector>

#include "algorithms/common/moments.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
using Table = std::vector<std::vector<double>>;  // [B][tokens of the sequence b]

// A random batch of sequences of different lengths, including empty padded ones, with gaps in the mask.
struct Batch {
  std::vector<int64_t> offsets{0}, groups;
  std::vector<float> rewards, values, baselines, old_log_probs, sum_pi_squared, weights;
  std::vector<uint8_t> mask;

  Batch(int64_t sequences, int64_t longest, int64_t group_count, uint64_t seed, bool padded = false,
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

struct Result {
  std::vector<float> advantages, returns;
};

using Settings = std::map<std::string, ParameterValue>;

Result run(std::string_view name, const AdvantageInput& in, const Settings& settings = {}) {
  const AdvantageEntry& entry = find_advantage(name);
  ParameterValues parameters(entry.parameters);
  for (const auto& [key, value] : settings) parameters.set("test", key, value);
  Result out{std::vector<float>(in.rewards.size(), kNaN), std::vector<float>(in.rewards.size(), kNaN)};
  estimate_advantages(entry, in, parameters, {out.advantages, out.returns});
  return out;
}

// --- The oracle: one sequence, one group, one token at a time, in double.

struct Oracle {
  const Batch& b;

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
  Table broadcast(F per_sequence) const {
    Table out;
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence) {
      out.emplace_back();
      for (std::size_t t = 0; t < length(sequence); ++t)
        out.back().push_back(m(sequence, t) ? per_sequence(sequence) : 0.0);
    }
    return out;
  }
  template <class F>
  Table per_token(F f) const {
    Table out;
    for (std::size_t sequence = 0; sequence < sequences(); ++sequence) {
      out.emplace_back();
      for (std::size_t t = 0; t < length(sequence); ++t) out.back().push_back(f(sequence, t));
    }
    return out;
  }
  // Unbiased, over all unmasked tokens; masked ones become 0.
  Table whitened(const Table& x) const {
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

void check_equal(const std::vector<float>& got, const Table& want) {
  std::size_t at = 0;
  double largest = 0;
  for (const auto& sequence : want)
    for (const double x : sequence) largest = std::max(largest, std::abs(x));
  for (const auto& sequence : want)
    for (const double x : sequence) {
      REQUIRE(at < got.size());
      REQUIRE(std::abs(got[at++] - x) <= 1e-5 + 2e-5 * largest);
    }
  REQUIRE(at == got.size());
}

// Number of sequences, longest sequence, number of groups: empty, single and ordinary ones.
struct Shape {
  int64_t sequences, longest, groups;
};
const Shape kShapes[] = {{0, 5, 1}, {1, 0, 1}, {1, 1, 1}, {1, 7, 1}, {3, 9, 3}, {8, 12, 2}, {20, 17, 6}, {40, 33, 40}};

template <class F>
void for_each_batch(F f) {
  uint64_t seed = 1;
  for (const Shape& shape : kShapes)
    for (const bool padded : {false, true})
      for (const double gaps : {0.0, 0.25, 1.0}) {
        const Batch batch(shape.sequences, shape.longest, shape.groups, ++seed, padded, gaps);
        f(batch, Oracle{batch});
      }
}

// Runs an estimator on every batch and compares the advantages, and the returns if they differ from them, with `want`.
template <class F>
void check_against(std::string_view name, const Settings& settings, F want) {
  for_each_batch([&](const Batch& batch, const Oracle& oracle) {
    const Result got = run(name, batch.input(), settings);
    check_equal(got.advantages, want(oracle));
    check_equal(got.returns, want(oracle));
  });
}

// Runs every estimator on this batch; grpo_passk only if no sequence is alone in its group.
template <class F>
void for_each_estimator(const Batch& batch, F f) {
  for (const AdvantageEntry& entry : advantage_table()) {
    bool alone = false;
    for (std::size_t sequence = 0; sequence < batch.groups.size(); ++sequence)
      alone = alone || Oracle{batch}.alone_with_masked(sequence);
    if (entry.function != nullptr && (entry.name != "grpo_passk" || !alone)) f(entry);
  }
}

}  // namespace

TEST_CASE("advantages: gae skips masked tokens, whitens the advantages and does not whiten the returns") {
  for_each_batch([](const Batch& batch, const Oracle& o) {
    const auto raw = o.per_token(
        [&](std::size_t sequence, std::size_t t) { return o.m(sequence, t) ? o.gae(sequence, t, .97, .9) : 0.0; });
    const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) {
      return o.m(sequence, t) ? raw[sequence][t] + double{batch.values[o.at(sequence, t)]} : 0.0;
    });
    const Settings settings{{"gamma", .97}, {"lam", .9}};
    const Result whitened = run("gae", batch.input(), settings);
    check_equal(whitened.advantages, o.whitened(raw));
    check_equal(whitened.returns, returns);
    check_equal(run("gae", batch.input(), {{"gamma", .97}, {"lambda", .9}, {"whiten", false}}).advantages, raw);
  });
}

// github.com/volcengine/verl
TEST_CASE("advantages: gae can carry the next advantage past masked tokens, as in verl") {
  for_each_batch([](const Batch& batch, const Oracle& o) {
    const Settings settings{{"gamma", .9}, {"lam", .8}, {"whiten", false}, {"outside", "carry"}};
    const Result got = run("gae", batch.input(), settings);
    const auto want = o.per_token([&](std::size_t sequence, std::size_t t) { return o.gae(sequence, t, .9, .8); });
    check_equal(got.advantages, want);
    check_equal(got.returns, o.per_token([&](std::size_t sequence, std::size_t t) {
      return want[sequence][t] + double{batch.values[o.at(sequence, t)]};
    }));
  });
}

TEST_CASE("advantages: gae of one unmasked token or of none is 0") {
  Batch one(1, 1, 1, 3, true, 0.0);
  CHECK(run("gae", one.input()).advantages == std::vector<float>{0});
  one.mask = {0};
  CHECK(run("gae", one.input()).advantages == std::vector<float>{0});
}

TEST_CASE("advantages: grpo standardizes scores within a group; a single sequence keeps its score") {
  check_against("grpo", {}, [](const Oracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      return o.alone(sequence) ? o.score(sequence) / (1 + 1e-6)
                               : (o.score(sequence) - o.mean(sequence)) / (o.deviation(sequence) + 1e-6);
    });
  });
}

TEST_CASE("advantages: dr_grpo is grpo without division by the standard deviation") {
  const auto want = [](const Oracle& o) {
    return o.broadcast(
        [&](std::size_t sequence) { return o.score(sequence) - (o.alone(sequence) ? 0.0 : o.mean(sequence)); });
  };
  check_against("dr_grpo", {}, want);
  check_against("grpo", {{"norm_adv_by_std_in_grpo", false}}, want);
}

TEST_CASE("advantages: grpo_vectorized bounds the variance from below") {
  check_against("grpo_vectorized", {{"epsilon", .5}}, [](const Oracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      if (o.alone(sequence)) return o.score(sequence) / 1.5;
      return (o.score(sequence) - o.mean(sequence)) /
             (std::sqrt(std::max(std::pow(o.deviation(sequence), 2), .5)) + .5);
    });
  });
}

TEST_CASE("advantages: equal scores give grpo advantages of 0, with and without the variance bound") {
  Batch batch(4, 1, 1, 5, true, 0.0);
  batch.rewards.assign(4, 0.3f);
  for (const char* name : {"grpo", "grpo_vectorized", "dr_grpo", "rloo", "grpo_passk", "opo", "gpg"})
    for (const float x : run(name, batch.input()).advantages) CHECK(x == 0);
}

TEST_CASE("advantages: grpo_passk rewards only the best sequence, by its lead over the second") {
  Batch batch(5, 1, 1, 5, true, 0.0);
  batch.groups = {7, 9, 7, 9, 7};
  batch.rewards = {1, 5, 4, 5, 2.5f};
  const double deviation = Oracle{batch}.deviation(0);
  const Result got = run("grpo_passk", batch.input());
  CHECK(got.advantages[2] == doctest::Approx(1.5 / (deviation + 1e-6)));
  for (const std::size_t i : {0u, 1u, 3u, 4u}) CHECK(got.advantages[i] == 0);
  CHECK(run("grpo_passk", batch.input(), {{"norm_adv_by_std_in_grpo", false}}).advantages[2] == doctest::Approx(1.5));
}

TEST_CASE("advantages: grpo_passk rejects a group of one and names its sequence") {
  Batch batch(3, 1, 1, 5, true, 0.0);
  batch.groups = {1, 2, 1};
  CHECK_THROWS_WITH_AS(run("grpo_passk", batch.input()),
                       "groups: sequence 1 is alone in its group, grpo_passk needs at least 2 sequences in each",
                       ConfigError);
}

TEST_CASE("advantages: rloo uses the mean of the others; a single sequence gets 0 or, as an option, its score") {
  const auto others = [](const Oracle& o, std::size_t sequence) {
    double sum = 0;
    for (const std::size_t peer : o.peers(sequence)) sum += peer == sequence ? 0 : o.score(peer);
    return o.score(sequence) - sum / static_cast<double>(o.peers(sequence).size() - 1);
  };
  for (const char* name : {"rloo", "rloo_vectorized"})
    check_against(name, {}, [&](const Oracle& o) {
      return o.broadcast([&](std::size_t sequence) { return o.alone(sequence) ? 0.0 : others(o, sequence); });
    });
  check_against("rloo", {{"singleton", "score"}}, [&](const Oracle& o) {
    return o.broadcast(
        [&](std::size_t sequence) { return o.alone(sequence) ? o.score(sequence) : others(o, sequence); });
  });
}

TEST_CASE("advantages: opo weights the baseline by length") {
  check_against("opo", {}, [](const Oracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      double top = 0, bottom = 0;
      for (const std::size_t peer : o.peers(sequence)) top += o.tokens(peer) * o.score(peer), bottom += o.tokens(peer);
      return o.score(sequence) - (o.alone(sequence) || bottom == 0 ? 0.0 : top / bottom);
    });
  });
}

TEST_CASE("advantages: gpg scales by the fraction of sequences with a score") {
  const auto want = [](double norm) {
    return [norm](const Oracle& o) {
      double some = 0, all = 0;
      for (std::size_t sequence = 0; sequence < o.sequences(); ++sequence) {
        some += o.score(sequence) != 0;
        all += o.tokens(sequence) > 0;
      }
      const double alpha = all / std::max(some, 1.0);
      return o.broadcast([&](std::size_t sequence) {
        return alpha * (o.score(sequence) - (o.alone(sequence) ? 0.0 : o.mean(sequence))) / norm;
      });
    };
  };
  check_against("gpg", {}, want(1));
  check_against("gpg", {{"f_norm", 2.5}}, want(2.5));
  Batch batch(4, 1, 1, 5, true, 0.0);
  batch.rewards = {0, 1, 0, 1};
  CHECK(run("gpg", batch.input()).advantages == std::vector<float>{-1, 1, -1, 1});
}

TEST_CASE("advantages: reinforce_plus_plus_baseline whitens the centered score over tokens") {
  check_against("reinforce_plus_plus_baseline", {}, [](const Oracle& o) {
    return o.whitened(o.broadcast(
        [&](std::size_t sequence) { return o.score(sequence) - (o.alone(sequence) ? 0.0 : o.mean(sequence)); }));
  });
}

TEST_CASE("advantages: reinforce_plus_plus ignores rewards after a masked token unless reset_at_mask is false") {
  for (const bool reset : {true, false})
    for_each_batch([&](const Batch& batch, const Oracle& o) {
      const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) {
        double sum = 0, factor = 1;
        for (std::size_t u = t; u < o.length(sequence); ++u) {
          if (reset && u > t && !o.m(sequence, u)) break;
          sum += factor * o.r(sequence, u);
          factor *= .9;
        }
        return sum;
      });
      const Result got = run("reinforce_plus_plus", batch.input(), {{"gamma", .9}, {"reset_at_mask", reset}});
      check_equal(got.returns, returns);
      check_equal(got.advantages, o.whitened(returns));
    });
}

TEST_CASE("advantages: remax subtracts the reward of the greedy answer from the reward to go") {
  for_each_batch([](const Batch& batch, const Oracle& o) {
    const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) { return o.to_go(sequence, t); });
    const Result zero = run("remax", batch.input()), carry = run("remax", batch.input(), {{"outside", "carry"}});
    check_equal(zero.returns, returns);
    check_equal(zero.advantages, o.per_token([&](std::size_t sequence, std::size_t t) {
      return o.m(sequence, t) ? returns[sequence][t] - double{batch.baselines[sequence]} : 0.0;
    }));
    check_equal(carry.advantages, o.per_token([&](std::size_t sequence, std::size_t t) {
      return returns[sequence][t] - (o.m(sequence, t) ? double{batch.baselines[sequence]} : 0.0);
    }));
  });
}

TEST_CASE("advantages: the optimal baselines, by position and by unmasked token, with and without the tail") {
  for (const bool compact : {false, true})
    for (const bool cut : {false, true})
      for (const bool importance : {false, true})
        for_each_batch([&](const Batch& batch, const Oracle& o) {
          AdvantageInput in = batch.input();
          if (!importance) in.rollout_is_weights = {};
          const Result got =
              run(compact ? "tir_optimal_token_baseline" : "optimal_token_baseline", in, {{"handle_zero_tail", cut}});
          check_equal(got.returns,
                      o.per_token([&](std::size_t sequence, std::size_t t) { return o.to_go(sequence, t); }));
          check_equal(got.advantages, o.per_token([&](std::size_t sequence, std::size_t t) {
            return o.m(sequence, t) ? o.optimal(sequence, t, compact, cut, importance) : 0.0;
          }));
        });
}

TEST_CASE("advantages: only the multi-turn baseline cuts off the tail by default") {
  const auto tail = [](std::string_view name) {
    const AdvantageEntry& entry = find_advantage(name);
    return ParameterValues(entry.parameters).flag("handle_zero_tail");
  };
  CHECK_FALSE(tail("optimal_token_baseline"));
  CHECK(tail("tir_optimal_token_baseline"));
}

TEST_CASE("advantages: values at masked tokens do not affect results") {
  Batch batch(12, 9, 3, 17);
  for (std::size_t sequence = 0; sequence < 12; ++sequence) batch.groups[sequence] = static_cast<int64_t>(sequence % 3);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    const Result want = run(entry.name, batch.input());
    for (const float x : {kNaN, std::numeric_limits<float>::infinity(), -1e30f}) {
      Batch poisoned = batch;
      poisoned.poison(x);
      const Result got = run(entry.name, poisoned.input());
      INFO(entry.name);
      CHECK(got.advantages == want.advantages);
      CHECK(got.returns == want.returns);
    }
  });
}

TEST_CASE("advantages: a padded batch and the same sequences without padding give equal results") {
  const Batch ragged(9, 8, 3, 23);
  Batch padded = ragged;
  padded.rewards.assign(9 * 8, kNaN);
  padded.values = padded.old_log_probs = padded.sum_pi_squared = padded.weights = padded.rewards;
  padded.mask.assign(9 * 8, 0);
  std::vector<std::size_t> place;
  for (std::size_t sequence = 0; sequence < 9; ++sequence)
    for (int64_t t = 0; t < ragged.offsets[sequence + 1] - ragged.offsets[sequence]; ++t)
      place.push_back(sequence * 8 + static_cast<std::size_t>(t));
  for (std::size_t i = 0; i < place.size(); ++i) {
    padded.rewards[place[i]] = ragged.rewards[i];
    padded.values[place[i]] = ragged.values[i];
    padded.old_log_probs[place[i]] = ragged.old_log_probs[i];
    padded.sum_pi_squared[place[i]] = ragged.sum_pi_squared[i];
    padded.weights[place[i]] = ragged.weights[i];
    padded.mask[place[i]] = ragged.mask[i];
  }
  AdvantageInput in = padded.input();
  in.sequences = TokenSequences(9, 8);
  for_each_estimator(ragged, [&](const AdvantageEntry& entry) {
    INFO(entry.name);
    const Result want = run(entry.name, ragged.input()), got = run(entry.name, in);
    for (std::size_t i = 0; i < place.size(); ++i)
      REQUIRE(got.advantages[place[i]] == doctest::Approx(want.advantages[i]).epsilon(1e-6));
  });
}

TEST_CASE("advantages: group labels and the order of sequences do not affect results") {
  const Batch batch(12, 5, 3, 31, true);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    Batch renamed = batch;
    for (int64_t& group : renamed.groups) group = 50 - 7 * group;
    INFO(entry.name);
    CHECK(run(entry.name, renamed.input()).advantages == run(entry.name, batch.input()).advantages);
  });
}

TEST_CASE("advantages: count_masked_rewards includes rewards at masked tokens") {
  Batch batch(2, 2, 1, 3, true, 0.0);
  batch.rewards = {1, 2, 4, 8};
  batch.mask = {1, 0, 1, 0};
  CHECK(run("dr_grpo", batch.input()).advantages[0] == doctest::Approx(batch.groups[0] == batch.groups[1] ? -1.5 : 1));
  batch.groups = {0, 0};
  CHECK(run("dr_grpo", batch.input(), {{"count_masked_rewards", true}}).advantages ==
        std::vector<float>{-4.5, 0, 4.5, 0});
}

TEST_CASE("advantages: a sequence without unmasked tokens is left out of its group, unless its rewards count") {
  Batch batch(4, 2, 1, 3, true, 0.0);
  batch.rewards = {0, 1, 0, 0, 0, 1, 0, 7};
  batch.mask = {1, 1, 1, 1, 1, 1, 0, 0};
  batch.groups = {0, 0, 0, 0};
  Batch without = batch;
  without.offsets.pop_back();
  without.groups.pop_back();
  without.baselines.pop_back();
  for (auto* values :
       {&without.rewards, &without.values, &without.old_log_probs, &without.sum_pi_squared, &without.weights})
    values->resize(6);
  without.mask.resize(6);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    INFO(entry.name);
    std::vector<float> want = run(entry.name, without.input()).advantages;
    want.resize(8, 0.0f);
    CHECK(run(entry.name, batch.input()).advantages == want);
  });
  const auto counted = run("dr_grpo", batch.input(), {{"count_masked_rewards", true}}).advantages;
  CHECK(counted == std::vector<float>{-1.25, -1.25, -2.25, -2.25, -1.25, -1.25, 0, 0});
}

TEST_CASE("advantages: grpo_passk gives 0 to a sequence whose group has no other unmasked one") {
  Batch batch(2, 1, 1, 3, true, 0.0);
  batch.rewards = {5, 9};
  batch.mask = {1, 0};
  batch.groups = {0, 0};
  CHECK(run("grpo_passk", batch.input()).advantages == std::vector<float>{0, 0});
}

TEST_CASE("advantages: an empty mask array means all tokens") {
  Batch batch(6, 7, 2, 41, true, 0.0);
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    AdvantageInput in = batch.input();
    in.mask = {};
    INFO(entry.name);
    CHECK(run(entry.name, in).advantages == run(entry.name, batch.input()).advantages);
  });
}

TEST_CASE("advantages: a NaN in an unmasked reward appears in the result") {
  Batch batch(6, 4, 1, 43, true, 0.0);
  batch.rewards[0] = kNaN;
  for_each_estimator(batch, [&](const AdvantageEntry& entry) {
    const std::vector<float> got = run(entry.name, batch.input()).advantages;
    INFO(entry.name);
    CHECK(std::any_of(got.begin(), got.end(), [](float x) { return std::isnan(x); }));
  });
}

TEST_CASE("advantages: every entry is complete and its names are unique") {
  std::set<std::string_view> names;
  for (const AdvantageEntry& entry : advantage_table()) {
    CHECK(names.insert(entry.name).second);
    for (const std::string_view alias : entry.aliases) {
      CHECK(names.insert(alias).second);
      CHECK(find_advantage(alias).name == entry.name);
    }
    CHECK(&find_advantage(entry.name) == &entry);
    // The entry's settings for a run are consistent.
    const EstimatorRun& run = entry.run;
    CHECK_FALSE((run.sequences && entry.function == nullptr));
    CHECK_FALSE((run.sequences && !run.columns));
    CHECK((run.advantages == ComputedBy::trainer) == run.columns);
    CHECK_FALSE((run.advantages == ComputedBy::worker && run.returns == ComputedBy::trainer));
    if (run.sequences && (entry.needs & kNeedsPolicy)) CHECK(run.start);
    for (const Setting& parameter : entry.parameters) {
      CHECK_FALSE(parameter.help.empty());
      CHECK_FALSE(parameter.source.empty());
      ParameterValues values(entry.parameters);
      values.set("test", parameter.key, default_value(parameter));
    }
  }
}

TEST_CASE("advantages: unknown names, unknown parameters and bad values are rejected with a suggestion") {
  CHECK_THROWS_WITH_AS(find_advantage("grop"),
                       doctest::Contains("algorithm.advantage: unknown name \"grop\", did you mean \"grpo\"?"),
                       ConfigError);
  CHECK_THROWS_WITH_AS(find_advantage("rloo_vectorised"), doctest::Contains("did you mean \"rloo_vectorized\"?"),
                       ConfigError);
  CHECK_THROWS_AS(find_advantage("GRPO"), ConfigError);
  const Batch batch(2, 2, 1, 3, true);
  const auto refuses = [&](std::string_view name, std::string_view key, const ParameterValue& value, const char* part) {
    ParameterValues values(find_advantage(name).parameters);
    CHECK_THROWS_WITH_AS(values.set("advantages", key, value), doctest::Contains(part), ConfigError);
  };
  refuses("gae", "gama", 0.5, "gamma");
  refuses("gae", "gamma", -0.1, "advantages.gamma: -0.1 is out of range, expected a number in [0, 1]");
  refuses("gae", "lam", 1.5, "expected a number in [0, 1]");
  refuses("gae", "gamma", double{kNaN}, "expected a number in [0, 1]");
  refuses("gae", "whiten", 1.0, "expected true or false");
  refuses("gae", "outside", "none", "one of: zero, carry");
  refuses("gpg", "f_norm", 0.0, "above 0");
}

TEST_CASE("advantages: missing inputs and wrong sizes are rejected") {
  const Batch batch(4, 3, 2, 3, true, 0.0);
  const auto without = [&](std::string_view name, auto change) {
    AdvantageInput in = batch.input();
    change(in);
    run(name, in);
  };
  CHECK_THROWS_WITH_AS(without("grpo", [](auto& in) { in.groups = {}; }), "groups: missing, grpo needs it",
                       ConfigError);
  CHECK_THROWS_WITH_AS(without("gae", [](auto& in) { in.values = {}; }), "values: missing, gae needs it", ConfigError);
  CHECK_THROWS_WITH_AS(without("remax", [](auto& in) { in.baselines = {}; }), "baselines: missing, remax needs it",
                       ConfigError);
  CHECK_THROWS_AS(without("optimal_token_baseline", [](auto& in) { in.sum_pi_squared = {}; }), ConfigError);
  CHECK_THROWS_WITH_AS(without("vtrace", [](auto&) {}), "vtrace: not available as a function of token sequences",
                       ConfigError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.groups = in.groups.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("gae", [](auto& in) { in.values = in.values.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.mask = in.mask.first(3); }), InvariantError);
  CHECK_THROWS_AS(without("grpo", [](auto& in) { in.sequences = TokenSequences(5, 3); }), InvariantError);
}
