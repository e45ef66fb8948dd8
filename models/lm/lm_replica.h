#pragma once
// LmReplica: a decoder with the policy of a snapshot, for passes without gradients. It shares the packed weights with
// the other replicas of this version in the process, and has none of its own but adapters. Owned by a generator or a
// reference; one thread at a time.

#include <memory>
#include <optional>

#include "models/decoder/decoder.h"
#include "models/lm/lm_model.h"

namespace troupe {

class LmReplica {
 public:
  // `parallel` must outlive this.
  LmReplica(const LmModel& model, ParallelFor& parallel);

  // Of the tensors that are published.
  const std::shared_ptr<const Signature>& signature() const { return signature_; }
  // Swaps in the policy of the snapshot. Throws ConfigError, and keeps the old one, when it does not fit.
  void load(const WeightSnapshot& weights);
  bool loaded() const { return loaded_ != 0; }
  Decoder& decoder() { return decoder_; }

 private:
  LmModel model_;
  std::shared_ptr<const Signature> signature_;
  ParallelFor& parallel_;
  Decoder decoder_;
  std::optional<WeightBlock> adapters_;
  uint64_t loaded_ = 0;  // identity of the snapshot
};

}  // namespace troupe
