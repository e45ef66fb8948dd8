#pragma once
// Minibatch: the samples of a staged batch that one forward and backward works on, gathered into contiguous host
// arrays. Its buffers are reused. One thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include "models/heads/heads.h"
#include "models/learning/policy_loss.h"
#include "models/learning/sequences.h"
#include "models/learning/staging.h"

namespace troupe {

struct Targets;

// Some samples in the order of training, single ones or whole sequences; for recurrent models, chunks.
struct SampleRange {
  std::span<const int64_t> indices;  // of samples of the batch, or of chunks
  // [S + 1] sequence i is indices[offsets[i] - offsets[0], offsets[i + 1] - offsets[0]); empty = no sequences
  std::span<const int64_t> offsets;

  int64_t size() const { return static_cast<int64_t>(indices.size()); }
};

class Minibatch {
 public:
  explicit Minibatch(const Head& head) : head_(head) {}

  // All fields but the network's outputs: the caller fills in head.outputs, head.log_std and values.
  LossInput loss_input(const StagedSamples& batch, const Targets& targets, SampleRange range);
  // [B, C] which ratios count, or empty = all. Valid until the next call of this or loss_input().
  std::span<const uint8_t> kept(const StagedSamples& batch, const Targets& targets, std::span<const int64_t> samples);
  // [B] classes of policy lags, or empty. Valid until the next call of this or loss_input().
  std::span<const uint8_t> lags(const StagedSamples& batch, std::span<const int64_t> samples);
  // Only the fields that evaluating the stored actions needs.
  LossInput action_input(const StagedSamples& batch, std::span<const int64_t> samples);

 private:
  const Head& head_;
  std::vector<float> log_probs_, old_log_probs_, advantages_, values_, returns_, continuous_, weights_, parameters_;
  std::vector<int32_t> discrete_, executed_;
  std::vector<uint8_t> mask_, kept_, lags_;
};

// The order of one epoch, a permutation drawn from the stream `key` alone: of samples, or of whole sequences.
struct EpochOrder {
  std::vector<int64_t> indices;
  std::vector<int64_t> offsets;  // empty = samples
};
EpochOrder shuffled(std::span<const int64_t> indices, uint64_t key);
EpochOrder shuffled(const Sequences& sequences, uint64_t key);

// An epoch in `parts` minibatches, in order. Their sizes differ by at most one sample; with whole sequences they are as
// equal as these allow. Some may be empty.
std::vector<SampleRange> minibatches(const EpochOrder& order, int64_t parts);
// A minibatch in parts of at most `size` samples, or one longer sequence; size 0 = one part. None when it is empty.
std::vector<SampleRange> micro_batches(SampleRange minibatch, int64_t size);

}  // namespace troupe
