#include "actors/experience/grid/step_sampler.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "envs/batched.h"
#include "tests/actors/experience/grid/step_sampler_fixture.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST_CASE("step_sampler: without a credit there is no request") {
  StepSamplerFixture f;
  CHECK(f.port.requests.empty());
  f.core->add_credits(1);
  CHECK(f.port.requests.size() == 1);
}

TEST_CASE("step_sampler: without a further credit a request for values only completes the rollout") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  f.serve(2);
  REQUIRE(f.port.requests.size() == 1);
  CHECK(f.port.requests.front().steps().rows == 0);
  f.serve(1);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.pauses == 1);
  CHECK(f.port.requests.empty());
  const Rollout& rollout = *f.port.rollouts[0];
  CHECK(rollout.samples == 4);
  CHECK(rollout.grid().next_values == Array::of<float>({2, 2}, {10.0f, 10.0f, 20.0f, 20.0f}));
}

TEST_CASE("step_sampler: with a further credit the next request for actions completes the rollout") {
  StepSamplerFixture f;
  f.core->add_credits(2);
  f.serve(2);
  CHECK(f.port.requests.front().steps().rows == 2);
  CHECK(f.port.rollouts.empty());
  f.serve(1);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->grid().next_values.view<float>()[2] == 20.0f);
}

TEST_CASE("step_sampler: a truncated episode gets the value of its final observation") {
  StepSamplerFixture f(4, 1);
  f.core->add_credits(1);
  f.serve(3);  // the third step truncates
  REQUIRE(f.port.requests.front().steps().value_observations.find("o") != nullptr);
  CHECK(f.port.requests.front().steps().value_observations.at("o") == Array::of<float>({1, 1}, {3.0f}));
  f.serve(2);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->grid().next_values == Array::of<float>({4, 1}, {10.0f, 20.0f, 30.0f, 10.0f}));
  CHECK(f.port.rollouts[0]->grid().truncated == Array::of<uint8_t>({4, 1}, {0, 0, 1, 0}));
  CHECK(f.port.finished == 1);
}

TEST_CASE(
    "step_sampler: an episode is in the rollout with its last step, and in reports until that rollout is complete") {
  StepSamplerFixture f(2, 1);  // the third step truncates
  f.core->add_credits(2);
  f.serve(3);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->episodes.count() == 0);
  const WorkerReport report = f.core->report();
  REQUIRE(report.partial.size() == 1);
  CHECK(report.partial[0].samples == 1);
  CHECK(report.partial[0].episodes.lengths == Array::of<int32_t>({1}, {3}));
  CHECK(report.partial[0].episodes.returns == Array::of<float>({1}, {3.0f}));
  f.serve(2);
  REQUIRE(f.port.rollouts.size() == 2);
  CHECK(f.port.rollouts[1]->episodes.lengths == Array::of<int32_t>({1}, {3}));
  CHECK(f.core->report().partial.empty());
}

TEST_CASE("step_sampler: an episode truncated in the last step of a rollout gets the value of its final observation") {
  StepSamplerFixture f(3, 1);
  f.core->add_credits(1);
  f.serve(4);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->grid().next_values.view<float>()[2] == 30.0f);
}

TEST_CASE("step_sampler: of two replies to a request that was repeated the first one counts") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  const InferenceRequest first = f.port.next();
  f.core->wake(0, Sampler::kAskAgain);
  const InferenceRequest again = f.port.next();
  f.core->on_reply(f.port.answer_of(first));
  CHECK(f.port.requests.size() == 1);  // for the next step
  f.core->on_reply(f.port.answer_of(again));
  CHECK(f.port.requests.size() == 1);
  REQUIRE(f.core->report().partial.size() == 1);
  CHECK(f.core->report().partial[0].samples == 2);
  CHECK(f.core->report().partial[0].env_steps == 2);
}

TEST_CASE("step_sampler: a repeated request has the same observations and seeds") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  const InferenceRequest first = f.port.next();
  f.core->ask_all_again(Role::sampling);
  const InferenceRequest second = f.port.next();
  CHECK(second.id == first.id);
  CHECK(second.steps().seeds == first.steps().seeds);
  CHECK(second.steps().observations == first.steps().observations);
}

TEST_CASE("step_sampler: a request is repeated after a pause if it failed, or after some beats without a reply") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  InferenceReply failed;
  failed.id = f.port.next().id;
  failed.fault = Fault::forward_failed;
  f.core->on_reply(failed);
  CHECK(f.port.retries == std::vector<uint32_t>{0});
  f.core->wake(0, Sampler::kAskAgain);
  f.port.next();
  for (uint32_t i = 0; i < RequestRetry::kPatience; ++i) f.core->beat();
  CHECK(f.port.requests.size() == 1);
}

