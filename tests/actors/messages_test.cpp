#include "actors/messages.h"

#include <bit>
#include <cmath>
#include <limits>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "runtime/caf/system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

struct Fixture {
  Fixture() {
    register_messages(config);
    configure(config, {SchedulerKind::single_step, 1, false, {}});
  }

  template <class T>
  std::vector<char> bytes_of(T value) {
    caf::actor_system system(config);
    std::vector<char> bytes;
    caf::binary_serializer sink(system, bytes);
    REQUIRE_FALSE(sink(value));
    return bytes;
  }
  template <class T>
  caf::error parse(const std::vector<char>& bytes, T& value) {
    caf::actor_system system(config);
    caf::binary_deserializer source(system, bytes);
    return source(value);
  }
  template <class T>
  T round_trip(const T& value) {
    T result{};
    REQUIRE_FALSE(parse(bytes_of(value), result));
    return result;
  }

  caf::actor_system_config config;
};

Array odd_floats() {
  constexpr float inf = std::numeric_limits<float>::infinity();
  return Array::of<float>({6}, {NAN, inf, -inf, -0.0f, 1e-40f, 1.5f});
}

// A body of arrays, each with another length.
template <class Body>
Body different_arrays() {
  Body body;
  int64_t length = 1;
  Body::fields(body, [&](auto&... each) { ((each = Array(DType::i32, {length++})), ...); });
  return body;
}
template <class Body>
std::vector<Array> arrays_of(const Body& body) {
  return Body::fields(body, [](const auto&... each) { return std::vector<Array>{each...}; });
}

}  // namespace

TEST_CASE("messages: arrays are sent bit for bit: NaN, infinities, -0, denormals, empty shapes") {
  Fixture f;
  CHECK(f.round_trip(odd_floats()) == odd_floats());
  for (DType dtype : kDTypes)
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{2, 3}}) {
      const Array array(dtype, shape);
      CHECK(f.round_trip(array) == array);
    }
}

TEST_CASE("messages: a slice is sent without the rest of its array") {
  Fixture f;
  const Array whole = Array::of<int32_t>({4}, {1, 2, 3, 4});
  CHECK(f.round_trip(whole.slice(1, 3)) == Array::of<int32_t>({2}, {2, 3}));
}

TEST_CASE("messages: requests and replies round-trip") {
  Fixture f;
  const StepRequest steps{
      6, {{"o", odd_floats()}}, Array(DType::u8, {6, 2}), Array(DType::i64, {6}), {{"o", odd_floats()}}};
  const InferenceRequest got = f.round_trip(InferenceRequest{7, 3, 1, steps});
  CHECK(got.id == 7);
  CHECK(got.worker == 3);
  CHECK(got.group == 1);
  CHECK(got.steps().rows == 6);
  CHECK(got.steps().observations == steps.observations);
  CHECK(got.steps().value_observations == steps.value_observations);
  CHECK(got.steps().seeds == steps.seeds);
  const StepReply result{Array(DType::i32, {2, 1, 1}), odd_floats(), odd_floats(), Array(), Array(), odd_floats()};
  const InferenceReply back = f.round_trip(InferenceReply{9, 2, {4, 5}, Fault::none, "", result});
  CHECK(back.version == PolicyVersion{4, 5});
  CHECK(back.steps().log_probs == result.log_probs);
  CHECK(back.steps().policy_parameters == result.policy_parameters);
  const InferenceReply failed = f.round_trip(InferenceReply{9, 2, {4, 5}, Fault::forward_failed, "text", {}});
  CHECK(failed.fault == Fault::forward_failed);
  CHECK(failed.error == "text");
  CHECK(std::holds_alternative<NoResult>(failed.body));
}

TEST_CASE("messages: requests for answers and their replies round-trip") {
  Fixture f;
  const auto request = different_arrays<AnswerRequest>();
  CHECK(arrays_of(f.round_trip(InferenceRequest{7, 3, 1, request}).answers()) == arrays_of(request));
  auto result = different_arrays<AnswerReply>();
  result.log_probs = odd_floats();
  const InferenceReply back = f.round_trip(InferenceReply{9, 2, {4, 5}, Fault::none, "", result});
  CHECK(arrays_of(back.answers()) == arrays_of(result));
}

TEST_CASE("messages: rollouts of answers round-trip, with their arrays in the order of the protocol") {
  Fixture f;
  auto rollout = std::make_shared<Rollout>();
  const Answers& a = rollout->body.emplace<Answers>(different_arrays<Answers>());
  const RolloutPtr got = f.round_trip(RolloutMessage{rollout}).rollout;
  CHECK(arrays_of(got->answers()) == arrays_of(a));
  const AnswerReply& s = a.sampled;
  CHECK(arrays_of(a) == std::vector{a.prompts, a.prompt_offsets, s.tokens, s.offsets, a.group, s.log_probs, s.version,
                                    a.rewards, a.right, s.finish, a.baselines, a.reference, a.messages.ids,
                                    a.messages.lengths, a.turn_rewards});
}

