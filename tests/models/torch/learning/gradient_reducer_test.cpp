// Data-parallel training: several learners train the same weights, each with different samples.

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/torch_test.h"

#include "tests/models/torch/learning/ranks.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Settings in which every kind of sum over ranks occurs.
RunConfig rank_config() {
  RunConfig config = small_config();
  config.algorithm.normalize_advantages = true;
  config.algorithm.entropy_coef = 0.02;
  config.algorithm.kl_coef = 0.1;
  config.model.normalize_observations = config.model.normalize_returns = true;
  config.trainer.max_grad_norm = 0.1;
  config.trainer.epochs = 3;
  // Well above the gradients, so that a step is proportional to its gradient. Otherwise it is nearly the gradient's
  // sign: rounding errors of small gradients would show in full, a wrong factor not at all.
  config.trainer.adam_epsilon = 1;
  config.trainer.policy_lr = config.trainer.value_lr = 0.1;
  return config;
}

std::shared_ptr<Rollout> rollout_of(const RunConfig& config, const EnvSpec& spec, int64_t steps, int64_t columns,
                                    uint64_t seed, float noise = 0.3f) {
  const auto policy = make_policy(config, spec);
  return random_rollout(spec, *policy, steps, columns, seed, noise);
}

// Masks every third step.
std::shared_ptr<Rollout> with_masked_steps(std::shared_ptr<Rollout> rollout) {
  const auto valid = rollout->grid().valid.mutable_view<uint8_t>();
  for (size_t i = 0; i < valid.size(); i += 3) valid[i] = 0;
  return rollout;
}

// Only every `whole`-th action chunk was executed to its end, so that samples differ in their number of ratios.
std::shared_ptr<Rollout> with_cut_chunks(std::shared_ptr<Rollout> rollout, const EnvSpec& spec, size_t whole) {
  rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
  const auto executed = rollout->grid().executed.mutable_view<int32_t>();
  for (size_t i = 0; i < executed.size(); ++i) executed[i] = i % whole == 0 ? spec.action.chunk : 1;
  return rollout;
}

}  // namespace

TEST_CASE("ranks: two ranks with half of a batch each train like one learner with the whole batch") {
  for (const bool device_form : {false, true}) {
    for (const EnvSpec& spec : {continuous_spec(), discrete_spec()}) {
      CAPTURE(device_form);
      const RunConfig config = rank_config();
      Trainers trainers(config, spec, device_form);
      for (uint64_t update = 0; update < 3; ++update) {
        CAPTURE(update);
        trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 2 * update)),
                         whole_batch(rollout_of(config, spec, 6, 4, 2 * update + 1))});
        CHECK(trainers.whole.steps == 3);
        trainers.check_joined();
      }
    }
  }
}

TEST_CASE("ranks: the result does not depend on how the valid samples of a batch are divided among the ranks") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    const RunConfig config = rank_config();
    const EnvSpec spec = continuous_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1)),
                     whole_batch(with_masked_steps(rollout_of(config, spec, 4, 2, 2)))});
    CHECK(trainers.ranks.samples[0] == std::vector<int64_t>{24, 24, 24});
    CHECK(trainers.ranks.samples[1] == std::vector<int64_t>{5, 5, 5});
    trainers.check_joined();
  }
}

TEST_CASE("ranks: with a ratio per dimension, means are over the decisions of all ranks") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = rank_config();
    config.algorithm.ratio = "per_dimension";
    const EnvSpec spec = token_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(with_cut_chunks(rollout_of(config, spec, 6, 4, 1), spec, 1)),
                     whole_batch(with_cut_chunks(rollout_of(config, spec, 5, 3, 2), spec, 4))});
    trainers.check_joined();
  }
}

