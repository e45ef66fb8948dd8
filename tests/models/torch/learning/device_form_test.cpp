// Complete updates of a learner in the device form, computed on the CPU, compared with the host form.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "envs/make/make_env.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

#include "tests/models/learning/loop.h"
#include "tests/models/torch/learning/forms.h"
#include "tests/models/torch/learning/update_cases.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Compares one update of both forms from the same weights. Differences are due to rounding only.
void check_update(const RunConfig& config, const EnvSpec& spec, const SuperBatch& batch, double tolerance = 2e-5) {
  const auto host = learner_of(config, spec, false), device = learner_of(config, spec, true);
  const UpdateReport a = update_with(*device, batch, 0.25), b = update_with(*host, batch, 0.25);
  check_same(a, b, tolerance);
  check_learners(*device, *host, tolerance);
}

void check_update_loosely(const RunConfig& config, const EnvSpec& spec, const SuperBatch& batch) {
  check_update(config, spec, batch, 1e-4);
}

}  // namespace

TEST_CASE("device form: an update equals that of the host form, for every kind of actions") {
  for_each_kind_of_actions(check_update_loosely);
}

TEST_CASE("device form: an update changes the scheduled log_std as the host form does") {
  RunConfig config = small_config();
  config.model.log_std = "scheduled";
  config.model.log_std_end = -2.0;
  check_update(config, continuous_spec(), whole_batch(episodes_rollout(config, continuous_spec(), 1)));
}

TEST_CASE("device form: every estimator and every surrogate trains as in the host form") {
  for_each_algorithm(check_update_loosely);
}

TEST_CASE("device form: decisions that were not executed are ignored, whatever is stored for them") {
  for (const bool is_continuous : {false, true}) {
    for (const char* ratio : {"joint", "per_dimension"}) {
      RunConfig config = small_config();
      config.algorithm.ratio = ratio;
      config.algorithm.kl_coef = 0.1;
      const EnvSpec spec = is_continuous ? spec_of(ActionKind::continuous, {0, 0}, 2) : token_spec();
      const auto rollout = episodes_rollout(config, spec, 3);
      rollout->grid().executed = Array(DType::i32, {rollout->grid().steps(), rollout->grid().columns()});
      rollout->grid().actions = rollout->grid().actions.clone();
      const auto executed = rollout->grid().executed.mutable_view<int32_t>();
      for (size_t i = 0; i < executed.size(); ++i) {
        executed[i] = i % 3 == 0 ? 1 : 2;
        if (executed[i] == 2) continue;
        for (size_t at = i * 4 + 2; at < i * 4 + 4; ++at) {
          rollout->grid().log_probs.mutable_view<float>()[at] = kNaN;
          if (is_continuous)
            rollout->grid().actions.mutable_view<float>()[at] = kNaN;
          else
            rollout->grid().actions.mutable_view<int32_t>()[at] = 1'000'000;
        }
      }
      CAPTURE(is_continuous);
      CAPTURE(ratio);
      check_update(config, spec, whole_batch(rollout));
    }
  }
}

TEST_CASE("device form: several updates on environments stay close to those of the host form") {
  for (const RunConfig& config : environment_configs()) {
    CAPTURE(config.env.id);
    const int64_t steps = config.rollout.length;
    auto env = make_env(config.env);
    const EnvSpec spec = env->spec();
    const auto policy = make_policy(config, spec);
    const auto host = learner_of(config, spec, false), device = learner_of(config, spec, true);
    Sampler sampler(config, *policy, std::move(env), 2);
    for (int update = 0; update < 3; ++update) {
      const SuperBatch batch = whole(sampler.collect(steps));
      check_same(update_with(*device, batch, 0.1 * update), update_with(*host, batch, 0.1 * update), 1e-3);
    }
    check_learners(*device, *host, 1e-3);
  }
}

TEST_CASE("device form: batches without samples, with one sample and with only rejected samples are accepted") {
  for (const EnvSpec& spec : all_specs()) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.model.normalize_observations = true;
    check_update(config, spec, {});
    const auto policy = make_policy(config, spec);
    check_update(config, spec, whole_batch(random_rollout(spec, *policy, 1, 1, 1)));
    const auto none = random_rollout(spec, *policy, 3, 2, 1);
    std::ranges::fill(none->grid().valid.mutable_view<uint8_t>(), 0);
    check_update(config, spec, whole_batch(none));
    config.algorithm.rollout_correction = R"({"rejection": "token_k1", "rejection_threshold": "0.9999_1.0001"})";
    const auto far = random_rollout(spec, *policy, 3, 2, 1, /*log_prob_noise=*/3.0f);
    const auto learner = learner_of(config, spec, true);
    CHECK(update_with(*learner, whole_batch(far)).metrics.at("rollout_rejected") == 1.0);
    check_update(config, spec, whole_batch(far));
  }
}

