#include "actors/peer_checks.h"

#include <functional>
#include <limits>

#include "actors/experience/grid/grid_checks.h"
#include "actors/experience/grid/rollout_writer.h"
#include "actors/experience/kinds.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Fixture : RunSpec {
  Fixture() {
    config.rollout.length = 4;
    config.env.rows = 2;
    config.workers.groups = 2;
    spec.observations = {{"state", DType::f32, {3}}};
    spec.action.bins = {5};
    RolloutWriter writer(spec, 4, 2);
    writer.record_policy(0, Array(DType::i32, {2, 1, 1}), Array(DType::f32, {2, 1}), Array(DType::f32, {2}), {1, 7});
    EnvStep step = EnvStep::allocate(spec, 2);
    for (int32_t& executed : step.executed.mutable_view<int32_t>()) executed = 1;
    writer.record_step(0, step, 1, 0);
    rollout = *writer.close(config.algorithm, 3, 0);
  }
  std::optional<std::string> changed(const std::function<void(Rollout&)>& change, PolicyVersion newest = {1, 9}) const {
    Rollout copy = rollout;
    change(copy);
    return misfit(*this, newest, copy);
  }

  size_t most_bytes() const { return kind_of(*this).most_bytes_of_rollout(*this); }

  Rollout rollout;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "peer_checks: a rollout as a worker makes it fits") {
  CHECK(rollout.samples == 2);
  CHECK(!changed([](Rollout&) {}));
  CHECK(!changed([](Rollout&) {}, {1, 7}));
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: a rollout must have the recurrent states of the run's model") {
  const Recurrence model{.state_size = 3, .sequence = 2, .burn_in = 0};
  Rollout recurrent = rollout;
  const auto refused = [&](const Recurrence& wanted) {
    recurrence = wanted;
    return misfit(*this, {1, 9}, recurrent);
  };
  CHECK(refused(model));
  recurrent.grid().starts = Array(DType::u8, {4, 2});
  recurrent.grid().chunk_states = Array(DType::f32, {2, 2, 3});
  CHECK(!refused(model));
  CHECK(refused({}));
  CHECK(refused({.state_size = 3, .sequence = 4, .burn_in = 0}));
  CHECK(refused({.state_size = 4, .sequence = 2, .burn_in = 0}));
  recurrent.grid().chunk_states.mutable_view<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(refused(model) == "chunk_states are not finite");
  recurrent.grid().chunk_states = Array(DType::f32, {2, 2, 3});
  recurrent.grid().starts.mutable_view<uint8_t>()[3] = 2;
  CHECK(refused(model) == "starts are neither 0 nor 1");
  recurrent.grid().starts = Array(DType::u8, {4, 1});
  CHECK(refused(model));
}

TEST_CASE_FIXTURE(Fixture,
                  "peer_checks: a rollout must have the estimates that the run's estimator needs, and no others") {
  const Array estimates = rollout.grid().advantages;
  config.algorithm.advantage = "grpo";  // the trainer computes the advantages
  CHECK(changed([](Rollout&) {}));
  rollout.grid().advantages = {};
  CHECK(!changed([](Rollout&) {}));
  CHECK(changed([](Rollout& r) { r.grid().returns = {}; }));
  config.algorithm.advantage = "vtrace";  // the trainer computes the value targets too
  rollout.grid().last_observations.set("state", Array(DType::f32, {2, 3}));
  CHECK(changed([](Rollout&) {}));
  rollout.grid().returns = {};
  CHECK(!changed([](Rollout&) {}));
  CHECK(changed([&](Rollout& r) { r.grid().advantages = estimates; }));
  CHECK(changed([](Rollout& r) { r.grid().last_observations.clear(); }));
}

TEST_CASE_FIXTURE(Fixture,
                  "peer_checks: a rollout must have policy parameters if the run's loss needs them, and only then") {
  const auto carrying = [&](int64_t parameters) {
    return changed([&](Rollout& r) { r.grid().policy_parameters = Array(DType::f32, {4, 2, parameters}); });
  };
  CHECK(carrying(5));
  const size_t without = most_bytes();
  config.algorithm.kl = "full";
  CHECK(changed([](Rollout&) {}));
  CHECK(!carrying(5));
  CHECK(carrying(10));
  CHECK(most_bytes() == without + 4 * 2 * 5 * sizeof(float));
  CHECK(changed([](Rollout& r) { r.grid().policy_parameters = Array(DType::f64, {4, 2, 5}); }));
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: the mask must allow the action of every valid step") {
  spec.action.masked = true;
  rollout.grid().action_mask = Array(DType::u8, {4, 2, 5});
  const auto mask = rollout.grid().action_mask.mutable_view<uint8_t>();
  CHECK(changed([](Rollout&) {}));
  mask[0] = mask[5] = 1;  // both rows took action 0 in the first step, the only valid step
  CHECK(!changed([](Rollout&) {}));
}

