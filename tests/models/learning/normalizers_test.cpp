// Statistics of observations in an update: each sample is trained with those of the version that acted on it.

#include <vector>

#include "models/learning/scaling_history.h"
#include "tests/models/torch/learning/forms.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kSteps = 6, kColumns = 4;

RunConfig still_config() {
  RunConfig config = small_config();
  config.model.normalize_observations = true;
  config.trainer.policy_lr = config.trainer.value_lr = 0.0;  // nothing but the statistics can change
  config.replay.max_policy_lag = 2;
  return config;
}

std::shared_ptr<Rollout> rollout_of(const EnvSpec& spec, Policy& policy, int64_t version, uint64_t seed) {
  auto rollout = random_rollout(spec, policy, kSteps, kColumns, seed, /*log_prob_noise=*/0.0f);
  rollout->grid().version = Array(DType::i64, {kSteps, kColumns});
  std::ranges::fill(rollout->grid().version.mutable_view<int64_t>(), version);
  return rollout;
}

// The first half of the steps of one rollout and the second half of another.
std::shared_ptr<Rollout> halves_of(const Rollout& first, const Rollout& second) {
  auto result = std::make_shared<Rollout>(first);
  const auto join = [](Array& array, const Array& other) {
    array = array.clone();
    const size_t half = array.bytes() / 2;
    std::copy_n(other.data() + half, array.bytes() - half, array.mutable_data() + half);
  };
  Array observations = first.grid().observations.at("state");
  join(observations, second.grid().observations.at("state"));
  result->grid().observations = {};
  result->grid().observations.set("state", observations);
  join(result->grid().actions, second.grid().actions);
  join(result->grid().log_probs, second.grid().log_probs);
  join(result->grid().values, second.grid().values);
  join(result->grid().version, second.grid().version);
  if (!first.grid().action_mask.empty()) join(result->grid().action_mask, second.grid().action_mask);
  return result;
}

SuperBatch batch_of(std::vector<std::shared_ptr<Rollout>> rollouts, uint64_t index) {
  SuperBatch batch;
  batch.index = index;
  for (auto& rollout : rollouts) {
    SuperBatch one = whole_batch(std::move(rollout));
    batch.samples += one.samples;
    batch.parts.push_back(std::move(one.parts.front()));
  }
  return batch;
}

void check_ratios(const UpdateReport& report) {
  CHECK(report.metrics.at("ratio_max") == doctest::Approx(1).epsilon(1e-5));
  CHECK(report.metrics.at("ratio_min") == doctest::Approx(1).epsilon(1e-5));
  CHECK(report.metrics.at("kl") < 1e-6);
}

// Acts with versions 0, 1 and 2 of a learner in turn.
struct Versions {
  Versions(const RunConfig& config, const EnvSpec& spec, bool device_form)
      : spec(spec), learner(learner_of(config, spec, device_form)), policy(make_policy(config, spec)) {
    for (uint64_t version = 0; version < 3; ++version) {
      policy->load(*learner->snapshot({0, version}));
      rollouts.push_back(rollout_of(spec, *policy, static_cast<int64_t>(version), 10 + version));
      if (version < 2) reports.push_back(update_with(*learner, batch_of({rollouts.back()}, version)));
    }
  }

  EnvSpec spec;
  std::unique_ptr<Learner> learner;
  std::unique_ptr<Policy> policy;
  std::vector<std::shared_ptr<Rollout>> rollouts;  // by version
  std::vector<UpdateReport> reports;               // of the updates that made versions 1 and 2
};

}  // namespace

TEST_CASE("normalizers: while the weights stay the same, all ratios are 1, whatever version made a sample") {
  for (const EnvSpec& spec : {discrete_spec(), continuous_spec(), token_spec(), masked_spec()})
    for (const bool device_form : {false, true}) {
      CAPTURE(device_form);
      CAPTURE(spec.action.decisions());
      Versions run(still_config(), spec, device_form);
      for (const UpdateReport& report : run.reports) check_ratios(report);  // lag 0
      const auto mixed = halves_of(*run.rollouts[0], *run.rollouts[2]);
      check_ratios(update_with(*run.learner, batch_of({run.rollouts[1], mixed, run.rollouts[2]}, 2)));
      CHECK(run.learner->save().model.at("observation_normalizer.count").view<double>()[0] == 5 * kSteps * kColumns);
    }
}

