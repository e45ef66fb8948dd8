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
  GradientReducer reducer(size_t learner) {
    return [this, learner](at::Tensor& gradients) {
      parts_[learner] = gradients.clone();
      barrier_.arrive_and_wait();
      gradients.copy_((parts_[0] + parts_[1]) / 2);
      barrier_.arrive_and_wait();
    };
  }

 private:
  std::barrier<> barrier_{2};
  std::array<at::Tensor, 2> parts_;
};

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
