#include "algorithms/advantages/advantages.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "algorithms/common/moments.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/algorithms/advantages/advantage_oracles.h"
#include "tests/algorithms/common/tokens.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

void check_equal(const std::vector<float>& got, const TokenTable& want) {
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
        const RandomSequences batch(shape.sequences, shape.longest, shape.groups, ++seed, padded, gaps);
        f(batch, AdvantageOracle{batch});
      }
}

// Runs an estimator on every batch and compares the advantages, and the returns if they differ from them, with `want`.
template <class F>
void check_against(std::string_view name, const EstimatorSettings& settings, F want) {
  for_each_batch([&](const RandomSequences& batch, const AdvantageOracle& oracle) {
    const Estimate got = run_estimator(name, batch.input(), settings);
    check_equal(got.advantages, want(oracle));
    check_equal(got.returns, want(oracle));
  });
}

}  // namespace

TEST_CASE("advantages: gae skips masked tokens, whitens the advantages and does not whiten the returns") {
  for_each_batch([](const RandomSequences& batch, const AdvantageOracle& o) {
    const auto raw = o.per_token(
        [&](std::size_t sequence, std::size_t t) { return o.m(sequence, t) ? o.gae(sequence, t, .97, .9) : 0.0; });
    const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) {
      return o.m(sequence, t) ? raw[sequence][t] + double{batch.values[o.at(sequence, t)]} : 0.0;
    });
    const EstimatorSettings settings{{"gamma", .97}, {"lam", .9}};
    const Estimate whitened = run_estimator("gae", batch.input(), settings);
    check_equal(whitened.advantages, o.whitened(raw));
    check_equal(whitened.returns, returns);
    check_equal(run_estimator("gae", batch.input(), {{"gamma", .97}, {"lambda", .9}, {"whiten", false}}).advantages,
                raw);
  });
}

// github.com/volcengine/verl
TEST_CASE("advantages: gae can carry the next advantage past masked tokens, as in verl") {
  for_each_batch([](const RandomSequences& batch, const AdvantageOracle& o) {
    const EstimatorSettings settings{{"gamma", .9}, {"lam", .8}, {"whiten", false}, {"outside", "carry"}};
    const Estimate got = run_estimator("gae", batch.input(), settings);
    const auto want = o.per_token([&](std::size_t sequence, std::size_t t) { return o.gae(sequence, t, .9, .8); });
    check_equal(got.advantages, want);
    check_equal(got.returns, o.per_token([&](std::size_t sequence, std::size_t t) {
      return want[sequence][t] + double{batch.values[o.at(sequence, t)]};
    }));
  });
}

TEST_CASE("advantages: gae of one unmasked token or of none is 0") {
  RandomSequences one(1, 1, 1, 3, true, 0.0);
  CHECK(run_estimator("gae", one.input()).advantages == std::vector<float>{0});
  one.mask = {0};
  CHECK(run_estimator("gae", one.input()).advantages == std::vector<float>{0});
}

TEST_CASE("advantages: grpo standardizes scores within a group; a single sequence keeps its score") {
  check_against("grpo", {}, [](const AdvantageOracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      return o.alone(sequence) ? o.score(sequence) / (1 + 1e-6)
                               : (o.score(sequence) - o.mean(sequence)) / (o.deviation(sequence) + 1e-6);
    });
  });
}

TEST_CASE("advantages: dr_grpo is grpo without division by the standard deviation") {
  const auto want = [](const AdvantageOracle& o) {
    return o.broadcast(
        [&](std::size_t sequence) { return o.score(sequence) - (o.alone(sequence) ? 0.0 : o.mean(sequence)); });
  };
  check_against("dr_grpo", {}, want);
  check_against("grpo", {{"norm_adv_by_std_in_grpo", false}}, want);
}

TEST_CASE("advantages: grpo_vectorized bounds the variance from below") {
  check_against("grpo_vectorized", {{"epsilon", .5}}, [](const AdvantageOracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      if (o.alone(sequence)) return o.score(sequence) / 1.5;
      return (o.score(sequence) - o.mean(sequence)) /
             (std::sqrt(std::max(std::pow(o.deviation(sequence), 2), .5)) + .5);
    });
  });
}

TEST_CASE("advantages: equal scores give grpo advantages of 0, with and without the variance bound") {
  RandomSequences batch(4, 1, 1, 5, true, 0.0);
  batch.rewards.assign(4, 0.3f);
  for (const char* name : {"grpo", "grpo_vectorized", "dr_grpo", "rloo", "grpo_passk", "opo", "gpg"})
    for (const float x : run_estimator(name, batch.input()).advantages) CHECK(x == 0);
}

