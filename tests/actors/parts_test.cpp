#include "actors/parts.h"

#include <limits>
#include <numeric>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/scoped_actor.hpp>

#include "runtime/caf/system.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::vector<char> counting(size_t size) {
  std::vector<char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), char{0});
  return bytes;
}

}  // namespace

TEST_CASE("parts: a message of any length is the same after splitting and assembling") {
  for (size_t size : {1, 9, 10, 11, 20, 1000}) {
    PartAssembler assembler;
    const auto bytes = counting(size);
    std::optional<std::vector<char>> whole;
    for (const Part& part : split(bytes, PartOf::rollout, 1, 10)) {
      CHECK_FALSE(whole);
      CHECK(part.data.bytes() <= 10);
      whole = assembler.add({}, part);
    }
    REQUIRE(whole);
    CHECK(*whole == bytes);
  }
}

TEST_CASE("parts: the first part of a new message replaces an unfinished message") {
  PartAssembler assembler;
  const auto first = split(counting(25), PartOf::rollout, 1, 10), second = split(counting(15), PartOf::rollout, 2, 10);
  assembler.add({}, first[0]);
  assembler.add({}, second[0]);
  CHECK(*assembler.add({}, second[1]) == counting(15));
}

TEST_CASE("parts: after a missing part or a part of another message the message is refused") {
  const auto parts = split(counting(35), PartOf::rollout, 1, 10), other = split(counting(35), PartOf::rollout, 2, 10);
  for (const Part& wrong : {parts[2], parts[3], other[1]}) {
    PartAssembler assembler;
    assembler.add({}, parts[0]);
    CHECK_THROWS_AS(assembler.add({}, wrong), InvariantError);
    CHECK_THROWS_AS(assembler.add({}, parts[1]), InvariantError);
  }
}

TEST_CASE("parts: a part with another kind or count than the first, or without bytes, is refused") {
  const auto parts = split(counting(35), PartOf::reply, 1, 10);
  Part other_kind = parts[1], other_count = parts[1], empty = parts[1];
  other_kind.of = PartOf::request;
  other_count.count = 400'000'000;
  empty.data = Array(DType::u8, {0});
  for (const Part& wrong : {other_kind, other_count, empty}) {
    PartAssembler assembler;
    assembler.add({}, parts[0]);
    CHECK_THROWS_AS(assembler.add({}, wrong), InvariantError);
    CHECK(assembler.bytes() == 0);
  }
}

TEST_CASE("parts: no memory is allocated for announced parts") {
  PartAssembler assembler;
  Part first = split(counting(10), PartOf::reply, 1, 10)[0];
  first.count = std::numeric_limits<uint32_t>::max();
  CHECK(!assembler.add({}, first));
  CHECK(assembler.bytes() == 10);
}

TEST_CASE("parts: a message larger than the limit is refused at the part that exceeds it") {
  PartAssembler assembler(25);
  std::optional<std::vector<char>> whole;
  for (const Part& part : split(counting(25), PartOf::rollout, 1, 10)) whole = assembler.add({}, part);
  CHECK(whole == counting(25));
  const auto parts = split(counting(35), PartOf::rollout, 2, 10);
  assembler.add({}, parts[0]);
  assembler.add({}, parts[1]);
  CHECK_THROWS_AS(assembler.add({}, parts[2]), InvariantError);
  CHECK_THROWS_AS(assembler.add({}, parts[3]), InvariantError);  // the message was dropped
}

TEST_CASE("parts: unfinished messages of all senders together hold no more than the limit") {
  caf::actor_system_config config;
  configure(config, {SchedulerKind::single_step, 1, false, {}});
  caf::actor_system system(config);
  const caf::scoped_actor a(system), b(system), c(system), d(system);
  PartAssembler assembler(kMaxArrayBytes, 25);
  const auto parts = split(counting(20), PartOf::rollout, 1, 10);
  assembler.add(a.address(), parts[0]);
  assembler.add(b.address(), parts[0]);
  CHECK(assembler.bytes() == 20);
  CHECK_THROWS_AS(assembler.add(c.address(), parts[0]), InvariantError);
  CHECK(assembler.bytes() == 20);
  assembler.forget(b.address());
  CHECK(assembler.bytes() == 10);
  CHECK(*assembler.add(a.address(), parts[1]) == counting(20));
  CHECK(assembler.bytes() == 0);
  for (int round = 0; round < 10; ++round) assembler.add(d.address(), parts[0]);  // each replaces the one before
  CHECK(assembler.bytes() == 10);
}

TEST_CASE("parts: a serialised message round-trips, and a truncated one is an error") {
  caf::actor_system_config config;
  register_messages(config);
  configure(config, {SchedulerKind::single_step, 1, false, {}});
  caf::actor_system system(config);
  InferenceRequest request;
  request.id = 7;
  request.steps().observations = {{"o", Array::of<float>({2, 2}, {1, 2, 3, 4})}};
  auto bytes = serialize(system, request);
  CHECK(deserialize<InferenceRequest>(system, bytes).steps().observations == request.steps().observations);
  bytes.resize(bytes.size() / 2);
  CHECK_THROWS_AS(deserialize<InferenceRequest>(system, bytes), std::runtime_error);
}

namespace {

constexpr int64_t kMany = 10'000;

Array bytes_array() { return Array(DType::u8, {kMany}); }

Arrays named() { return {{"o", bytes_array()}}; }

Episodes many_episodes() { return {bytes_array(), bytes_array(), bytes_array()}; }

// The bytes that CAF would send in addition to the payload.
template <class Message>
size_t overhead(const Message& message) {
  caf::actor_system_config config;
  register_messages(config);
  configure(config, {SchedulerKind::single_step, 1, false, {}});
  caf::actor_system system(config);
  const size_t bytes = serialize(system, message).size(), payload = payload_bytes(message);
  CHECK(bytes >= payload);
  return bytes - payload;
}

}  // namespace

TEST_CASE("parts: the payload of a message contains all arrays and texts, so the rest is small") {
  InferenceRequest request;
  StepRequest& steps = request.steps();
  steps.observations = steps.value_observations = named();
  steps.action_mask = steps.seeds = steps.state = steps.starts = steps.value_state = bytes_array();
  CHECK(overhead(request) < 1000);

  InferenceReply reply;
  StepReply& result = reply.body.emplace<StepReply>();
  result.actions = result.log_probs = result.values = result.extra_values = bytes_array();
  result.state = result.policy_parameters = bytes_array();
  reply.error = std::string(kMany, 'e');
  CHECK(overhead(reply) < 1000);

  WorkerReport report;
  report.partial.assign(128, {1, 2, 3, many_episodes()});
  report.last_error = std::string(kMany, 'e');
  CHECK(overhead(report) < 20'000);

  const auto rollout = std::make_shared<Rollout>();
  rollout->grid().observations = rollout->grid().last_observations = rollout->grid().final_observations = named();
  for (Array* array :
       {&rollout->grid().action_mask, &rollout->grid().actions, &rollout->grid().log_probs, &rollout->grid().executed,
        &rollout->grid().values, &rollout->grid().next_values, &rollout->grid().rewards, &rollout->grid().terminated,
        &rollout->grid().truncated, &rollout->grid().valid, &rollout->grid().version, &rollout->grid().advantages,
        &rollout->grid().returns, &rollout->grid().task, &rollout->grid().policy_parameters,
        &rollout->grid().final_steps, &rollout->grid().starts, &rollout->grid().chunk_states})
    *array = bytes_array();
  rollout->episodes = many_episodes();
  CHECK(overhead(RolloutMessage{rollout}) < 2000);
}
