#pragma once
// PolicyVersion: which weights produced a result. Only rank 0 of the trainer advances it. It is sent with the weights,
// with every inference reply and with every rollout, and never decreases.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace troupe {

struct PolicyVersion {
  uint32_t epoch = 0;   // larger at each start of the run
  uint64_t number = 0;  // completed updates

  friend auto operator<=>(const PolicyVersion&, const PolicyVersion&) = default;
  std::string text() const { return std::to_string(epoch) + '.' + std::to_string(number); }
};

// Policy lag: updates between the weights that produced a sample and the weights being trained on it. Infinite for
// samples of an earlier epoch, because their weights may never have been saved.
inline uint64_t lag_between(PolicyVersion made_by, PolicyVersion used_at) {
  if (made_by.epoch != used_at.epoch || made_by.number > used_at.number) return std::numeric_limits<uint64_t>::max();
  return used_at.number - made_by.number;
}

}  // namespace troupe