TEST_CASE_FIXTURE(
    Fixture, "peer_checks: a rollout with action chunks must have the number of executed steps, within its limits") {
  spec.action.chunk = 3;
  rollout.grid().actions = Array(DType::i32, {4, 2, 3, 1});
  rollout.grid().log_probs = Array(DType::f32, {4, 2, 3});
  CHECK(changed([](Rollout&) {}));
  rollout.grid().executed = Array::of<int32_t>({4, 2}, {3, 1, 0, 0, 0, 0, 0, 0});
  rollout.env_steps = 4;
  CHECK(!changed([](Rollout&) {}));
  for (const int32_t wrong : {-1, 0, 4})
    CHECK(changed([&](Rollout& r) { r.grid().executed = Array::of<int32_t>({4, 2}, {3, wrong, 0, 0, 0, 0, 0, 0}); }));
  CHECK(changed([&](Rollout& r) { r.grid().executed = Array::of<int32_t>({4, 2}, {3, 1, 0, 0, 0, 0, 0, 4}); }));
}

TEST_CASE_FIXTURE(
    Fixture,
    "peer_checks: the size limits of rollouts and requests are between the size of their arrays and twice that") {
  config.rollout.length = 4096;  // so that the arrays outweigh the allowance for names
  config.env.rows = 64;
  config.inference.max_batch = 1 << 18;
  const size_t samples = 4096 * 64, state = 3 * sizeof(float);
  // Actions and log_probs; values, next_values, rewards, advantages, returns, executed, task; flags; version;
  // final_steps; episodes.
  const size_t most_of_sample = 2 * state + 8 + 7 * 4 + 3 + 8 + 8 + 9;
  CHECK(most_bytes() > samples * most_of_sample + 64 * state);
  CHECK(most_bytes() < 2 * samples * most_of_sample);
  CHECK(most_bytes_of_step_request(*this) > (size_t{1} << 18) * (state + sizeof(int64_t)));
  CHECK(most_bytes_of_step_request(*this) < (size_t{2} << 18) * (state + sizeof(int64_t)));
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: the arrays of episodes must have the right types") {
  const auto two = [](DType last) {
    return Episodes{Array(DType::f32, {2}), Array(DType::i32, {2}), Array(last, {2})};
  };
  CHECK(!changed([&](Rollout& r) { r.episodes = two(DType::u8); }));
  CHECK(changed([&](Rollout& r) { r.episodes = two(DType::i32); }));
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: a rollout with any wrong member is refused") {
  const std::function<void(Rollout&)> changes[] = {
      [](Rollout& r) { r.samples = 3; },
      [](Rollout& r) { r.samples = ~uint64_t{0}; },
      [](Rollout& r) { r.env_steps = 1; },
      [](Rollout& r) { r.env_steps = 1'000'000; },
      [](Rollout& r) { r.epoch = 2; },
      [](Rollout& r) { r.newest = 6; },
      [](Rollout& r) { r.oldest = 8; },
      [](Rollout& r) { r.newest = 10; },
      [](Rollout& r) { r.grid().values = Array(DType::f32, {4, 3}); },
      [](Rollout& r) { r.grid().values = Array(DType::f64, {4, 2}); },
      [](Rollout& r) { r.grid().advantages = {}; },
      [](Rollout& r) { r.grid().returns = Array(DType::f32, {4, 3}); },
      [](Rollout& r) { r.grid().observations.set("state", Array(DType::f32, {4, 2, 4})); },
      [](Rollout& r) { r.grid().observations.set("more", Array(DType::f32, {4, 2, 3})); },
      [](Rollout& r) { r.grid().observations.clear(); },
      [](Rollout& r) { r.grid().actions = Array::of<int32_t>({4, 2, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 5}); },
      [](Rollout& r) { r.grid().actions = Array::of<int32_t>({4, 2, 1, 1}, {-1, 0, 0, 0, 0, 0, 0, 0}); },
      [](Rollout& r) { r.grid().task = Array(DType::i32, {4, 2}); },
      [](Rollout& r) { r.grid().last_observations.set("state", Array(DType::f32, {2, 3})); },
      [](Rollout& r) { r.grid().final_observations = r.grid().observations; },
      [](Rollout& r) { r.grid().final_steps = Array::of<int32_t>({1, 2}, {4, 0}); },
      [](Rollout& r) { r.grid().final_steps = Array::of<int32_t>({1, 2}, {0, 0}); },  // without an observation
      [](Rollout& r) { r.group = 2; },
      [](Rollout& r) { r.grid().executed = Array(DType::i32, {4, 2}); },
      [](Rollout& r) { r.episodes.returns = Array(DType::f32, {1}); },
      [](Rollout& r) { r.episodes = {Array(DType::f32, {3}), Array(DType::i32, {3}), Array(DType::u8, {3})}; },
  };
  for (size_t i = 0; i < std::size(changes); ++i) {
    CAPTURE(i);
    CHECK(changed(changes[i]));
  }
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: hellos and reports must have the sizes of the run") {
  CHECK(!misfit(config, WorkerHello{1, 2, 8}));
  CHECK(misfit(config, WorkerHello{1, 2, 0}));
  CHECK(misfit(config, WorkerHello{1, 0xffffffff, 8}));
  WorkerReport report;
  report.partial = {{0, 8, 8, {}}, {0, 8, 8, {}}, {1, 1, 1, {}}};
  CHECK(!misfit(config, spec, report));
  const auto changed = [&](const std::function<void(PartialRollout&)>& change) {
    WorkerReport copy = report;
    change(copy.partial[2]);
    return misfit(config, spec, copy);
  };
  CHECK(changed([](PartialRollout& p) { p.samples = 9; }));
  CHECK(changed([](PartialRollout& p) { p.env_steps = ~uint64_t{0}; }));
  CHECK(changed([](PartialRollout& p) { p.group = 2; }));
  CHECK(changed([](PartialRollout& p) { p.episodes.returns = Array(DType::f32, {1}); }));
  report.partial.resize(5);
  CHECK(misfit(config, spec, report));

  InferenceReport inference;
  inference.batch_rows = Array(DType::i32, {2});
  inference.latency_us = Array(DType::f32, {2});
  CHECK(!misfit(inference));
  inference.latency_us = Array(DType::i64, {2});
  CHECK(misfit(inference));
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: a reply must have what its request asked for, finite and within range") {
  recurrence = {.state_size = 3, .sequence = 2, .burn_in = 0};
  StepRequest request;
  request.rows = 2;
  request.value_observations.set("state", Array(DType::f32, {1, 3}));
  StepReply reply;
  reply.actions = Array(DType::i32, {2, 1, 1});
  reply.log_probs = Array(DType::f32, {2, 1});
  reply.values = Array(DType::f32, {2});
  reply.extra_values = Array(DType::f32, {1});
  reply.state = Array(DType::f32, {2, 3});
  CHECK(!misfit(config, spec, recurrence, request, reply));
  const auto refused = [&](const std::function<void(StepReply&)>& change) {
    StepReply copy = reply;
    change(copy);
    return misfit(config, spec, recurrence, request, copy).value_or("");
  };
  CHECK(refused([](StepReply& r) { r.actions = Array(DType::i64, {2, 1, 1}); }) ==
        "actions is int64[2, 1, 1], expected int32[2, 1, 1]");
  CHECK(refused([](StepReply& r) { r.log_probs = Array(DType::f32, {1, 1}); }) != "");
  CHECK(refused([](StepReply& r) { r.values = Array(DType::f64, {2}); }) != "");
  CHECK(refused([](StepReply& r) { r.extra_values = {}; }) != "");
  CHECK(refused([](StepReply& r) { r.state = Array(DType::f32, {2, 4}); }) != "");
  CHECK(refused([](StepReply& r) { r.policy_parameters = Array(DType::f32, {2, 5}); }) ==
        "policy_parameters are given, but the request did not ask for them");
  for (Array StepReply::* field :
       {&StepReply::log_probs, &StepReply::values, &StepReply::extra_values, &StepReply::state})
    CHECK(refused([&](StepReply& r) {
            r.*field = Array(DType::f32, (r.*field).shape());
            (r.*field).mutable_view<float>()[0] = std::numeric_limits<float>::quiet_NaN();
          }).find(" are not finite") != std::string::npos);
  for (const int32_t action : {-1, 5})
    CHECK(refused([&](StepReply& r) { r.actions = Array::of<int32_t>({2, 1, 1}, {4, action}); }) ==
          "an action is out of range");
  CHECK(most_bytes_of_step_reply(*this) > 2 * 3 * sizeof(float));
  request.rows = uint64_t{1} << 63;
  CHECK(misfit(spec, Recurrence(), request) == "the request has 9223372036854775808 rows");
}

TEST_CASE_FIXTURE(Fixture, "peer_checks: a request must have finite recurrent states, and starts that are 0 or 1") {
  recurrence = {.state_size = 3, .sequence = 2, .burn_in = 0};
  StepRequest request;
  request.rows = 2;
  request.observations.set("state", Array(DType::f32, {2, 3}));
  request.seeds = Array(DType::i64, {2});
  request.state = Array(DType::f32, {2, 3});
  request.starts = Array(DType::u8, {2});
  CHECK(!misfit(spec, recurrence, request));
  request.state.mutable_view<float>()[5] = std::numeric_limits<float>::infinity();
  CHECK(misfit(spec, recurrence, request) == "recurrent states are not finite");
  request.state = Array(DType::f32, {2, 3});
  request.starts.mutable_view<uint8_t>()[1] = 7;
  CHECK(misfit(spec, recurrence, request) == "starts are neither 0 nor 1");
}