TEST_CASE("messages: a body of an unknown kind is an error") {
  Fixture f;
  InferenceRequest request{7, 3, 1, AnswerRequest{}};
  std::vector<char> bytes = f.bytes_of(request);
  const size_t kind = 8 + 8 + 4;
  REQUIRE(bytes.at(kind) == 1);
  bytes[kind] = 3;
  CHECK(f.parse(bytes, request));
}

TEST_CASE("messages: rollouts round-trip with every member") {
  Fixture f;
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = 5;
  rollout->sequence = 6;
  rollout->epoch = 1;
  rollout->oldest = 2;
  rollout->newest = 3;
  rollout->samples = 4;
  rollout->unscored = 7;
  rollout->verifier_failed = 8;
  rollout->baselines = 9;
  rollout->env_steps = 32;
  rollout->grid().observations = {{"a", odd_floats()}, {"b", Array(DType::u8, {2, 3, 4})}};
  for (Array* array :
       {&rollout->grid().action_mask, &rollout->grid().actions, &rollout->grid().log_probs, &rollout->grid().executed,
        &rollout->grid().values, &rollout->grid().next_values, &rollout->grid().rewards, &rollout->grid().terminated,
        &rollout->grid().truncated, &rollout->grid().valid, &rollout->grid().version, &rollout->grid().advantages,
        &rollout->grid().returns, &rollout->grid().final_steps, &rollout->grid().task, &rollout->grid().starts,
        &rollout->grid().chunk_states, &rollout->grid().policy_parameters})
    *array = odd_floats();
  rollout->grid().last_observations = rollout->grid().final_observations = rollout->grid().observations;
  const RolloutPtr got = f.round_trip(RolloutMessage{rollout}).rollout;
  CHECK(got->worker == 5);
  CHECK(got->sequence == 6);
  CHECK(got->epoch == 1);
  CHECK(got->oldest == 2);
  CHECK(got->newest == 3);
  CHECK(got->samples == 4);
  CHECK(got->unscored == 7);
  CHECK(got->verifier_failed == 8);
  CHECK(got->baselines == 9);
  CHECK(got->env_steps == 32);
  CHECK(got->grid().observations == rollout->grid().observations);
  for (const auto& [a, b] : {std::pair(&got->grid().action_mask, &rollout->grid().action_mask),
                             {&got->grid().actions, &rollout->grid().actions},
                             {&got->grid().log_probs, &rollout->grid().log_probs},
                             {&got->grid().executed, &rollout->grid().executed},
                             {&got->grid().values, &rollout->grid().values},
                             {&got->grid().next_values, &rollout->grid().next_values},
                             {&got->grid().rewards, &rollout->grid().rewards},
                             {&got->grid().terminated, &rollout->grid().terminated},
                             {&got->grid().truncated, &rollout->grid().truncated},
                             {&got->grid().valid, &rollout->grid().valid},
                             {&got->grid().version, &rollout->grid().version},
                             {&got->grid().advantages, &rollout->grid().advantages},
                             {&got->grid().returns, &rollout->grid().returns},
                             {&got->grid().final_steps, &rollout->grid().final_steps},
                             {&got->grid().task, &rollout->grid().task},
                             {&got->grid().starts, &rollout->grid().starts},
                             {&got->grid().chunk_states, &rollout->grid().chunk_states},
                             {&got->grid().policy_parameters, &rollout->grid().policy_parameters}})
    CHECK(*a == *b);
  CHECK(got->grid().last_observations == rollout->grid().last_observations);
  CHECK(got->grid().final_observations == rollout->grid().final_observations);
}