TEST_CASE("step_sampler: the epoch of the start chooses the episodes and the draws of actions") {
  const auto first_request = [](uint32_t epoch, uint64_t worker) {
    Port port;
    StepSampler core(RunConfig(), {}, worker, [] { return std::make_unique<Batched<Level>>(Level::spec(), 2); }, port);
    core.begin(epoch);
    core.add_credits(1);
    return port.next();
  };
  const InferenceRequest request = first_request(0, 0);
  CHECK(first_request(0, 0).steps().observations == request.steps().observations);
  CHECK(request.steps().seeds.view<int64_t>()[1] ==
        static_cast<int64_t>(mix(mix(derive_key(RunConfig().seed, "action", 0), 0), 1)));
  for (const auto& [epoch, worker] : {std::pair{1u, 0u}, {2u, 0u}, {0u, 1u}, {1u, 1u}}) {
    const InferenceRequest other = first_request(epoch, worker);
    CHECK(other.steps().observations != request.steps().observations);
    CHECK(other.steps().seeds != request.steps().seeds);
  }
  CHECK(first_request(1, 1).steps().seeds != first_request(1, 0).steps().seeds);
  CHECK(first_request(1, 0).steps().seeds == first_request(1, 0).steps().seeds);
}

TEST_CASE("step_sampler: with two credits each of two groups has a request") {
  StepSamplerFixture f(2, 2, 2);
  f.core->add_credits(1);
  CHECK(f.port.requests.size() == 1);
  f.core->add_credits(1);
  REQUIRE(f.port.requests.size() == 2);
  CHECK(f.port.requests[0].group != f.port.requests[1].group);
}

TEST_CASE("step_sampler: rollouts of a worker are numbered without gaps") {
  StepSamplerFixture f;
  f.core->add_credits(3);
  f.serve(7);
  REQUIRE(f.port.rollouts.size() == 3);
  for (uint64_t i = 0; i < 3; ++i) CHECK(f.port.rollouts[i]->sequence == i);
}

TEST_CASE("step_sampler: policy parameters go from replies into the rollout if the loss needs them") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  f.serve(3);
  CHECK(f.port.rollouts.at(0)->grid().policy_parameters.empty());  // the loss does not need them
  f.port.parameters = 2;
  f.config.algorithm.kl = "full";
  StepSampler core(f.config, {}, 0, [] { return std::make_unique<Batched<Counter>>(Counter::spec(), 2); }, f.port);
  core.begin(0);
  core.add_credits(1);
  for (int i = 0; i < 3; ++i) core.on_reply(f.port.answer_of(f.port.next()));
  CHECK(f.port.rollouts.at(1)->grid().policy_parameters == Array::of<float>({2, 2, 2}, {0, 0, 0, 0, 10, 10, 10, 10}));
  f.port.parameters = 3;
  core.add_credits(1);
  CHECK(core.on_reply(f.port.answer_of(f.port.next())).value_or("").starts_with("policy_parameters is "));
}

TEST_CASE("step_sampler: the recurrent state of a row goes from a reply to the next request and into the rollout") {
  StepSamplerFixture f(4, 2, 1, {.state_size = 1, .sequence = 2, .burn_in = 0});
  f.core->add_credits(3);
  std::vector<float> observed, states;
  std::vector<uint8_t> starts;
  for (int i = 0; i < 13; ++i) {  // the last request is for the values after the third rollout
    const InferenceRequest request = f.port.next();
    const int64_t finals =
        request.steps().value_observations.empty() ? 0 : request.steps().value_observations.at("o").dim(0);
    REQUIRE(request.steps().value_state.size() == finals);
    for (int64_t k = 0; k < finals; ++k) {
      const float at = request.steps().value_observations.at("o").view<float>()[k];
      // Every third step ends an episode. For its final observation only the value is requested.
      if (at > 0) CHECK(request.steps().value_state.view<float>()[k] == at - 1);
    }
    if (request.steps().rows > 0) {
      REQUIRE(request.steps().state.shape() == Shape{2, 1});
      REQUIRE(request.steps().starts.shape() == Shape{2});
      for (int64_t n = 0; n < 2; ++n) {
        const float at = request.steps().observations.at("o").view<float>()[n];
        CHECK((request.steps().starts.view<uint8_t>()[n] != 0) == (at == 0));
        if (at > 0) CHECK(request.steps().state.view<float>()[n] == at - 1);
        observed.push_back(at);
        states.push_back(request.steps().state.view<float>()[n]);
        starts.push_back(request.steps().starts.view<uint8_t>()[n]);
      }
    }
    f.core->on_reply(f.port.answer_of(request));
  }
  REQUIRE(f.port.rollouts.size() == 3);
  CHECK(std::ranges::count(starts, 1) == 8);  // four episodes of each row begin in 12 steps
  for (size_t r = 0; r < 3; ++r) {
    const Rollout& rollout = *f.port.rollouts[r];
    REQUIRE(rollout.grid().starts.shape() == Shape{4, 2});
    REQUIRE(rollout.grid().chunk_states.shape() == Shape{2, 2, 1});
    for (size_t i = 0; i < 8; ++i) CHECK(rollout.grid().starts.view<uint8_t>()[i] == starts[8 * r + i]);
    for (size_t k = 0; k < 2; ++k)
      for (size_t n = 0; n < 2; ++n)
        CHECK(rollout.grid().chunk_states.view<float>()[2 * k + n] == states[8 * r + 4 * k + n]);
  }
}

