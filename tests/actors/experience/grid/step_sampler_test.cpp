#include "actors/experience/grid/step_sampler.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "envs/batched.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// An environment that counts its steps. An episode has `length` steps; a step throws if `broken` is set.
class Counter {
 public:
  struct State {
    int32_t steps = 0;
  };
  static inline int length = 3;
  static inline bool broken = false;
  static inline std::deque<bool> hanging;  // which of the next resets fail

  static EnvSpec spec() {
    EnvSpec spec;
    spec.id = "Counter";
    spec.observations = {{"o", DType::f32, {1}}};
    spec.action = {ActionKind::discrete, {2}, {}, {}, 1, false};
    spec.max_episode_steps = length;
    return spec;
  }
  void reset(Rng&) {
    bool hangs = false;
    if (!hanging.empty()) {
      hangs = hanging.front();
      hanging.pop_front();
    }
    if (hangs) throw std::runtime_error("hangs");
    state.steps = 0;
  }
  RowStep step(int32_t, Rng&) {
    if (broken) throw std::runtime_error("broken on purpose");
    ++state.steps;
    return {1.0f, false, false};
  }
  void observe(RowWriter out) const { out.array<float>()[0] = static_cast<float>(state.steps); }

  State state;
};

// Allows only action 1, and fails in its first step.
class MaskedCounter : public Counter {
 public:
  static EnvSpec spec() {
    EnvSpec spec = Counter::spec();
    spec.action.masked = true;
    return spec;
  }
  void mask(std::span<uint8_t> allowed) const { allowed[0] = 0, allowed[1] = 1; }
  RowStep step(int32_t action, Rng& rng) {
    if (!std::exchange(failed_, true)) throw std::runtime_error("broken on purpose");
    return Counter::step(action, rng);
  }

 private:
  bool failed_ = false;
};

// Begins each episode with another observation.
class Level : public Counter {
 public:
  void reset(Rng& rng) { level_ = rng.uniform(0.0f, 1.0f); }
  void observe(RowWriter out) const { out.array<float>()[0] = level_; }

 private:
  float level_ = 0;
};

// Records what the worker sends, and answers like a policy whose value is ten times the observation.
struct Port : SamplerPort {
  void ask(InferenceRequest request) override { requests.push_back(std::move(request)); }
  void pause(uint32_t) override { ++pauses; }
  void score(ScoreRequest) override { CHECK_MESSAGE(false, "steps of environments need no scores"); }
  void push(RolloutPtr rollout) override {
    finished += rollout->episodes.count();
    rollouts.push_back(std::move(rollout));
  }
  void wake_later(uint32_t group, uint32_t row, std::chrono::milliseconds delay) override {
    if (row == Sampler::kAskAgain) return retries.push_back(group);
    revivals.emplace_back(group, row);
    delays.push_back(delay.count());
  }

  static Array values_of(const Array& observations) {
    Array values(DType::f32, {observations.dim(0)});
    for (int64_t i = 0; i < observations.dim(0); ++i)
      values.mutable_view<float>()[static_cast<size_t>(i)] = 10 * observations.view<float>()[static_cast<size_t>(i)];
    return values;
  }
  InferenceReply answer_of(const InferenceRequest& asked) const {
    const StepRequest& request = asked.steps();
    InferenceReply reply;
    reply.id = asked.id;
    reply.group = asked.group;
    reply.version = {0, version};
    StepReply& body = reply.body.emplace<StepReply>();
    const auto rows = static_cast<int64_t>(request.rows);
    if (rows > 0) {
      body.actions = Array(DType::i32, {rows, 1, 1});
      body.log_probs = Array(DType::f32, {rows, 1});
      body.values = values_of(request.observations.at("o"));
    }
    if (parameters > 0 && rows > 0) {
      body.policy_parameters = Array(DType::f32, {rows, parameters});
      const auto observed = request.observations.at("o").view<float>();
      const auto all = body.policy_parameters.mutable_view<float>();
      for (size_t i = 0; i < all.size(); ++i) all[i] = 10 * observed[i / static_cast<size_t>(parameters)];
    }
    if (!request.value_observations.empty()) body.extra_values = values_of(request.value_observations.at("o"));
    if (recurrent && rows > 0) {
      body.state = Array(DType::f32, {rows, 1});
      std::ranges::copy(request.observations.at("o").view<float>(), body.state.mutable_view<float>().begin());
    }
    return reply;
  }
  InferenceRequest next() {
    REQUIRE_FALSE(requests.empty());
    InferenceRequest request = std::move(requests.front());
    requests.pop_front();
    return request;
  }

  std::deque<InferenceRequest> requests;
  std::vector<RolloutPtr> rollouts;
  std::vector<uint32_t> retries;
  std::vector<std::pair<uint32_t, uint32_t>> revivals;
  std::vector<int64_t> delays;
  int64_t finished = 0;
  int pauses = 0;
  uint64_t version = 0;
  bool recurrent = false;  // replies with a recurrent state that equals the observation
  int64_t parameters = 0;  // policy parameters per row, each ten times the observation
};

struct Fixture {
  explicit Fixture(int64_t length = 2, int64_t rows = 2, int64_t groups = 1, const Recurrence& recurrence = {}) {
    Counter::broken = false;
    Counter::length = 3;
    config.rollout.length = length;
    config.workers.groups = groups;
    core = std::make_unique<StepSampler>(
        config, recurrence, 0, [rows] { return std::make_unique<Batched<Counter>>(Counter::spec(), rows); }, port);
    port.recurrent = recurrence.state_size > 0;
    core->begin(0);
  }
  void serve(int count) {
    for (int i = 0; i < count; ++i) core->on_reply(port.answer_of(port.next()));
  }