TEST_CASE("ranks: the KL of all samples ends the epochs, on both ranks in the same epoch") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = rank_config();
    config.trainer.epochs = 4;
    const EnvSpec spec = discrete_spec();
    const SuperBatch calm = whole_batch(rollout_of(config, spec, 6, 4, 1, 0.01f));
    const SuperBatch wild = whole_batch(rollout_of(config, spec, 6, 2, 2, 1.0f));
    const auto kl_of = [&](const SuperBatch& batch) {
      return update_with(*learner_of(config, spec, device_form), batch).metrics.at("kl");
    };
    const double low = kl_of(calm), high = kl_of(wild);
    REQUIRE(low < 0.1 * high);
    for (const double share : {0.1, 0.9}) {  // position of the target between the KL of the two ranks
      config.algorithm.target_kl = low + share * (high - low);
      Trainers trainers(config, spec, device_form);
      trainers.update({calm, wild});
      CHECK(trainers.whole.epochs == (share < 0.5 ? 1 : 4));
      trainers.check_joined();
    }
  }
}

TEST_CASE("ranks: the adaptive KL penalty follows the KL of all samples") {
  for (const bool device_form : {false, true}) {
    RunConfig config = rank_config();
    config.algorithm.kl_controller = "adaptive";
    const EnvSpec spec = discrete_spec();
    Trainers trainers(config, spec, device_form);
    for (uint64_t update = 0; update < 2; ++update)
      trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1 + update, 0.01f)),
                       whole_batch(rollout_of(config, spec, 6, 2, 7 + update, 1.0f))});
    CHECK(trainers.one->save().scalars.at("kl_coef") != config.algorithm.kl_coef);
    trainers.check_joined();
  }
}

TEST_CASE("ranks: a rank with nothing to train on takes part in every step") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    const RunConfig config = rank_config();
    const EnvSpec spec = continuous_spec();
    const SuperBatch some = whole_batch(rollout_of(config, spec, 6, 4, 1));
    auto no_decision = rollout_of(config, spec, 2, 2, 2);
    std::ranges::fill(no_decision->grid().valid.mutable_view<uint8_t>(), 0);
    for (const SuperBatch& none : {SuperBatch{}, whole_batch(no_decision)}) {
      for (const bool first : {false, true}) {
        Trainers trainers(config, spec, device_form);
        trainers.update(first ? std::array{none, some} : std::array{some, none});
        CHECK(trainers.ranks.samples[first ? 0 : 1] == std::vector<int64_t>{0, 0, 0});
        trainers.check_joined();
      }
    }
  }
}

TEST_CASE("ranks: if no rank has anything to train on, the update ends after the first sum") {
  for (const bool device_form : {false, true}) {
    Trainers trainers(rank_config(), discrete_spec(), device_form);
    trainers.update({SuperBatch{}, SuperBatch{}});
    CHECK(trainers.ranks.calls[0] == std::vector<std::string>{"sum 1"});
    CHECK(trainers.reports[0].empty());
  }
}

TEST_CASE("ranks: a rank with fewer samples than minibatches makes as many steps as the other") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = rank_config();
    config.trainer.minibatches = 5;
    config.trainer.epochs = 2;
    const EnvSpec spec = discrete_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1)), whole_batch(rollout_of(config, spec, 2, 1, 2))});
    CHECK(trainers.reports[0].steps == 10);
    CHECK(std::ranges::count(trainers.ranks.samples[1], 0) == 6);
  }
}

TEST_CASE("ranks: both make the calls that GradientReducer documents") {
  for (const bool device_form : {false, true}) {
    RunConfig config = rank_config();
    config.trainer.minibatches = 2;
    config.trainer.epochs = 2;
    const EnvSpec spec = discrete_spec();
    Trainers trainers(config, spec, device_form);
    trainers.update({whole_batch(rollout_of(config, spec, 6, 4, 1)), whole_batch(rollout_of(config, spec, 6, 4, 2))});
    std::vector<std::string> calls = trainers.ranks.calls[0];
    for (std::string& call : calls)
      if (call.starts_with("reduce")) call = "reduce";
    const std::vector<std::string> epoch = {"sum 6", "reduce", "reduce", "sum 4"};
    std::vector<std::string> wanted = {"sum 1", "sum 10", "sum 5", "sum 1", "sum 2", "sum 1", "sum 4", "sum 2"};
    for (int i = 0; i < 2; ++i) wanted.insert(wanted.end(), epoch.begin(), epoch.end());
    CHECK(calls == wanted);
  }
}

