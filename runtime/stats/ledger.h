#pragma once
// The sample ledger: where every sample that was ever produced is now. A sample is one valid step of one row.

#include <cstdint>
#include <string>

namespace troupe {

struct Ledger {
  uint64_t produced = 0;         // arrived at replay, or known to be lost on the way
  uint64_t trained = 0;          // in the super-batch of at least one update that did not fail
  uint64_t dropped_stale = 0;    // older than max_policy_lag when their turn came
  uint64_t dropped_full = 0;     // replay was full
  uint64_t lost_in_crash = 0;    // lost because a process, an actor, an environment or an update failed
  uint64_t left_over = 0;        // in rollouts that were under way when their worker stopped in order or training ended
  uint64_t filtered = 0;         // answers not trained on: all of their group have the same reward
  uint64_t unscored = 0;         // answers not trained on: they got no score, or no other answer of their group did
  uint64_t verifier_failed = 0;  // answers not trained on: the verifier failed on them
  uint64_t baselines = 0;        // greedy answers, whose score is the baseline of their group; never trained on
  uint64_t waiting = 0;          // in replay, or in a batch that is being prepared or trained on

  bool balances() const {
    return produced == trained + dropped_stale + dropped_full + lost_in_crash + left_over + filtered + unscored +
                           verifier_failed + baselines + waiting;
  }
  std::string text() const;
  Ledger& operator+=(const Ledger& other);
  friend bool operator==(const Ledger&, const Ledger&) = default;
};

}  // namespace troupe