TEST_CASE("messages: reports and small messages round-trip") {
  Fixture f;
  const WorkerReport worker = f.round_trip(WorkerReport{1,
                                                        2,
                                                        {{1, 3, 4, {odd_floats(), Array(), Array()}}},
                                                        true,
                                                        5,
                                                        6,
                                                        7,
                                                        8,
                                                        9,
                                                        10,
                                                        11,
                                                        12,
                                                        13,
                                                        "e",
                                                        14,
                                                        15,
                                                        {16, 17, 18, 19, 20, 21, 22, 23},
                                                        {},
                                                        false,
                                                        {{{{3, 22}, {4, 23}}, 1.5}, {}}});
  CHECK(worker.last);
  REQUIRE(worker.partial.size() == 1);
  CHECK(worker.partial[0].env_steps == 4);
  CHECK(worker.partial[0].episodes.returns == odd_floats());
  CHECK(worker.rss_bytes == 9);
  CHECK(worker.busy_us == 10);
  CHECK(worker.action_wait_us == 13);
  CHECK(worker.last_error == "e");
  CHECK(worker.verifier_bytes == 15);
  CHECK(worker.verifier.calls == 16);
  CHECK(worker.verifier.wait_us == 21);
  CHECK(worker.verifier.replied == 22);
  CHECK(worker.verifier.failed_replies == 23);
  CHECK(worker.times.step_seconds.buckets == std::vector<std::pair<uint16_t, uint64_t>>{{3, 22}, {4, 23}});
  CHECK(worker.times.step_seconds.sum == 1.5);
  CHECK(f.round_trip(InferenceReport{1, {2, 3}, 4, 5, 6, 7, 8, 9, 10, Array(), odd_floats()}).latency_us ==
        odd_floats());
  const ProcessReport process = f.round_trip(ProcessReport{{{"worker", 1, 2, 3, 4}, {"grader", 5, 6, 7, 8}}});
  REQUIRE(process.actors.size() == 2);
  CHECK(process.actors[0].kind == "worker");
  CHECK(process.actors[0].actors == 1);
  CHECK(process.actors[0].busy_us == 2);
  CHECK(process.actors[1].blocked_us == 7);
  CHECK(process.actors[1].oldest_us == 8);
  InferenceReport report;
  report.mixed_answers = 11;
  report.recomputed = 12;
  report.waited_steps = 13;
  report.weights_wait_us = 14;
  report.histories = 15;
  report.reused = 16;
  const InferenceReport received = f.round_trip(report);
  CHECK(received.mixed_answers == 11);
  CHECK(received.recomputed == 12);
  CHECK(received.waited_steps == 13);
  CHECK(received.weights_wait_us == 14);
  CHECK(received.histories == 15);
  CHECK(received.reused == 16);
  CHECK(f.round_trip(Applied{1, {2, 3}}).version == PolicyVersion{2, 3});
  CHECK(f.round_trip(ReceiverGone{7}).inference_index == 7);
  CHECK(f.round_trip(Expelled{7, "late"}).why == "late");
  CHECK(f.round_trip(Serving{7}).inference_index == 7);
  const Invitation invitation{7, {"10.0.0.2", 4000, 1ULL << 40, 2, 3}};
  CHECK(f.round_trip(invitation).rendezvous == invitation.rendezvous);
  CHECK(f.round_trip(JoinRequest{1, "worker", "host", 4, "run"}).run == "run");
  CHECK(f.round_trip(SpawnRequest{1, 2, "host", 4}).port == 4);
  CHECK(f.round_trip(WorkerHello{1, 2, 3}).samples_per_rollout == 3);
  const SpecFields spec = {{"environment", "CartPole-v1"}, {"action mask", "no"}};
  CHECK(f.round_trip(WorkerHello{1, 2, 3, spec}).spec == spec);
  CHECK(f.round_trip(ServeRequest{1, {}, {}, "10.0.0.2", spec}).spec == spec);
  CHECK(f.round_trip(Credits{5}).count == 5);
  CHECK(f.round_trip(Pause{1, 2}).group == 2);
  CHECK(f.round_trip(Stop{"why"}).reason == "why");
  const double odd = f.round_trip(WireDouble(-std::numeric_limits<double>::infinity()));
  CHECK(odd == -std::numeric_limits<double>::infinity());
}

TEST_CASE("messages: an array with a size above the limit is refused before memory is allocated") {
  Fixture f;
  std::vector<char> bytes;
  {
    caf::actor_system system(f.config);
    caf::binary_serializer sink(system, bytes);
    uint8_t dtype = 3;
    std::vector<int64_t> extents{1LL << 40, 8};
    REQUIRE_FALSE(sink(dtype, extents));
  }
  Array array;
  CHECK(f.parse(bytes, array));
  bytes = f.bytes_of(odd_floats());
  CHECK_FALSE(f.parse(bytes, array));
  for (const int number : {static_cast<int>(std::size(kDTypes)), 77, 255}) {  // no such dtype
    bytes[0] = static_cast<char>(number);
    CHECK(f.parse(bytes, array));
  }
}

TEST_CASE("messages: a truncated array is an error") {
  Fixture f;
  std::vector<char> bytes = f.bytes_of(odd_floats());
  Array array;
  for (size_t length = 0; length < bytes.size(); ++length)
    CHECK(f.parse(std::vector<char>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)), array));
}

