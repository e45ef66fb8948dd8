#include "models/learning/sequences.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "models/learning/minibatch.h"
#include "models/learning/rollout_weights.h"
#include "models/learning/sequence_advantages.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/models/learning/batches.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Rollouts with random ends of episodes and masked steps, staged as whole columns.
struct Staged {
  EnvSpec spec = discrete_spec();
  std::vector<std::shared_ptr<Rollout>> rollouts;
  std::unique_ptr<StagedSamples> samples;

  explicit Staged(uint64_t seed) {
    const auto policy = make_policy(small_config(), spec);
    SuperBatch batch;
    Rng rng(seed);
    for (int64_t r = 0; r < 3; ++r) {
      const int64_t steps = 1 + static_cast<int64_t>(rng.below(12)), columns = 1 + static_cast<int64_t>(rng.below(5));
      auto rollout = random_rollout(spec, *policy, steps, columns, seed + static_cast<uint64_t>(r));
      for (int64_t i = 0; i < steps * columns; ++i) {
        rollout->grid().terminated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.15f;
        rollout->grid().truncated.mutable_view<uint8_t>()[i] = rng.uniform() < 0.1f;
        rollout->grid().valid.mutable_view<uint8_t>()[i] = rng.uniform() < 0.9f;
      }
      std::vector<int32_t> chosen;
      for (int32_t c = 0; c < columns; ++c)
        if (rng.uniform() < 0.8f) chosen.push_back(c);
      rollouts.push_back(rollout);
      batch.parts.push_back({rollout, chosen});
    }
    const InputEncoder encoder(spec.observations, network_layout(small_config().model, spec).inputs);
    samples = std::make_unique<StagedSamples>(stage_samples(batch, spec, encoder, true));
  }
};

std::vector<int64_t> iota(int64_t n) {
  std::vector<int64_t> result(static_cast<size_t>(n));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

}  // namespace

TEST_CASE("sequences: every valid step is in exactly one sequence, in order of time, and no sequence crosses an end") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const Staged staged(seed);
    const StagedSamples& b = *staged.samples;
    const bool cut_is_end = seed % 2 == 0;
    const Sequences all = cut_sequences(b, cut_is_end);
    std::vector<int64_t> samples = all.samples;
    std::ranges::sort(samples);
    CHECK(samples == b.trained);
    const auto terminated = b.terminated.view<uint8_t>(), truncated = b.truncated.view<uint8_t>();
    for (int64_t i = 0; i < all.count(); ++i) {
      const auto sequence = all.samples_of(i);
      REQUIRE(!sequence.empty());
      const auto rollout = std::ranges::find_if(b.rollouts, [&](const StagedRollout& s) {
        return sequence[0] >= s.first_sample && sequence[0] < s.first_sample + s.steps * s.columns;
      });
      for (size_t t = 0; t + 1 < sequence.size(); ++t) {
        CHECK(sequence[t + 1] - sequence[t] == rollout->columns);
        CHECK_FALSE((terminated[sequence[t]] || truncated[sequence[t]]));
      }
      const int64_t last = sequence.back();
      CHECK(all.complete[i] == (terminated[last] || (cut_is_end && truncated[last])));
      // The sequence has the largest possible length.
      const int64_t next = last + rollout->columns;
      if (!terminated[last] && !truncated[last] && next < rollout->first_sample + rollout->steps * rollout->columns)
        CHECK(b.valid.view<uint8_t>()[next] == 0);
    }
    const Sequences complete = complete_sequences(all);
    CHECK(complete.count() == std::ranges::count(all.complete, 1));
    CHECK(std::ranges::count(complete.complete, 0) == 0);
  }
}

TEST_CASE("sequences: an epoch has each sequence once, and minibatches have nearly equal sizes") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Staged staged(seed);
    const Sequences all = cut_sequences(*staged.samples, false);
    const EpochOrder order = shuffled(all, seed);
    std::vector<int64_t> samples = order.indices;
    std::ranges::sort(samples);
    CHECK(samples == staged.samples->trained);
    CHECK(order.offsets.size() == all.offsets.size());
    int64_t longest = 0, total = static_cast<int64_t>(order.indices.size());
    for (int64_t i = 0; i < all.count(); ++i) longest = std::max<int64_t>(longest, all.samples_of(i).size());
    for (int64_t parts : {1, 2, 3, 7}) {
      int64_t at = 0, sequences = 0;
      for (const SampleRange& part : minibatches(order, parts)) {
        for (int64_t i = 0; i < part.size(); ++i) CHECK(part.indices[i] == order.indices[at + i]);
        at += part.size();
        CHECK(std::abs(part.size() - total / parts) <= longest + 1);
        int64_t inside = 0;
        for (const SampleRange& micro : micro_batches(part, 4)) {
          CHECK((micro.size() <= 4 || micro.offsets.size() == 2));
          CHECK(micro.offsets.back() - micro.offsets.front() == micro.size());
          for (int64_t i = 0; i < micro.size(); ++i) CHECK(micro.indices[i] == part.indices[inside + i]);
          inside += micro.size();
          sequences += static_cast<int64_t>(micro.offsets.size()) - 1;
        }
        CHECK(inside == part.size());
      }
      CHECK(at == total);
      CHECK(sequences == all.count());
    }
  }
}