TEST_CASE("ranks: a rank that drops incomplete sequences makes as many steps as the other") {
  for (const bool device_form : {false, true}) {
    CAPTURE(device_form);
    RunConfig config = rank_config();
    config.algorithm.advantage = "grpo";
    config.algorithm.incomplete = "drop";
    const EnvSpec spec = discrete_spec();
    const auto complete = rollout_of(config, spec, 4, 3, 1);
    for (size_t i = 9; i < 12; ++i) complete->grid().terminated.mutable_view<uint8_t>()[i] = 1;
    const SuperBatch some = whole_batch(complete), none = whole_batch(rollout_of(config, spec, 4, 3, 2));
    Trainers trainers(config, spec, device_form);
    trainers.update({some, none});
    CHECK(trainers.reports[1].steps == 3);
    trainers.update({none, none});
    CHECK(trainers.reports[0].empty());
  }
}

TEST_CASE("ranks: a step with NaN on one rank is skipped by both") {
  for (const bool device_form : {false, true}) {
    RunConfig config = rank_config();
    config.model.normalize_returns = false;
    config.replay.max_policy_lag = 0;  // else the state also holds how this version normalised
    const EnvSpec spec = discrete_spec();
    const auto bad = rollout_of(config, spec, 2, 4, 1);
    bad->grid().returns.mutable_view<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    Trainers trainers(config, spec, device_form);
    const LearnerState before = trainers.learners[0]->save();
    trainers.update({whole_batch(rollout_of(config, spec, 2, 4, 2)), whole_batch(bad)});
    CHECK(trainers.reports[0].skipped == 3);
    CHECK(trainers.reports[0].failed());
    for (const auto& [name, array] : before.model)
      if (!name.starts_with(kObservationNormalizer)) CHECK((trainers.learners[0]->save().model.at(name) == array));
    CHECK((trainers.learners[1]->save().optimizer == before.optimizer));
  }
}

TEST_CASE("ranks: the merged moments of the ranks equal those of all their numbers") {
  TwoRanks ranks;
  const std::vector<float> numbers = {1e6f, 1e6f + 1, 1e6f + 5, 1e6f - 3, 1e6f + 2};
  const auto moments_of = [&](size_t begin, size_t end) {
    return masked_moments(std::span(numbers).subspan(begin, end - begin), {});
  };
  std::array<Moments, 2> mine = {moments_of(0, 2), moments_of(0, 0)}, theirs = {moments_of(2, 5), moments_of(0, 0)};
  std::thread other([&] { merge_over_ranks(*ranks.rank(1), theirs); });
  merge_over_ranks(*ranks.rank(0), mine);
  other.join();
  const Moments wanted = moments_of(0, 5);
  for (const Moments& each : {mine[0], theirs[0]}) {
    CHECK(each.count == 5);
    CHECK(each.mean == doctest::Approx(wanted.mean).epsilon(1e-12));
    CHECK(each.m2 == doctest::Approx(wanted.m2).epsilon(1e-6));
  }
  CHECK(mine[1].count == 0);
  CHECK(mine[1].mean == 0);
}

TEST_CASE("ranks: with a single rank the sums change nothing") {
  const auto reducer = single_rank();
  std::array moments = {Moments{3, 0.1, 0.7}};
  merge_over_ranks(*reducer, moments);
  CHECK(moments[0].mean == 0.1);
  CHECK(moments[0].m2 == 0.7);
  CHECK(sum_over_ranks(*reducer, 0.3) == 0.3);
  at::Tensor gradients = at::ones({4});
  reducer->reduce(gradients, 2);
  CHECK(gradients.equal(at::ones({4})));
}
