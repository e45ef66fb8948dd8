#include "actors/memory_estimate.h"

#include <algorithm>

#include "actors/config/replay_capacity.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

EnvSpec spec_of(int32_t chunk) {
  EnvSpec spec;
  spec.observations = {{"observation", DType::f32, {4}}};
  spec.action.bins = {2};
  spec.action.chunk = chunk;
  return spec;
}

MemoryNeed need_of(const std::vector<MemoryNeed>& needs, const std::string& what) {
  for (const MemoryNeed& need : needs)
    if (need.what == what) return need;
  FAIL("no need of " << what);
  return {};
}

MemoryNeed replay_of(const RunConfig& config, int32_t chunk = 1) {
  return need_of(possible_memory(config, spec_of(chunk)), "samples in replay");
}

}  // namespace

TEST_CASE("memory: the memory of replay follows from its capacity, also with a very large lag cap") {
  RunConfig config;
  config.stop.env_steps = 0;
  config.replay.max_policy_lag = 2;
  const MemoryNeed small = replay_of(config);
  CHECK(small.setting == "replay.max_policy_lag");
  const double of_sample = small.bytes / static_cast<double>(replay_capacity(
                                             config.replay, static_cast<uint64_t>(config.trainer.super_batch)));
  config.replay.max_policy_lag = 1'000'000;
  const MemoryNeed large = replay_of(config);
  CHECK(large.setting == "trainer.super_batch");
  CHECK(large.bytes == doctest::Approx(16 * static_cast<double>(config.trainer.super_batch) * of_sample));
  config.replay.capacity = 1000;
  CHECK(replay_of(config).setting == "replay.capacity");
  CHECK(replay_of(config).bytes == doctest::Approx(1000 * of_sample));
}

TEST_CASE(
    "memory: a sample also holds what the algorithm needs and, with action chunks, the number of executed steps") {
  RunConfig config;
  config.stop.env_steps = 0;
  config.replay.capacity = 1000;
  const double plain = replay_of(config).bytes;
  // Three more decisions of two numbers each, and the number of executed steps.
  CHECK(replay_of(config, 4).bytes - plain == 1000 * (3 * 2 * 4 + 4));
  config.algorithm.group_by = "task";
  CHECK(replay_of(config).bytes - plain == 1000 * 4);
  config.algorithm.group_by = "batch";
  config.algorithm.kl = "full";  // two logits
  CHECK(replay_of(config).bytes - plain == 1000 * 2 * 4);
  config.algorithm.kl = "k3";
  config.algorithm.advantage = "grpo";  // no advantages
  CHECK(plain - replay_of(config).bytes == 1000 * 4);
  config.algorithm.advantage = "vtrace";  // no value targets either
  CHECK(plain - replay_of(config).bytes == 1000 * 8);
  config.algorithm.advantage = "gae";
  config.model.kind = "net";
  config.model.net = R"({"core": {"kind": "gru", "size": 10}})";
  config.model.sequence = 8;  // a flag, and an eighth of a state
  CHECK(replay_of(config).bytes - plain == 1000 * (1 + 10 * 4 / 8));
}

TEST_CASE(
    "memory: rank 0 keeps the state from before an update, gradients of each rank, and the samples of all shards") {
  RunConfig config;
  config.trainer.shards = 4;
  const auto bytes = [&](int64_t ranks) {
    config.trainer.ranks = ranks;
    const MemoryNeed need = need_of(memory_needs(config, spec_of(1)), "what rank 0 keeps for the other ranks");
    CHECK(need.setting == "trainer.ranks");
    return need.bytes;
  };
  const double two = bytes(2), model = (bytes(4) - two) / 2;
  CHECK(model > 0);
  const double samples = two - (3 + 3) * model;
  config.trainer.super_batch *= 2;
  CHECK(bytes(2) - two == doctest::Approx(samples));
  config.trainer.super_batch /= 2;
  config.trainer.zero = 1;  // no copy of the weights, and the moments while a checkpoint is made
  CHECK(bytes(2) - two == doctest::Approx(-model));
  config.trainer.zero = 0;
  config.deterministic = true;  // the others are here: weights, gradients with three sums, and moments
  CHECK(bytes(2) - two == doctest::Approx((4 + 3 - 3) * model));
  config.trainer.ranks = 1;
  const std::vector<MemoryNeed> alone = memory_needs(config, spec_of(1));
  CHECK(std::ranges::none_of(alone, [](const MemoryNeed& need) { return need.setting == "trainer.ranks"; }));
}