TEST_CASE("messages: a signature round-trips, and an invalid one is refused") {
  Fixture f;
  const Signature signature{{{TensorGroup::policy, "policy.0.weight", {64, 4}, DType::f32},
                             {TensorGroup::value, "value.0.weight", {64, 4}, DType::f32},
                             {TensorGroup::critic, "critic.weight", {4}, DType::f32},  // of a learner, as in RankReady
                             {TensorGroup::frozen, "base", {8}, DType::bf16},
                             {TensorGroup::buffer, "count", {}, DType::i64}}};
  CHECK(f.round_trip(signature).tensors == signature.tensors);
  CHECK(f.round_trip(Signature{}).tensors.empty());
  TensorSpec tensor = signature.tensors[0];
  std::vector<char> bytes = f.bytes_of(tensor);
  bytes[0] = 9;  // no such group
  CHECK(f.parse(bytes, tensor));
  bytes = f.bytes_of(TensorSpec{TensorGroup::buffer, "", {}, DType::bf16});
  const auto dtype = std::ranges::find(bytes, static_cast<char>(DType::bf16));
  REQUIRE(dtype != bytes.end());
  *dtype = static_cast<char>(std::size(kDTypes));  // of a later version of troupe
  CHECK(f.parse(bytes, tensor));
}

TEST_CASE("messages: what ranks tell each other survives serialization") {
  Fixture f;
  RankSaid said{{7, 9},
                {3, 4},
                {{1, 2}, {{1.5, -0.0, INFINITY, NAN, 5e-324}, {}}, {{{1, 2}, odd_floats()}}, {odd_floats(), Array()}}};
  const RankSaid back = f.round_trip(said);
  CHECK(back.attempt == said.attempt);
  CHECK(back.piece == RoundPiece{3, 4});
  CHECK(back.part.shards == ShardRange{1, 2});
  REQUIRE(back.part.numbers.size() == 2);
  for (size_t i = 0; i < said.part.numbers[0].size(); ++i)
    CHECK(std::bit_cast<uint64_t>(back.part.numbers[0].at(i)) == std::bit_cast<uint64_t>(said.part.numbers[0][i]));
  CHECK(back.part.numbers[1].empty());
  REQUIRE(back.part.branches.size() == 1);
  CHECK((back.part.branches[0].values == odd_floats()));
  REQUIRE(back.part.data.size() == 2);
  CHECK((back.part.data[0] == odd_floats()));
  const RoundSaid round = f.round_trip(RoundSaid{{1, 2}, {0, 5}, {{{3}}, odd_floats(), {odd_floats()}}});
  CHECK(round.piece == RoundPiece{0, 5});
  CHECK(round.all.data.size() == 1);
  CHECK(round.all.numbers == std::vector<ShardNumbers>{{3}});
  CHECK((round.all.gradients == odd_floats()));
  const RankDone done = f.round_trip(RankDone{{1, 2}, 0xffffffff, 4});
  CHECK(done.weights == 0xffffffff);
  CHECK(done.samples == 4);
}

TEST_CASE("messages: a state of a learner and the shards of an update survive serialization") {
  Fixture f;
  const auto state = std::make_shared<const LearnerState>(
      LearnerState{{{"a", odd_floats()}}, {{"b.first", odd_floats()}}, {{"updates", 5}, {"kl_coef", INFINITY}}});
  const RankState back = f.round_trip(RankState{state});
  CHECK((back.learner->model == state->model));
  CHECK((back.learner->optimizer == state->optimizer));
  CHECK(back.learner->scalars == state->scalars);
  auto rollout = std::make_shared<Rollout>();
  rollout->worker = 3;
  rollout->grid().returns = odd_floats();
  const auto batch = std::make_shared<const SuperBatch>(
      SuperBatch{4, 5, 6, 7, {{rollout, {0, 2}, UnitKind::column}, {rollout, {9}, UnitKind::sample}}});
  const RankUpdate update = f.round_trip(RankUpdate{{4, 1}, 0.25, {2, 1}});
  CHECK(update.progress == 0.25);
  CHECK(update.shards == ShardRange{2, 1});
  const RankSamples samples = f.round_trip(RankSamples{{4, 1}, {batch}});
  CHECK(samples.attempt == Attempt{4, 1});
  REQUIRE(samples.batches.size() == 1);
  const SuperBatch& same = *samples.batches[0];
  CHECK(same.index == 4);
  CHECK(same.least_version == 7);
  REQUIRE(same.parts.size() == 2);
  CHECK(same.parts[0].indices == std::vector<int32_t>{0, 2});
  CHECK(same.parts[1].kind == UnitKind::sample);
  CHECK(same.parts[1].rollout->worker == 3);
  CHECK((same.parts[1].rollout->grid().returns == odd_floats()));
}
