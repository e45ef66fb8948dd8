#include "tools/bench/support.h"

#include <algorithm>
#include <stdexcept>

#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "runtime/base/rng.h"
#include "runtime/caf/system.h"

namespace troupe {

void give_up(const std::string& waited_for) {
  throw std::runtime_error("no " + waited_for + " came within " + std::to_string(kBenchPatience.count()) + " s");
}

BenchSystem::BenchSystem(bool network, const NetworkConfig& network_config)
    : system_({.scheduler = SchedulerKind::threads, .threads = 2, .network = network, .network_config = network_config},
              register_messages) {}

BenchSystem::~BenchSystem() {
  for (const caf::strong_actor_ptr& actor : actors_)
    caf::anon_send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::user_shutdown);
}

StatsActor::behavior_type silent_stats(StatsActor::pointer) {
  return {[](const WorkerReport&) {},
          [](const InferenceReport&) {},
          [](const Applied&) {},
          [](const ProcessReport&) {},
          [](const ReplayReport&) {},
          [](const CheckpointMessage&) {},
          [](const Evaluation&) {},
          [](const EvaluationProgress&) {},
          [](const WarmupMessage&) {},
          [](const ReceiverGone&) {},
          [](const LaunchedWorkers&) {},
          [](const RanksMessage&) {},
          [](beat_atom) {},
          [](const SaveMessage&) {},
          [](const Stop&) {}};
}

ReplayService::behavior_type silent_replay(ReplayService::pointer) {
  return {[](const WorkerHello&) {},  [](const RolloutMessage&) {},      [](const Part&) {},
          [](const WorkerReport&) {}, [](const EnvironmentsFailing&) {}, [](const Applied&) {}};
}

RecorderActor::behavior_type silent_recorder(RecorderActor::pointer) {
  return {[](const CheckpointMessage&) {}, [](const ActorState&) {}, [](const Evaluation&) {},
          [](const SnapshotMessage&) {}, [](const Stop&) {}};
}

EvaluatorActor::behavior_type silent_evaluator(EvaluatorActor::pointer) {
  return {[](const EvaluateMessage&) {}, [](const EvaluationSlice&) {}, [](beat_atom) {}, [](const Stop&) {}};
}

RunConfig bench_config(int64_t rows) {
  RunConfig config;
  config.env.rows = rows;
  config.inference.batch_size = rows;
  config.stop = {.env_steps = 0, .updates = 0, .seconds = 0, .eval_return = 0};
  config.evaluation.every_updates = 0;
  config.checkpoint.every_updates = 0;
  return config;
}

namespace {

// Of observations with the name of those of CartPole.
ActInput input_of(const Array& state) {
  ActInput input;
  input.observations.set("state", state);
  input.seeds = Array(DType::i64, {state.dim(0)});
  int64_t seed = 0;
  for (int64_t& s : input.seeds.mutable_view<int64_t>())
    s = static_cast<int64_t>(mix(7, static_cast<uint64_t>(seed++)));
  input.deterministic = Array(DType::u8, {state.dim(0)});
  return input;
}

void fill_with_normals(Array& array, Rng& random) {
  for (float& x : array.mutable_view<float>()) x = random.normal();
}

// [T * N, ...] as [T, N, ...].
Array by_step(const Array& array, int64_t steps) {
  const Shape row = array.shape().without_first();
  return array.reshaped(row.prepended(array.dim(0) / steps).prepended(steps));
}

}  // namespace

ActInput normal_input(int64_t rows, int64_t numbers, uint64_t seed) {
  Rng random(derive_key(seed, "benchmark observations"));
  Array state(DType::f32, {rows, numbers});
  fill_with_normals(state, random);
  return input_of(state);
}

ActInput cart_pole_input(int64_t rows) {
  Rng random(derive_key(1, "benchmark"));
  Array state(DType::f32, {rows, 4});
  for (float& x : state.mutable_view<float>()) x = random.uniform(-0.2f, 0.2f);
  return input_of(state);
}

RolloutPtr made_rollout(Policy& policy, const ActInput& input, int64_t steps, uint64_t index) {
  const ActOutput output = policy.act(input);
  const Array& state = input.observations.at("state");
  const Shape grid{steps, state.dim(0) / steps};
  Rng random(derive_key(index, "benchmark rollout"));
  auto rollout = std::make_shared<Rollout>();
  rollout->samples = rollout->env_steps = static_cast<uint64_t>(state.dim(0));
  rollout->grid().observations.set("state", by_step(state, steps));
  rollout->grid().actions = by_step(output.actions, steps);
  rollout->grid().log_probs = by_step(output.log_probs, steps);
  rollout->grid().values = by_step(output.values, steps);
  for (Array* array : {&rollout->grid().next_values, &rollout->grid().rewards, &rollout->grid().advantages,
                       &rollout->grid().returns}) {
    *array = Array(DType::f32, grid);
    fill_with_normals(*array, random);
  }
  for (Array* array : {&rollout->grid().terminated, &rollout->grid().truncated, &rollout->grid().valid})
    *array = Array(DType::u8, grid);
  std::ranges::fill(rollout->grid().valid.mutable_view<uint8_t>(), uint8_t{1});
  rollout->grid().version = Array(DType::i64, grid);
  return rollout;
}

std::vector<double> time_bare_act(Policy& policy, const ActInput& input, double seconds) {
  std::vector<double> times;
  for (const auto start = BenchClock::now(); times.empty() || seconds_since(start) < seconds;) {
    const auto begun = BenchClock::now();
    policy.act(input);
    times.push_back(seconds_since(begun));
  }
  return times;
}

}  // namespace troupe
