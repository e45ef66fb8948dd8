#include "actors/experience/grid/step_sampler.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "envs/batched.h"
#include "tests/actors/experience/grid/step_sampler_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("step_sampler: a worker is failing if the last step of every row failed, until a row makes a step") {
  StepSamplerFixture f(8, 2);
  CHECK(!f.core->failing());
  f.core->add_credits(1);
  f.serve(1);
  CHECK(!f.core->failing());
  Counter::broken = true;
  f.serve(1);
  CHECK(f.core->failing() == "row 0: broken on purpose");
  CHECK(f.core->report().env_failures == 2);
  f.core->wake(0, 0);
  CHECK(f.core->failing());
  Counter::broken = false;
  f.serve(1);  // the row restarts
  f.serve(1);
  CHECK(!f.core->failing());
}

TEST_CASE("step_sampler: a worker is not failing if one group makes steps; a group without a credit does not count") {
  StepSamplerFixture f(8, 1, 2);
  f.core->add_credits(1);
  Counter::broken = true;
  f.serve(1);
  CHECK(f.core->failing());  // the other group has no credit
  Counter::broken = false;
  f.core->add_credits(1);
  f.serve(1);
  CHECK(!f.core->failing());
}

TEST_CASE("step_sampler: a worker whose last step failed is not failing while it has no credit") {
  StepSamplerFixture f(2, 2);
  f.core->add_credits(1);
  f.serve(1);
  Counter::broken = true;
  f.serve(1);
  CHECK(f.core->failing());  // the rollout still needs its last values
  for (uint32_t row : {0, 1}) f.core->wake(0, row);
  f.serve(1);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.requests.empty());
  CHECK(!f.core->failing());
  f.core->add_credits(1);
  f.serve(1);
  CHECK(f.core->failing());  // it has a credit again, and fails
}

namespace {

// A worker with one row in each group, of which some do not start: they are as after their process was killed.
struct Starts : StepSamplerFixture {
  explicit Starts(const std::deque<bool>& no_start) : StepSamplerFixture(8, 1, static_cast<int64_t>(no_start.size())) {
    core = std::make_unique<StepSampler>(
        config, Recurrence{}, 0, [] { return std::make_unique<Batched<Counter>>(Counter::spec(), 1); }, port);
    Counter::hanging = no_start;
    core->begin(0);
  }
};

}  // namespace

TEST_CASE("step_sampler: a worker none of whose groups starts is failing, before it has a credit") {
  Starts f({true, true});
  CHECK(f.core->failing() == "row 0: hangs");
  CHECK(f.core->report().env_failures == 2);
}

TEST_CASE("step_sampler: a worker with a group that started is not failing before that group has had a credit") {
  for (const std::deque<bool>& no_start : {std::deque<bool>{true, false}, {false, true}}) {
    Starts f(no_start);
    CHECK(!f.core->failing());
    CHECK(f.core->report().env_failures == 1);
  }
}

TEST_CASE("step_sampler: a group that did not start no longer counts as failing after its first step") {
  Starts f({true});
  REQUIRE(f.core->failing());
  f.core->add_credits(1);
  CHECK(f.core->failing());
  f.serve(1);
  CHECK(!f.core->failing());
}

TEST_CASE("step_sampler: beside a group that did not start, one that had its credit counts by its own steps") {
  Starts f({false, true});
  f.core->add_credits(1);  // of the first group
  CHECK(!f.core->failing());
  Counter::broken = true;
  f.serve(1);
  CHECK(f.core->failing() == "row 0: broken on purpose");
  Counter::broken = false;
  f.core->wake(0, 0);
  f.serve(2);  // the row restarts, and makes a step
  CHECK(!f.core->failing());
}

TEST_CASE("step_sampler: the masks of a row that failed, rests and starts again are those of its environment") {
  StepSamplerFixture f(8, 2);
  StepSampler core(
      f.config, {}, 0, [] { return std::make_unique<Batched<MaskedCounter>>(MaskedCounter::spec(), 2); }, f.port);
  core.begin(0);
  core.add_credits(1);
  const auto serve = [&](const std::vector<uint8_t>& masks) {
    const InferenceRequest request = f.port.next();
    CHECK(request.steps().action_mask == Array::of<uint8_t>({2, 2}, masks));
    InferenceReply reply = f.port.answer_of(request);
    std::ranges::fill(reply.steps().actions.mutable_view<int32_t>(), 1);
    core.on_reply(reply);
  };
  serve({0, 1, 0, 1});
  core.wake(0, 0);
  serve({0, 1, 0, 1});  // both rows failed and have begun an episode; row 1 rests
  serve({0, 1, 1, 1});  // row 0 has begun again; row 1 has no observation
  core.wake(0, 1);
  serve({0, 1, 1, 1});
  serve({0, 1, 0, 1});
  CHECK(core.report().env_failures == 2);
}

