// Complete updates of a learner on a GPU, and a policy on one, compared with those on the CPU. Needs a GPU.
// device_form_test.cpp runs the same tensor operations on the CPU.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "envs/make/make_env.h"
#include "models/torch/compute.h"
#include "tests/models/learning/loop.h"
#include "tests/models/torch/learning/forms.h"
#include "tests/models/torch/learning/update_cases.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// CTest reports the program as skipped if it prints this (tests/models/CMakeLists.txt).
bool has_gpu() {
  if (gpu_count() > 0) return true;
  MESSAGE("skipped: needs a GPU");
  return false;
}

// The config as given on the CPU, and on the GPU.
struct Learners {
  std::unique_ptr<Learner> host, gpu;

  Learners(RunConfig config, const EnvSpec& spec) : host(make_learner(config, spec)) {
    config.trainer.device = "cuda";
    gpu = make_learner(config, spec);
  }
  void update(const SuperBatch& batch, double progress, double tolerance) const {
    check_same(update_with(*gpu, batch, progress), update_with(*host, batch, progress), tolerance);
  }
};

// Adam divides a gradient by its own size, so a weight whose gradient is nearly 0 moves by the gradient's rounding.
// The moments have the gradients themselves.
void check_update(const RunConfig& config, const EnvSpec& spec, const SuperBatch& batch) {
  const Learners learners(config, spec);
  learners.update(batch, 0.25, 1e-4);
  check_learners(*learners.gpu, *learners.host, 1e-4, /*weight_tolerance=*/1e-3);
}

RunConfig image_config() {
  RunConfig config = load_config("configs/grid_world_image.json");
  config.env.rows = 6;
  config.trainer.minibatches = 3;
  config.trainer.epochs = 2;
  return config;
}

SuperBatch sampled(const RunConfig& config, const EnvSpec& spec) {
  const auto policy = make_policy(config, spec);
  Sampler sampler(config, *policy, make_env(config.env), 2);
  return whole(sampler.collect(config.rollout.length));
}

}  // namespace

TEST_CASE("cuda: an update equals that on the CPU, for every kind of actions") {
  if (has_gpu()) for_each_kind_of_actions(check_update);
}

TEST_CASE("cuda: every estimator and every surrogate trains as on the CPU") {
  if (has_gpu()) for_each_algorithm(check_update);
}

TEST_CASE("cuda: several updates on environments stay close to those on the CPU") {
  if (!has_gpu()) return;
  for (const RunConfig& config : environment_configs()) {
    CAPTURE(config.env.id);
    const EnvSpec spec = make_env(config.env)->spec();
    const Learners learners(config, spec);
    const SuperBatch batch = sampled(config, spec);
    for (int update = 0; update < 3; ++update) learners.update(batch, 0.1 * update, 1e-3);
    check_learners(*learners.gpu, *learners.host, 1e-3);
  }
}

TEST_CASE("cuda: convolutions are computed in float32, as on the CPU") {
  if (!has_gpu()) return;
  const RunConfig config = image_config();
  const EnvSpec spec = make_env(config.env)->spec();
  check_update(config, spec, sampled(config, spec));
}

TEST_CASE("cuda: batches without samples, and with only invalid samples, are accepted") {
  if (!has_gpu()) return;
  for (const EnvSpec& spec : all_specs()) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.model.normalize_observations = true;
    check_update(config, spec, {});
    const auto none = random_rollout(spec, *make_policy(config, spec), 3, 2, 1);
    std::ranges::fill(none->grid().valid.mutable_view<uint8_t>(), 0);
    check_update(config, spec, whole_batch(none));
  }
}

TEST_CASE("cuda: a batch with NaN is skipped and changes neither weights nor moments") {
  if (!has_gpu()) return;
  RunConfig config = small_config();
  config.trainer.device = "cuda";
  const EnvSpec spec = discrete_spec();
  const auto policy = make_policy(config, spec);
  const auto learner = make_learner(config, spec);
  update_with(*learner, whole_batch(random_rollout(spec, *policy, 2, 4, 2)));
  const LearnerState before = learner->save();
  const auto rollout = random_rollout(spec, *policy, 2, 4, 1);
  rollout->grid().observations.at("state").mutable_view<float>()[3] = nan();
  CHECK(update_with(*learner, whole_batch(rollout)).skipped == 1);
  CHECK((learner->save().model == before.model));
  CHECK((learner->save().optimizer == before.optimizer));
}

TEST_CASE("cuda: a state saved on the GPU continues on the CPU, and the other way round") {
  if (!has_gpu()) return;
  RunConfig config = small_config();
  config.model.normalize_observations = config.model.normalize_returns = true;
  const EnvSpec spec = continuous_spec();
  for (const bool from_gpu : {false, true}) {
    const Learners learners(config, spec);
    Learner& first = from_gpu ? *learners.gpu : *learners.host;
    Learner& second = from_gpu ? *learners.host : *learners.gpu;
    update_with(first, whole_batch(episodes_rollout(config, spec, 1)));
    second.load(first.save());
    CHECK((second.save().model == first.save().model));
    CHECK((second.save().optimizer == first.save().optimizer));
    learners.update(whole_batch(episodes_rollout(config, spec, 2)), 0.0, 2e-5);
    check_learners(*learners.gpu, *learners.host, 2e-5);
  }
}

TEST_CASE("cuda: a policy on the GPU acts like one on the CPU, with weights from either") {
  if (!has_gpu()) return;
  for (const EnvSpec& spec : all_specs()) {
    RunConfig config = small_config();
    config.model.normalize_observations = config.model.normalize_returns = true;
    const Learners learners(config, spec);
    update_with(*learners.gpu, whole_batch(episodes_rollout(config, spec, 1)));
    const auto host = make_policy(config, spec), gpu = make_policy(config, spec, "cuda");
    for (Policy* policy : {host.get(), gpu.get()}) policy->load(*learners.gpu->snapshot({0, 1}));
    const ActInput input = one_input(spec, 64);
    const ActOutput a = gpu->act(input), b = host->act(input);
    for (size_t i = 0; i < 64; ++i)
      CHECK(a.values.view<float>()[i] == doctest::Approx(b.values.view<float>()[i]).epsilon(1e-4).scale(0.01));
    const auto got = a.log_probs.view<float>(), wanted = b.log_probs.view<float>();
    for (size_t i = 0; i < wanted.size(); ++i) CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-4).scale(0.01));
  }
}
