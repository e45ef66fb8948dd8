#pragma once
// A StepSampler with environments that count, and a policy that answers when a test wants it.

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "actors/experience/grid/step_sampler.h"
#include "envs/batched.h"
#include "tests/support/test.h"

namespace troupe::test {

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
  std::chrono::steady_clock::time_point now() const override { return time; }

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
  std::chrono::steady_clock::time_point time;
  bool recurrent = false;  // replies with a recurrent state that equals the observation
  int64_t parameters = 0;  // policy parameters per row, each ten times the observation
};

struct StepSamplerFixture {
  explicit StepSamplerFixture(int64_t length = 2, int64_t rows = 2, int64_t groups = 1,
                              const Recurrence& recurrence = {}) {
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

}  // namespace troupe::test