TEST_CASE("minibatch: minibatches of single samples differ by at most one sample") {
  const std::vector<int64_t> samples = iota(10);
  const EpochOrder order = shuffled(samples, 3);
  std::vector<int64_t> sizes;
  for (const SampleRange& part : minibatches(order, 4)) sizes.push_back(part.size());
  CHECK(sizes == std::vector<int64_t>{2, 3, 2, 3});
  CHECK(micro_batches({order.indices, {}}, 4).size() == 3);
  CHECK(micro_batches({order.indices, {}}, 0).size() == 1);
}

TEST_CASE(
    "sequence advantages: outcome estimators compare sums of rewards, with gamma V(s') where no terminal state is") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Staged staged(seed);
    StagedSamples& b = *staged.samples;
    const Sequences all = cut_sequences(b, false);
    AlgorithmConfig config;
    config.advantage = "dr_grpo";
    const std::vector<int64_t> groups(static_cast<size_t>(all.count()), 0);
    const TokenAdvantages got =
        estimate_sequences(choose_algorithm(config), {.sequences = all, .groups = groups, .gamma = 0.9}, b);
    CHECK(got.per_sample == 1);
    std::vector<double> scores;
    for (int64_t i = 0; i < all.count(); ++i) {
      double score = 0;
      for (const int64_t sample : all.samples_of(i)) score += b.rewards.view<float>()[sample];
      if (!b.terminated.view<uint8_t>()[all.samples_of(i).back()])
        score += 0.9 * b.next_values.view<float>()[all.samples_of(i).back()];
      scores.push_back(score);
    }
    const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / std::max<double>(1, scores.size());
    for (int64_t i = 0; i < all.count(); ++i)
      for (const int64_t sample : all.samples_of(i)) {
        const double wanted = scores.size() == 1 ? scores[i] : scores[i] - mean;
        CHECK(got.values[sample] == doctest::Approx(wanted).epsilon(1e-4));
      }
  }
}

TEST_CASE("sequence advantages: the critic's value of the first state is ReMax's baseline") {
  Staged staged(5);
  StagedSamples& b = *staged.samples;
  const Sequences all = cut_sequences(b, true);
  AlgorithmConfig config;
  config.advantage = "remax";
  const std::vector<int64_t> groups(static_cast<size_t>(all.count()), 0);
  const TokenAdvantages got =
      estimate_sequences(choose_algorithm(config), {.sequences = all, .groups = groups, .gamma = 0.9}, b);
  for (int64_t i = 0; i < all.count(); ++i) {
    double to_go = all.complete[i] ? 0.0 : 0.9 * b.next_values.view<float>()[all.samples_of(i).back()];
    const auto samples = all.samples_of(i);
    for (size_t t = samples.size(); t-- > 0;) {
      to_go += b.rewards.view<float>()[samples[t]];
      CHECK(got.values[samples[t]] == doctest::Approx(to_go - b.values.view<float>()[samples[0]]).epsilon(1e-4));
    }
  }
}

TEST_CASE("rollout weights: at token level they are the clamped ratio of the joint action, and 0 for masked steps") {
  Staged staged(7);
  StagedSamples& b = *staged.samples;
  const Sequences all = cut_sequences(b, false);
  std::vector<float> log_probs;
  for (const float x : b.log_probs.view<float>()) log_probs.push_back(x + 0.5f);
  RolloutCorrection correction;
  correction.level = WeightLevel::token;
  correction.high = 1.5;
  const RolloutWeights got = weigh_rollout(correction, b, all, log_probs, {}, false);
  for (int64_t sample = 0; sample < b.count; ++sample) {
    const bool trained = std::ranges::binary_search(b.trained, sample);
    CHECK(got.weights[sample] == doctest::Approx(trained ? 1.5 : 0.0));
    CHECK(got.kept[sample] == trained);
  }
  CHECK(got.metrics.kl == doctest::Approx(-0.5).epsilon(1e-5));
}