TEST_CASE("step_sampler: a worker counts as failing while inference keeps failing on its request") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  const auto fail = [&](Fault fault) {
    InferenceReply failed;
    failed.id = f.port.next().id;
    failed.fault = fault;
    failed.error = "value of row 0 is not finite";
    f.core->on_reply(failed);
    f.core->wake(0, Sampler::kAskAgain);
  };
  for (uint32_t i = 0; i < RequestRetry::kMostFailures; ++i) fail(Fault::shutting_down);
  for (uint32_t i = 0; i + 1 < RequestRetry::kFailing; ++i) fail(Fault::forward_failed);
  CHECK(!f.core->failing());
  fail(Fault::forward_failed);
  CHECK(f.core->failing() == "inference failed: value of row 0 is not finite");
  SUBCASE("and says why, also after an inference process that served it has left") {
    fail(Fault::shutting_down);
    CHECK(f.core->failing() == "inference failed: value of row 0 is not finite");
  }
  SUBCASE("until a reply comes") {
    f.serve(1);
    CHECK(!f.core->failing());
    for (uint32_t i = 0; i + 1 < RequestRetry::kMostFailures; ++i) fail(Fault::forward_failed);
    f.serve(1);
    CHECK(f.port.requests.size() == 1);
  }
  SUBCASE("and ends after kMostFailures of them") {
    for (uint32_t i = RequestRetry::kFailing; i + 1 < RequestRetry::kMostFailures; ++i) fail(Fault::forward_failed);
    CHECK_THROWS_WITH_AS(fail(Fault::forward_failed),
                         "inference failed 100 times in a row on the same request, the last time with: value of row 0 "
                         "is not finite",
                         InferenceFailed);
  }
}

TEST_CASE("step_sampler: after kSilence beats without a reply the beats of silence are reported, until a reply") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  for (uint32_t i = 0; i + 1 < RequestRetry::kSilence; ++i) f.core->beat();
  CHECK(f.core->beats_without_answer() == 0);
  f.core->beat();
  CHECK(f.core->beats_without_answer() == RequestRetry::kSilence);
  f.core->beat();
  CHECK(f.core->beats_without_answer() == RequestRetry::kSilence + 1);
  InferenceReply failed;
  failed.id = f.port.requests.back().id;
  failed.fault = Fault::forward_failed;
  f.core->on_reply(failed);
  CHECK(f.core->beats_without_answer() == 0);
}

TEST_CASE("step_sampler: a group whose rows all failed waits until one is revived") {
  StepSamplerFixture f(4, 1);
  f.core->add_credits(1);
  Counter::broken = true;
  f.serve(1);
  CHECK(f.port.requests.empty());
  REQUIRE(f.port.revivals.size() == 1);
  Counter::broken = false;
  f.core->wake(0, 0);
  CHECK(f.port.requests.size() == 1);
  CHECK(f.core->report().env_failures == 1);
}

TEST_CASE("step_sampler: the pause doubles with each failure in a row, and the last failure ends the worker") {
  StepSamplerFixture f(4, 1);
  f.core->add_credits(10);
  Counter::broken = true;
  const auto quarantine = static_cast<int>(f.config.workers.quarantine_after);
  CHECK_THROWS_WITH_AS(
      [&] {
        for (int i = 0; i < 4 * quarantine; ++i) {
          f.serve(1);
          if (f.port.requests.empty()) f.core->wake(0, 0);
        }
      }(),
      doctest::Contains("broken on purpose"), std::runtime_error);
  CHECK(f.port.delays == std::vector<int64_t>{100, 200, 400, 800});
}

TEST_CASE("step_sampler: the first observation of a row after a failure starts an episode") {
  StepSamplerFixture f(8, 1, 1, {.state_size = 1, .sequence = 1, .burn_in = 0});
  f.core->add_credits(1);
  f.serve(1);
  Counter::broken = true;
  f.serve(1);
  Counter::broken = false;
  f.core->wake(0, 0);
  const InferenceRequest request = f.port.next();
  CHECK(request.steps().starts.view<uint8_t>()[0] == 1);
}
