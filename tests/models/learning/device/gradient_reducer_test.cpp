// The hook between backward and optimizer step, with two learners that train at the same time.

#include <array>
#include <barrier>
#include <limits>
#include <thread>
#include <vector>

#include "tests/support/torch_test.h"

#include "tests/models/learning/device/forms.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Averages the gradients of two learners that train at the same time.
class Average {
 public:
  // `share` of the first learner's gradients.
  explicit Average(double share = 0.5) : shares_{share, 1 - share} {}

  GradientReducer reducer(size_t learner) {
    return [this, learner](at::Tensor& gradients) {
      ++calls[learner];
      parts_[learner] = gradients.clone();
      barrier_.arrive_and_wait();
      gradients.copy_(parts_[0] * shares_[0] + parts_[1] * shares_[1]);
      barrier_.arrive_and_wait();
    };
  }

  std::array<int, 2> calls{};

 private:
  std::array<double, 2> shares_;
  std::barrier<> barrier_{2};
  std::array<at::Tensor, 2> parts_;
};

// The calls that one learner makes in an update.
int calls_of(const RunConfig& config, const EnvSpec& spec, bool device_form, const SuperBatch& batch) {
  int calls = 0;
  const auto learner = learner_of(config, spec, device_form, [&](at::Tensor&) { ++calls; });
  update_with(*learner, batch);
  return calls;
}

std::vector<UpdateReport> update_together(Learner& a, const SuperBatch& first, Learner& b, const SuperBatch& second) {
  std::vector<UpdateReport> reports(2);
  std::thread other([&] { reports[1] = update_with(b, second); });
  reports[0] = update_with(a, first);
  other.join();
  return reports;
}

}  // namespace

TEST_CASE("gradient reducer: two learners that average their gradients are one with the joined minibatch") {
  for (const bool device_form : {false, true}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;  // by the statistics of a learner's own batch
    config.algorithm.entropy_coef = 0.02;
    config.trainer.max_grad_norm = 0.1;
    config.trainer.epochs = 3;
    const EnvSpec spec = continuous_spec();
    const auto policy = make_policy(config, spec);
    const SuperBatch first = whole_batch(random_rollout(spec, *policy, 6, 4, 1));
    const SuperBatch second = whole_batch(random_rollout(spec, *policy, 6, 4, 2));
    SuperBatch joined = first;
    joined.samples += second.samples;
    joined.parts.push_back(second.parts.front());
    Average average;
    const auto a = learner_of(config, spec, device_form, average.reducer(0));
    const auto b = learner_of(config, spec, device_form, average.reducer(1));
    const auto one = learner_of(config, spec, device_form);
    const auto reports = update_together(*a, first, *b, second);
    const UpdateReport whole_report = update_with(*one, joined);
    CHECK(reports[0].steps == 3);
    CHECK((a->save().model == b->save().model));
    check_learners(*a, *one, 1e-5);
    CHECK(reports[0].metrics.at("grad_norm") == doctest::Approx(whole_report.metrics.at("grad_norm")).epsilon(1e-5));
  }
}

TEST_CASE("gradient reducer: a step that one learner cannot use is skipped by both") {
  for (const bool device_form : {false, true}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    const EnvSpec spec = discrete_spec();
    const auto policy = make_policy(config, spec);
    const auto bad = random_rollout(spec, *policy, 2, 4, 1);
    bad->returns.mutable_view<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    Average average;
    const auto a = learner_of(config, spec, device_form, average.reducer(0));
    const auto b = learner_of(config, spec, device_form, average.reducer(1));
    const LearnerState before = a->save();
    const auto reports = update_together(*a, whole_batch(random_rollout(spec, *policy, 2, 4, 2)), *b, whole_batch(bad));
    for (const UpdateReport& report : reports) CHECK(report.skipped == 1);
    CHECK((a->save().model == before.model));
    CHECK((b->save().optimizer == before.optimizer));
  }
}

TEST_CASE("gradient reducer: learners with batches of different sizes make the same steps, several in an epoch") {
  for (const bool device_form : {false, true}) {
    RunConfig config = small_config();
    config.trainer.minibatches = 3;
    config.trainer.epochs = 2;
    const EnvSpec spec = discrete_spec();
    const auto policy = make_policy(config, spec);
    Average average;
    const auto a = learner_of(config, spec, device_form, average.reducer(0));
    const auto b = learner_of(config, spec, device_form, average.reducer(1));
    const auto reports = update_together(*a, whole_batch(random_rollout(spec, *policy, 6, 4, 1)), *b,
                                         whole_batch(random_rollout(spec, *policy, 7, 1, 2)));
    CHECK(average.calls == std::array<int, 2>{6, 6});
    for (const UpdateReport& report : reports) CHECK(report.steps == 6);
    CHECK((a->save().model == b->save().model));
    CHECK((a->save().optimizer == b->save().optimizer));
  }
}

TEST_CASE("gradient reducer: gradients weighted by their samples are those of the joined minibatch") {
  for (const bool device_form : {false, true}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.trainer.epochs = 2;
    const EnvSpec spec = continuous_spec();
    const auto policy = make_policy(config, spec);
    const SuperBatch first = whole_batch(random_rollout(spec, *policy, 6, 4, 1));
    const SuperBatch second = whole_batch(random_rollout(spec, *policy, 4, 2, 2));
    SuperBatch joined = first;
    joined.samples += second.samples;
    joined.parts.push_back(second.parts.front());
    Average average(0.75);
    const auto a = learner_of(config, spec, device_form, average.reducer(0));
    const auto b = learner_of(config, spec, device_form, average.reducer(1));
    const auto one = learner_of(config, spec, device_form);
    update_together(*a, first, *b, second);
    update_with(*one, joined);
    CHECK((a->save().model == b->save().model));
    check_learners(*a, *one, 1e-5);
  }
}

TEST_CASE("gradient reducer: it is called for the minibatches that have samples, and by no epoch after the last") {
  for (const bool device_form : {false, true}) {
    RunConfig config = small_config();
    config.algorithm.normalize_advantages = false;
    config.trainer.minibatches = 3;
    config.trainer.epochs = 4;
    const EnvSpec spec = discrete_spec();
    const auto policy = make_policy(config, spec);
    const SuperBatch two = whole_batch(random_rollout(spec, *policy, 2, 1, 1));
    CHECK(calls_of(config, spec, device_form, whole_batch(random_rollout(spec, *policy, 2, 4, 1))) == 12);
    CHECK(calls_of(config, spec, device_form, two) == 8);
    CHECK(calls_of(config, spec, device_form, {}) == 0);
    config.algorithm.target_kl = 1e-9;  // which the first epoch already exceeds
    CHECK(calls_of(config, spec, device_form, two) == 2);
    config.algorithm.target_kl = 0;
    config.algorithm.advantage = "grpo";
    config.algorithm.incomplete = "drop";  // no episode ends
    CHECK(calls_of(config, spec, device_form, two) == 0);
  }
}
