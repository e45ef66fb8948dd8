#pragma once
// PolicyVersion: which weights made a number. Rank 0 of the trainer alone advances it; it travels with the weights,
// with every inference reply and with every rollout, and never goes backwards.

#include <compare>
#include <cstdint>
#include <limits>
#include <string>

namespace troupe {

struct PolicyVersion {
  uint32_t epoch = 0;   // incarnation of the trainer: larger at each start of the run
  uint64_t number = 0;  // completed updates

  friend auto operator<=>(const PolicyVersion&, const PolicyVersion&) = default;
  std::string text() const { return std::to_string(epoch) + '.' + std::to_string(number); }
};

// Updates between the weights that made a sample and the weights that train on it. Samples of an earlier epoch may come
// from weights that were never saved: they are infinitely old.
inline uint64_t lag_between(PolicyVersion made_by, PolicyVersion used_at) {
  if (made_by.epoch != used_at.epoch || made_by.number > used_at.number) return std::numeric_limits<uint64_t>::max();
  return used_at.number - made_by.number;
}

}  // namespace troupe
