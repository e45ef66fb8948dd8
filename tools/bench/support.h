#pragma once
// What the benchmarks share: figures from samples, an actor system, inputs for CartPole, and actors that swallow what a
// benchmark has no use for. Main thread only, except the actors.

#include <chrono>
#include <string>
#include <vector>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/caf/owned_system.h"

namespace troupe {

using BenchClock = std::chrono::steady_clock;

inline double seconds_since(BenchClock::time_point start) {
  return std::chrono::duration<double>(BenchClock::now() - start).count();
}

// The value that a share p of `values` does not exceed; NaN when there are none.
double percentile(std::vector<double> values, double p);
inline double median(const std::vector<double>& values) { return percentile(values, 0.5); }

// How long one message of a benchmark may stay out before it gives up.
constexpr std::chrono::seconds kBenchPatience{20};
[[noreturn]] void give_up(const std::string& waited_for);

// An actor system; at its end every actor given to stop_at_end() is told to end first.
class BenchSystem {
 public:
  explicit BenchSystem(bool network);
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

// Swallow everything.
StatsActor::behavior_type silent_stats(StatsActor::pointer self);
ReplayService::behavior_type silent_replay(ReplayService::pointer self);
RecorderActor::behavior_type silent_recorder(RecorderActor::pointer self);
EvaluatorActor::behavior_type silent_evaluator(EvaluatorActor::pointer self);

// CartPole with the default 2x64 MLP, `rows` per vector environment and batch, nothing that ends or interrupts the run.
RunConfig bench_config(int64_t rows);
// `rows` different observations near the upright position, with seeds for sampled actions.
ActInput cart_pole_input(int64_t rows);
// The seconds of each act() of `policy` on `input`, over and over for `seconds`; at least one.
std::vector<double> time_bare_act(Policy& policy, const ActInput& input, double seconds);

}  // namespace troupe
