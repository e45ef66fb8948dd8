#pragma once
// Warmup: the phase of a run before its first update, in which the run's learner takes steps on demonstrations, if its
// kind of experience has them. It is driven by the trainer, one step at a time. One thread.

#include <cstdint>
#include <memory>
#include <string>

#include "actors/config/generation_config.h"
#include "actors/experience/common/run_spec.h"
#include "actors/messages/local.h"
#include "models/policy.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

constexpr int64_t kWarmupPrompts = 64;  // held-out prompts of a check

class Warmup {
 public:
  // `state` is that of a new run, or of the checkpoint from which the run resumes.
  Warmup(std::shared_ptr<const RunSpec> run, const WarmupState& state);

  const WarmupState& state() const { return state_; }
  // Whether its pass@1 must be measured before the next step.
  bool check_due() const;
  // No step is left, and no check is due.
  bool over() const;
  // What stats is told after a step and after a check.
  WarmupMessage message() const { return {state_, is_point()}; }
  // One step. Throws ConfigError that names the setting when the weights diverge.
  void step(Learner& learner);
  void add_seconds(double seconds) { state_.seconds += seconds; }
  // The result of a check that is due. One that failed leaves pass@1 as it was. Throws as step() when it failed because
  // of the weights, and ConfigError when none of the answers of some checks in a row got a score.
  void take_check(const Evaluation& check);
  // Ends it once it is over: the learner's optimizer begins anew. Throws ConfigError when a weight is not finite.
  void end(Learner& learner);

 private:
  // Throws the ConfigError of weights that have diverged, or that could not be used from the beginning.
  [[noreturn]] void refuse(const std::string& cause) const;
  // Whether the curves have a point of the last step: it has been checked if that was due, and it is one of the first
  // 128 steps, every second one up to 256, every fourth one up to 512 and so on, a checked one, or the last.
  bool is_point() const;
  bool checks() const { return config_.pass_at_1 > 0; }
  bool any_right() const { return state_.pass_at_1 > 0; }  // not while it is unknown

  std::shared_ptr<const RunSpec> run_;
  const WarmupConfig& config_;
  WarmupState state_;
  bool warned_ = false;  // of a check that failed
  int unscored_ = 0;     // the last checks, of whose answers none got a score
};

}  // namespace troupe
