#pragma once
// A run whose parts take given times: they sleep, so that a machine with few processors is enough. For the benchmark of
// the verdicts.

#include <chrono>
#include <memory>

#include "actors/run_context.h"

namespace troupe {

struct SlowCosts {
  std::chrono::microseconds step{0};  // of all rows of an environment together
  bool busy = false;                  // steps use a processor for that time
  // A step takes so much longer with this probability.
  std::chrono::microseconds stall{0};
  double stall_probability = 0;
  std::chrono::microseconds first_step{0};  // in place of `step`, of the environment that is made first
  std::chrono::microseconds forward{0};     // of a batch, whatever its size
  std::chrono::microseconds update{0};
  bool learns = true;                 // false: an update takes no more than `update`, and changes nothing
  std::chrono::microseconds save{0};  // of a checkpoint
  int other_programs = 0;             // that keep a processor busy each
};

// Real actors, with CartPole and a small network.
std::shared_ptr<RunContext> slow_context(const RunConfig& config, const SlowCosts& costs);
std::unique_ptr<Learner> slow_learner(const RunContext& context, const SlowCosts& costs);

// Processes that only compute, and are not children of this one. They end when this object does, or this process.
class OtherPrograms {
 public:
  explicit OtherPrograms(int count);
  ~OtherPrograms();
  OtherPrograms(const OtherPrograms&) = delete;
  OtherPrograms& operator=(const OtherPrograms&) = delete;

 private:
  int life_ = -1;  // they end when it is closed
};

}  // namespace troupe
