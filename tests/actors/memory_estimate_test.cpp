#include "actors/memory_estimate.h"

#include <algorithm>
#include <string>

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

struct Ranks {
  int64_t ranks = 1, zero = 0;
  bool deterministic = false;
  std::string redundancy = "none";
};

// Copies of the weights that rank 0 of a run with 8 shards has for the others.
double copies_for_ranks(const Ranks& run) {
  RunConfig config;
  config.trainer.shards = 8;
  config.trainer.ranks = run.ranks;
  config.trainer.zero = run.zero;
  config.trainer.redundancy = run.redundancy;
  config.deterministic = run.deterministic;
  return memory_of_ranks(config, 1, 0).bytes;
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

TEST_CASE("memory: what rank 0 needs for other ranks is an entry of runs on environments with several ranks") {
  RunConfig config;
  config.trainer.shards = config.trainer.ranks = 4;
  const MemoryNeed need = need_of(memory_needs(config, spec_of(1)), "what rank 0 keeps for the other ranks");
  CHECK(need.setting == "trainer.ranks");
  CHECK(need.value == "4");
  CHECK(need.bytes > 0);
  CHECK(memory_of_ranks(config, 0, 10).bytes == 10.0 * static_cast<double>(config.trainer.super_batch));
  config.trainer.ranks = 1;
  const std::vector<MemoryNeed> alone = memory_needs(config, spec_of(1));
  CHECK(std::ranges::none_of(alone, [](const MemoryNeed& each) { return each.setting == "trainer.ranks"; }));
}

TEST_CASE("memory: rank 0 sends the state to each rank process, or has gradients of each and the state before") {
  CHECK(copies_for_ranks({.ranks = 2}) == 1 + 6);   // the weights, and the state serialized and in parts
  CHECK(copies_for_ranks({.ranks = 4}) == 1 + 12);  // serialized, and in parts for three
  CHECK(copies_for_ranks({.ranks = 8}) == 1 + 24);
}

TEST_CASE("memory: with divided moments a rank has those of its slice, and of the others only while it divides them") {
  // All moments are divided while the state that is sent has them: a half of them, or a quarter, besides.
  // The weights, those with a slice for each, and all moments, less those that this rank does not have.
  CHECK(copies_for_ranks({.ranks = 2, .zero = 1}) == 1 + 2 * 2 + 2 - 1);
  CHECK(copies_for_ranks({.ranks = 4, .zero = 1}) == 1 + 4 * 1.5 + 2 - 1.5);
  CHECK(copies_for_ranks({.ranks = 4, .zero = 1, .redundancy = "neighbour"}) == 1 + 4 * 2 + 2 - 1.5);
}

TEST_CASE(
    "memory: with freed gradients a rank has the sum of the micro-batches, or all gradients, of its slice alone") {
  const auto freed = [](int64_t ranks, bool deterministic) {
    return copies_for_ranks({.ranks = ranks, .zero = 1, .deterministic = deterministic}) -
           copies_for_ranks({.ranks = ranks, .zero = 2, .deterministic = deterministic});
  };
  CHECK(freed(2, false) == 0.5);
  CHECK(freed(4, false) == 0.75);
  CHECK(freed(8, false) == 2 * 0.875);  // a shard for each
  CHECK(freed(4, true) == 4 * 0.75);
  CHECK(freed(1, false) == 0);
}

TEST_CASE("memory: the ranks of a deterministic run are here, and with divided moments have them once together") {
  // Each other one: weights, gradients with four sums, and moments. Gradients of all ranks and their sum.
  CHECK(copies_for_ranks({.ranks = 2, .deterministic = true}) == (2 + 4 + 2) + 3);
  CHECK(copies_for_ranks({.ranks = 4, .deterministic = true}) == 3 * (2 + 4 + 2) + 5);
  CHECK(copies_for_ranks({.ranks = 2, .zero = 1, .deterministic = true}) == (2 + 4) + 3);
  CHECK(copies_for_ranks({.ranks = 4, .zero = 1, .deterministic = true}) == 3 * (2 + 4) + 5);
}