TEST_CASE("device form: a batch with NaN is skipped and changes neither weights nor moments") {
  for (const char* what : {"advantages", "returns", "observations"}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.trainer.epochs = 2;
    const EnvSpec spec = discrete_spec();
    const auto policy = make_policy(config, spec);
    const auto rollout = random_rollout(spec, *policy, 2, 4, 1);
    Array& array = std::string(what) == "advantages" ? rollout->grid().advantages
                   : std::string(what) == "returns"  ? rollout->grid().returns
                                                     : rollout->grid().observations.at("state");
    array.mutable_view<float>()[3] = kNaN;
    const auto learner = learner_of(config, spec, true);
    update_with(*learner, whole_batch(random_rollout(spec, *policy, 2, 4, 2)));
    const LearnerState before = learner->save();
    const UpdateReport report = update_with(*learner, whole_batch(rollout));
    CHECK(report.skipped == 2);
    CHECK(report.steps == 0);
    CHECK((learner->save().model == before.model));
    CHECK((learner->save().optimizer == before.optimizer));
    config.trainer.minibatches = 2;
    check_update(config, spec, whole_batch(rollout));
  }
}

TEST_CASE("device form: a sample with non-finite outputs makes only its own minibatch skip, as in the host form") {
  for (const EnvSpec& spec : all_specs()) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.trainer.minibatches = 4;
    config.algorithm.rollout_correction = R"({"is": "token"})";
    const auto policy = make_policy(config, spec);
    const auto rollout = random_rollout(spec, *policy, 4, 4, 1);
    rollout->grid().observations.at("state").mutable_view<float>()[3] = kNaN;
    for (const bool device_form : {false, true}) {
      const auto learner = learner_of(config, spec, device_form);
      const UpdateReport report = update_with(*learner, whole_batch(rollout));
      CHECK(report.skipped == 1);
      CHECK(report.steps == 3);
    }
    check_update(config, spec, whole_batch(rollout), 1e-4);
    config.algorithm.rollout_correction = small_config().algorithm.rollout_correction;
    config.algorithm.advantage = "vtrace";
    check_update(config, spec, whole_batch(rollout), 1e-4);
  }
}

TEST_CASE("device form: each form can continue from a state saved by the other") {
  for (const bool from_device : {false, true}) {
    RunConfig config = small_config();
    config.model.normalize_observations = config.model.normalize_returns = true;
    const EnvSpec spec = continuous_spec();
    const auto first = learner_of(config, spec, from_device), second = learner_of(config, spec, !from_device);
    update_with(*first, whole_batch(episodes_rollout(config, spec, 1)));
    second->load(first->save());
    CHECK((second->save().model == first->save().model));
    CHECK((second->save().optimizer == first->save().optimizer));
    const SuperBatch batch = whole_batch(episodes_rollout(config, spec, 2));
    check_same(update_with(*first, batch), update_with(*second, batch), 2e-5);
    check_learners(*first, *second, 2e-5);
  }
}

TEST_CASE("device form: a staged batch does not share memory with its rollouts") {
  const RunConfig config = small_config();
  const EnvSpec spec = discrete_spec();
  const auto policy = make_policy(config, spec);
  const auto rollout = random_rollout(spec, *policy, 4, 3, 1);
  const auto learner = learner_of(config, spec, true), other = learner_of(config, spec, true);
  const SuperBatch batch = whole_batch(rollout);
  update_with(*other, batch);
  const auto staged = learner->stager()->stage(batch);
  for (float& x : rollout->grid().observations.at("state").mutable_view<float>()) x = 7.0f;
  learner->update(*staged, 0.0);
  CHECK((learner->save().model == other->save().model));
}

TEST_CASE("device form: a masked or unknown action is refused when the batch is staged") {
  const RunConfig config = small_config();
  for (const EnvSpec& spec : {discrete_spec(), masked_spec()}) {
    const auto policy = make_policy(config, spec);
    const auto learner = learner_of(config, spec, true);
    const auto rollout = random_rollout(spec, *policy, 2, 2, 1);
    rollout->grid().actions = rollout->grid().actions.clone();
    if (spec.action.masked) {
      rollout->grid().action_mask = rollout->grid().action_mask.clone();
      rollout->grid().action_mask.mutable_view<uint8_t>()[4 + 1] = 0;
      rollout->grid().actions.mutable_view<int32_t>()[1] = 1;
    } else {
      rollout->grid().actions.mutable_view<int32_t>()[1] = 3;
    }
    CHECK_THROWS_WITH_AS(learner->stager()->stage(whole_batch(rollout)),
                         doctest::Contains("sample 1, decision 0: action"), InvariantError);
    rollout->grid().valid.mutable_view<uint8_t>()[1] = 0;  // the action of a masked step is not checked
    CHECK_NOTHROW(learner->stager()->stage(whole_batch(rollout)));
  }
}
