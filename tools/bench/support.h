#pragma once
// What the benchmarks share: statistics, an actor system, inputs for CartPole, and actors that ignore the messages that
// a benchmark does not use. Main thread only, except the actors.

#include <chrono>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/caf/owned_system.h"
#include "tools/bench/timing.h"

namespace troupe {

// How long a benchmark waits for one message before it gives up.
constexpr std::chrono::seconds kBenchPatience{20};
[[noreturn]] void give_up(const std::string& waited_for);

// An actor system. Before it ends, it stops every actor given to stop_at_end().
class BenchSystem {
 public:
  explicit BenchSystem(bool network, const NetworkConfig& network_config = {});
  ~BenchSystem();

  caf::actor_system& get() { return system_.get(); }
  template <class Handle>
  Handle stop_at_end(Handle actor) {
    actors_.push_back(caf::actor_cast<caf::strong_actor_ptr>(actor));
    return actor;
  }

 private:
  OwnedSystem system_;
  std::vector<caf::strong_actor_ptr> actors_;
};

// These ignore every message.
StatsActor::behavior_type silent_stats(StatsActor::pointer self);
ReplayService::behavior_type silent_replay(ReplayService::pointer self);
RecorderActor::behavior_type silent_recorder(RecorderActor::pointer self);
EvaluatorActor::behavior_type silent_evaluator(EvaluatorActor::pointer self);

// CartPole with the default 2x64 MLP, `rows` per vector environment and batch, nothing that ends or pauses the run.
RunConfig bench_config(int64_t rows);
// `rows` observations from the streams of `seed`: `numbers` normal numbers each, with seeds for sampled actions.
ActInput normal_input(int64_t rows, int64_t numbers, uint64_t seed);
// `rows` different observations near the upright position, with seeds for sampled actions.
ActInput cart_pole_input(int64_t rows);
// A rollout of `steps` steps as a worker would send it: the policy's actions on `input`, whose rows are those of all
// columns at the first step, then at the second, and so on; and random rewards, values and advantages of stream
// `index`.
RolloutPtr made_rollout(Policy& policy, const ActInput& input, int64_t steps, uint64_t index);
// The seconds of each act() of `policy` on `input`, repeated for `seconds`; at least one.
std::vector<double> time_bare_act(Policy& policy, const ActInput& input, double seconds);

}  // namespace troupe