TEST_CASE("normalizers: an estimator that computes values again uses the statistics of each sample's version") {
  RunConfig config = still_config();
  config.algorithm.advantage = "vtrace";
  for (const bool device_form : {false, true}) {
    Versions run(config, discrete_spec(), device_form);
    check_ratios(update_with(*run.learner, batch_of({run.rollouts[0], run.rollouts[2]}, 2)));
  }
}

TEST_CASE("normalizers: a loaded learner trains samples of earlier versions as the saved one") {
  for (const bool device_form : {false, true}) {
    Versions run(still_config(), continuous_spec(), device_form);
    const auto loaded = learner_of(still_config(), run.spec, device_form);
    loaded->load(run.learner->save());
    const SuperBatch batch = batch_of({run.rollouts[1], run.rollouts[2]}, 2);
    check_ratios(update_with(*loaded, batch));
    update_with(*run.learner, batch);
    CHECK((loaded->save().model == run.learner->save().model));
    CHECK((loaded->save().optimizer == run.learner->save().optimizer));
  }
  RunConfig on_policy = still_config();
  on_policy.replay.max_policy_lag = 0;
  for (const auto& [name, array] : Versions(on_policy, continuous_spec(), false).learner->save().optimizer)
    CHECK(!name.starts_with(ScalingHistory::kPrefix));
}

TEST_CASE("normalizers: at lag 0 a scheduled log_std does not change the ratios, and is published with the weights") {
  RunConfig config = still_config();
  config.model.log_std = "scheduled";
  config.model.log_std_start = 0.0;
  config.model.log_std_end = -2.0;
  for (const bool device_form : {false, true}) {
    const auto learner = learner_of(config, continuous_spec(), device_form);
    const auto policy = make_policy(config, continuous_spec());
    for (uint64_t version = 0; version < 3; ++version) {
      policy->load(*learner->snapshot({0, version}));
      const auto rollout = rollout_of(continuous_spec(), *policy, static_cast<int64_t>(version), version);
      const double progress = 0.3 * static_cast<double>(version + 1);
      check_ratios(update_with(*learner, batch_of({rollout}, version), progress));
      CHECK(learner->save().model.at("policy.log_std").view<float>()[0] == doctest::Approx(-2 * progress));
    }
  }
}

TEST_CASE("scaling_history: a version that is not kept takes the nearest one before it, or the oldest") {
  ScalingHistory history(3);
  const auto scaling = [](float mean) { return FeatureScaling{{mean}, {1.0f}, 0.0f}; };
  for (const uint64_t version : {1, 4, 5, 7}) history.set(version, scaling(static_cast<float>(version)));
  const SampleScalings of = history.of(Array::of<int64_t>({6}, {0, 4, 5, 6, 7, 9}), std::vector<int64_t>{5, 1});
  std::vector<float> means;
  for (const int64_t index : of.of_samples) means.push_back(of.all[static_cast<size_t>(index)].mean[0]);
  CHECK(means == std::vector<float>{4, 4, 5, 5, 7, 7});
  CHECK(of.of_bootstraps == std::vector<int64_t>{of.of_samples[5], of.of_samples[1]});
  const SampleScalings newest = history.of(Array(), {});
  REQUIRE(newest.all.size() == 1);
  CHECK(newest.all[0].mean[0] == 7);
  CHECK(newest.of_samples.empty());
}

TEST_CASE("scaling_history: saved tensors that do not fit are refused by name") {
  ScalingHistory history(3), other(3);
  for (const uint64_t version : {1, 2}) history.set(version, {{1.0f, 2.0f}, {1.0f, 1.0f}, 5.0f});
  std::map<std::string, Array> saved;
  history.save(saved);
  const auto refusal = [&](const std::string& name, const Array& array) {
    auto tensors = saved;
    tensors["observation_scaling." + name] = array;
    try {
      other.load(tensors, 2, 5.0f);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal("mean", Array::of<float>({2, 2}, {1, 2, 3, nan()})) ==
        "optimizer tensor observation_scaling.mean holds a number that is not finite");
  CHECK(refusal("inverse_std", Array::of<float>({2, 1}, {1, 2})) ==
        "optimizer tensor observation_scaling.inverse_std is float32 [2, 1], expected float32 [2, 2]");
  CHECK(refusal("version", Array::of<double>({2}, {2, 1})) ==
        "optimizer tensor observation_scaling.version is not ascending from 0 on");
  auto tensors = saved;
  tensors["first.policy.0.bias"] = Array();
  other.load(tensors, 2, 5.0f);
  CHECK(tensors.size() == 1);
  std::map<std::string, Array> again;
  other.save(again);
  CHECK((again == saved));
}