TEST_CASE("step_sampler: waits for credits and for actions are times of the port's clock") {
  StepSamplerFixture f;
  f.port.time += 3s;
  f.core->add_credits(1);
  f.port.time += 2s;
  f.serve(1);
  f.port.time += 1s;  // the second request is not answered yet
  const WorkerReport report = f.core->report();
  CHECK(report.credit_wait_us == 3'000'000);
  CHECK(report.action_wait_us == 3'000'000);
}

TEST_CASE("step_sampler: a repeated request has the same recurrent state") {
  StepSamplerFixture f(4, 2, 1, {.state_size = 1, .sequence = 4, .burn_in = 0});
  f.core->add_credits(1);
  f.serve(2);
  const InferenceRequest first = f.port.next();
  f.core->ask_all_again(Role::sampling);
  const InferenceRequest again = f.port.next();
  CHECK(again.id == first.id);
  CHECK(again.steps().state == first.steps().state);
  CHECK(again.steps().starts == first.steps().starts);
}

TEST_CASE("step_sampler: a reply whose recurrent state does not fit is refused, and the request is repeated later") {
  StepSamplerFixture f(4, 2, 1, {.state_size = 1, .sequence = 4, .burn_in = 0});
  f.core->add_credits(1);
  InferenceReply reply = f.port.answer_of(f.port.next());
  reply.steps().state = Array(DType::f32, {2, 2});
  CHECK(f.core->on_reply(reply).value_or("").starts_with("states is "));
  CHECK(f.port.retries == std::vector<uint32_t>{0});
}

TEST_CASE("step_sampler: a loaded worker has the recurrent state of the one that was saved") {
  const Recurrence recurrence{.state_size = 1, .sequence = 2, .burn_in = 0};
  StepSamplerFixture saved(2, 2, 1, recurrence), loaded(2, 2, 1, recurrence), other(2, 2, 1);
  saved.core->add_credits(1);
  saved.serve(3);
  const std::string bytes = saved.core->save();
  loaded.core->load(bytes);
  CHECK(loaded.core->save() == bytes);
  CHECK_THROWS(other.core->load(bytes));
  loaded.core->add_credits(1);
  const InferenceRequest next = loaded.port.next();
  CHECK(next.steps().state.view<float>()[0] == 1);  // the observation of the second step
  CHECK(next.steps().starts.view<uint8_t>()[0] == 0);
}

TEST_CASE("step_sampler: a worker that is loaded from bytes continues like the one that was saved") {
  StepSamplerFixture saved(2, 2, 2), loaded(2, 2, 2);
  saved.core->add_credits(2);
  saved.serve(6);  // both groups are idle, in the middle of an episode
  REQUIRE(saved.port.requests.empty());
  const std::string bytes = saved.core->save();
  loaded.core->load(bytes);
  CHECK(loaded.core->save() == bytes);
  CHECK(loaded.core->report().env_steps == saved.core->report().env_steps);
  for (StepSamplerFixture* f : {&saved, &loaded}) {
    f->core->add_credits(2);
    f->port.rollouts.clear();
    f->port.finished = 0;
    while (!f->port.requests.empty()) f->serve(1);
    f->core->beat();
  }
  CHECK(saved.core->save() == loaded.core->save());
  CHECK(saved.port.finished == 4);  // the third step ends every episode
  CHECK(loaded.port.finished == 4);
  REQUIRE(loaded.port.rollouts.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(loaded.port.rollouts[i]->sequence == saved.port.rollouts[i]->sequence);
    CHECK(loaded.port.rollouts[i]->grid().observations == saved.port.rollouts[i]->grid().observations);
    CHECK(loaded.port.rollouts[i]->grid().next_values == saved.port.rollouts[i]->grid().next_values);
  }
}

TEST_CASE("step_sampler: saving fails during a rollout, and loading fails for a worker with other sizes") {
  StepSamplerFixture f(2, 2, 1), wider(2, 3, 1);
  CHECK_THROWS_AS(wider.core->load(f.core->save()), InvariantError);
  CHECK_THROWS_WITH(f.core->load("xyz"), doctest::Contains("worker 0: its saved state of 3 bytes"));
  f.core->add_credits(1);
  CHECK_THROWS_AS(f.core->save(), InvariantError);
}

TEST_CASE("step_sampler: the time of each step is told once, with the next report") {
  StepSamplerFixture f;
  f.core->add_credits(1);
  f.serve(2);
  const WorkerTimes times = f.core->take_times();
  uint64_t steps = 0;
  for (const auto& [bucket, count] : times.step_seconds.buckets) steps += count;
  CHECK(steps == 2);
  CHECK(times.answer_seconds.buckets.empty());
  CHECK(f.core->take_times().step_seconds.buckets.empty());
}