  RunConfig config;
  Port port;
  std::unique_ptr<StepSampler> core;
};

}  // namespace

TEST_CASE("step_sampler: a worker is failing if the last step of every row failed, until a row makes a step") {
  Fixture f(8, 2);
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
  Fixture f(8, 1, 2);
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
  Fixture f(2, 2);
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
struct Starts : Fixture {
  explicit Starts(const std::deque<bool>& no_start) : Fixture(8, 1, static_cast<int64_t>(no_start.size())) {
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
  Fixture f(8, 2);
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

TEST_CASE("step_sampler: without a credit there is no request") {
  Fixture f;
  CHECK(f.port.requests.empty());
  f.core->add_credits(1);
  CHECK(f.port.requests.size() == 1);
}

TEST_CASE("step_sampler: without a further credit a request for values only completes the rollout") {
  Fixture f;
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
  Fixture f;
  f.core->add_credits(2);
  f.serve(2);
  CHECK(f.port.requests.front().steps().rows == 2);
  CHECK(f.port.rollouts.empty());
  f.serve(1);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->grid().next_values.view<float>()[2] == 20.0f);
}

TEST_CASE("step_sampler: a truncated episode gets the value of its final observation") {
  Fixture f(4, 1);
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
  Fixture f(2, 1);  // the third step truncates
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
  Fixture f(3, 1);
  f.core->add_credits(1);
  f.serve(4);
  REQUIRE(f.port.rollouts.size() == 1);
  CHECK(f.port.rollouts[0]->grid().next_values.view<float>()[2] == 30.0f);
}

TEST_CASE("step_sampler: of two replies to a request that was repeated the first one counts") {
  Fixture f;
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
  Fixture f;
  f.core->add_credits(1);
  const InferenceRequest first = f.port.next();
  f.core->ask_all_again(Role::sampling);
  const InferenceRequest second = f.port.next();
  CHECK(second.id == first.id);
  CHECK(second.steps().seeds == first.steps().seeds);
  CHECK(second.steps().observations == first.steps().observations);
}

TEST_CASE("step_sampler: a request is repeated after a pause if it failed, or after some beats without a reply") {
  Fixture f;
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

TEST_CASE("step_sampler: a worker counts as failing while inference keeps failing on its request") {
  Fixture f;
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
  Fixture f;
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
  Fixture f(2, 2, 2);
  f.core->add_credits(1);
  CHECK(f.port.requests.size() == 1);
  f.core->add_credits(1);
  REQUIRE(f.port.requests.size() == 2);
  CHECK(f.port.requests[0].group != f.port.requests[1].group);
}

TEST_CASE("step_sampler: a group whose rows all failed waits until one is revived") {
  Fixture f(4, 1);
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
  Fixture f(4, 1);
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

TEST_CASE("step_sampler: rollouts of a worker are numbered without gaps") {
  Fixture f;
  f.core->add_credits(3);
  f.serve(7);
  REQUIRE(f.port.rollouts.size() == 3);
  for (uint64_t i = 0; i < 3; ++i) CHECK(f.port.rollouts[i]->sequence == i);
}

TEST_CASE("step_sampler: policy parameters go from replies into the rollout if the loss needs them") {
  Fixture f;
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
  Fixture f(4, 2, 1, {.state_size = 1, .sequence = 2, .burn_in = 0});
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

TEST_CASE("step_sampler: the first observation of a row after a failure starts an episode") {
  Fixture f(8, 1, 1, {.state_size = 1, .sequence = 1, .burn_in = 0});
  f.core->add_credits(1);
  f.serve(1);
  Counter::broken = true;
  f.serve(1);
  Counter::broken = false;
  f.core->wake(0, 0);
  const InferenceRequest request = f.port.next();
  CHECK(request.steps().starts.view<uint8_t>()[0] == 1);
}

TEST_CASE("step_sampler: a repeated request has the same recurrent state") {
  Fixture f(4, 2, 1, {.state_size = 1, .sequence = 4, .burn_in = 0});
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
  Fixture f(4, 2, 1, {.state_size = 1, .sequence = 4, .burn_in = 0});
  f.core->add_credits(1);
  InferenceReply reply = f.port.answer_of(f.port.next());
  reply.steps().state = Array(DType::f32, {2, 2});
  CHECK(f.core->on_reply(reply).value_or("").starts_with("states is "));
  CHECK(f.port.retries == std::vector<uint32_t>{0});
}

TEST_CASE("step_sampler: a loaded worker has the recurrent state of the one that was saved") {
  const Recurrence recurrence{.state_size = 1, .sequence = 2, .burn_in = 0};
  Fixture saved(2, 2, 1, recurrence), loaded(2, 2, 1, recurrence), other(2, 2, 1);
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
  Fixture saved(2, 2, 2), loaded(2, 2, 2);
  saved.core->add_credits(2);
  saved.serve(6);  // both groups are idle, in the middle of an episode
  REQUIRE(saved.port.requests.empty());
  const std::string bytes = saved.core->save();
  loaded.core->load(bytes);
  CHECK(loaded.core->save() == bytes);
  CHECK(loaded.core->report().env_steps == saved.core->report().env_steps);
  for (Fixture* f : {&saved, &loaded}) {
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
  Fixture f(2, 2, 1), wider(2, 3, 1);
  CHECK_THROWS_AS(wider.core->load(f.core->save()), InvariantError);
  CHECK_THROWS_WITH(f.core->load("xyz"), doctest::Contains("worker 0: its saved state of 3 bytes"));
  f.core->add_credits(1);
  CHECK_THROWS_AS(f.core->save(), InvariantError);
}
