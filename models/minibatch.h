#pragma once
// Minibatch: the rows of a staged batch that one forward and backward works on, gathered into contiguous host arrays. Its buffers
// are reused. One thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "models/heads.h"
#include "models/observations.h"
#include "models/policy_loss.h"
#include "models/staging.h"

namespace troupe {

// What an update makes of a staged batch before it trains on it, per row.
struct Targets {
  std::vector<float> advantages;  // [R] normalised when the config says so
  std::vector<float> values;      // [R] before the update, in units of the value head
  std::vector<float> returns;     // [R] likewise
};

class Minibatch {
 public:
  Minibatch(const Head& head, const ObservationEncoder& encoder) : head_(head), encoder_(encoder) {}

  // [B, O] encoded observations.
  std::span<float> inputs(const StagedRows& batch, std::span<const int64_t> rows, const FeatureScaling& scaling);
  // Everything but what the network says about them: head.outputs, head.log_std and values are the caller's to fill in.
  LossInput loss_input(const StagedRows& batch, const Targets& targets, std::span<const int64_t> rows);
  // Only what evaluating the stored actions needs.
  LossInput action_input(const StagedRows& batch, std::span<const int64_t> rows);

 private:
  const Head& head_;
  const ObservationEncoder& encoder_;
  std::vector<float> inputs_, log_probs_, advantages_, values_, returns_, continuous_;
  std::vector<int32_t> discrete_;
  std::vector<uint8_t> mask_;
};

// Sample rows in the order of one epoch: a permutation drawn from the stream `key` alone.
std::vector<int64_t> shuffled(std::span<const int64_t> rows, uint64_t key);

}  // namespace troupe
