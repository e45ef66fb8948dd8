#include "tools/bench/support.h"

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

BenchSystem::BenchSystem(bool network)
    : system_({.scheduler = SchedulerKind::threads, .threads = 2, .network = network, .network_config = {}},
              register_messages) {}

BenchSystem::~BenchSystem() {
  for (const caf::strong_actor_ptr& actor : actors_)
    caf::anon_send_exit(caf::actor_cast<caf::actor>(actor), caf::exit_reason::user_shutdown);
}

StatsActor::behavior_type silent_stats(StatsActor::pointer) {
  return {[](const WorkerReport&) {},    [](const InferenceReport&) {},
          [](const Applied&) {},         [](const ProcessReport&) {},
          [](const ReplayReport&) {},    [](const CheckpointMessage&) {},
          [](const Evaluation&) {},      [](const EvaluationProgress&) {},
          [](const WarmupMessage&) {},   [](const ReceiverGone&) {},
          [](const LaunchedWorkers&) {}, [](beat_atom) {},
          [](const SaveMessage&) {},     [](const Stop&) {}};
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

ActInput cart_pole_input(int64_t rows) {
  Rng random(derive_key(1, "benchmark"));
  ActInput input;
  Array state(DType::f32, {rows, 4});
  for (float& x : state.mutable_view<float>()) x = random.uniform(-0.2f, 0.2f);
  input.observations.set("state", state);
  input.seeds = Array(DType::i64, {rows});
  int64_t seed = 0;
  for (int64_t& s : input.seeds.mutable_view<int64_t>())
    s = static_cast<int64_t>(mix(7, static_cast<uint64_t>(seed++)));
  input.deterministic = Array(DType::u8, {rows});
  return input;
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