TEST_CASE("advantages: grpo_passk rewards only the best sequence, by its lead over the second") {
  RandomSequences batch(5, 1, 1, 5, true, 0.0);
  batch.groups = {7, 9, 7, 9, 7};
  batch.rewards = {1, 5, 4, 5, 2.5f};
  const double deviation = AdvantageOracle{batch}.deviation(0);
  const Estimate got = run_estimator("grpo_passk", batch.input());
  CHECK(got.advantages[2] == doctest::Approx(1.5 / (deviation + 1e-6)));
  for (const std::size_t i : {0u, 1u, 3u, 4u}) CHECK(got.advantages[i] == 0);
  CHECK(run_estimator("grpo_passk", batch.input(), {{"norm_adv_by_std_in_grpo", false}}).advantages[2] ==
        doctest::Approx(1.5));
}

TEST_CASE("advantages: grpo_passk rejects a group of one and names its sequence") {
  RandomSequences batch(3, 1, 1, 5, true, 0.0);
  batch.groups = {1, 2, 1};
  CHECK_THROWS_WITH_AS(run_estimator("grpo_passk", batch.input()),
                       "groups: sequence 1 is alone in its group, grpo_passk needs at least 2 sequences in each",
                       ConfigError);
}

TEST_CASE("advantages: rloo uses the mean of the others; a single sequence gets 0 or, as an option, its score") {
  const auto others = [](const AdvantageOracle& o, std::size_t sequence) {
    double sum = 0;
    for (const std::size_t peer : o.peers(sequence)) sum += peer == sequence ? 0 : o.score(peer);
    return o.score(sequence) - sum / static_cast<double>(o.peers(sequence).size() - 1);
  };
  for (const char* name : {"rloo", "rloo_vectorized"})
    check_against(name, {}, [&](const AdvantageOracle& o) {
      return o.broadcast([&](std::size_t sequence) { return o.alone(sequence) ? 0.0 : others(o, sequence); });
    });
  check_against("rloo", {{"singleton", "score"}}, [&](const AdvantageOracle& o) {
    return o.broadcast(
        [&](std::size_t sequence) { return o.alone(sequence) ? o.score(sequence) : others(o, sequence); });
  });
}

TEST_CASE("advantages: opo weights the baseline by length") {
  check_against("opo", {}, [](const AdvantageOracle& o) {
    return o.broadcast([&](std::size_t sequence) {
      double top = 0, bottom = 0;
      for (const std::size_t peer : o.peers(sequence)) top += o.tokens(peer) * o.score(peer), bottom += o.tokens(peer);
      return o.score(sequence) - (o.alone(sequence) || bottom == 0 ? 0.0 : top / bottom);
    });
  });
}

TEST_CASE("advantages: gpg scales by the fraction of sequences with a score") {
  const auto want = [](double norm) {
    return [norm](const AdvantageOracle& o) {
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
  RandomSequences batch(4, 1, 1, 5, true, 0.0);
  batch.rewards = {0, 1, 0, 1};
  CHECK(run_estimator("gpg", batch.input()).advantages == std::vector<float>{-1, 1, -1, 1});
}

TEST_CASE("advantages: reinforce_plus_plus_baseline whitens the centered score over tokens") {
  check_against("reinforce_plus_plus_baseline", {}, [](const AdvantageOracle& o) {
    return o.whitened(o.broadcast(
        [&](std::size_t sequence) { return o.score(sequence) - (o.alone(sequence) ? 0.0 : o.mean(sequence)); }));
  });
}

TEST_CASE("advantages: reinforce_plus_plus ignores rewards after a masked token unless reset_at_mask is false") {
  for (const bool reset : {true, false})
    for_each_batch([&](const RandomSequences& batch, const AdvantageOracle& o) {
      const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) {
        double sum = 0, factor = 1;
        for (std::size_t u = t; u < o.length(sequence); ++u) {
          if (reset && u > t && !o.m(sequence, u)) break;
          sum += factor * o.r(sequence, u);
          factor *= .9;
        }
        return sum;
      });
      const Estimate got =
          run_estimator("reinforce_plus_plus", batch.input(), {{"gamma", .9}, {"reset_at_mask", reset}});
      check_equal(got.returns, returns);
      check_equal(got.advantages, o.whitened(returns));
    });
}

TEST_CASE("advantages: remax subtracts the reward of the greedy answer from the reward to go") {
  for_each_batch([](const RandomSequences& batch, const AdvantageOracle& o) {
    const auto returns = o.per_token([&](std::size_t sequence, std::size_t t) { return o.to_go(sequence, t); });
    const Estimate zero = run_estimator("remax", batch.input()),
                   carry = run_estimator("remax", batch.input(), {{"outside", "carry"}});
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
        for_each_batch([&](const RandomSequences& batch, const AdvantageOracle& o) {
          AdvantageInput in = batch.input();
          if (!importance) in.rollout_is_weights = {};
          const Estimate got = run_estimator(compact ? "tir_optimal_token_baseline" : "optimal_token_baseline", in,
                                             {{"handle_zero_tail", cut}});
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
