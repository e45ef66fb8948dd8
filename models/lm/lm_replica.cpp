#include "models/lm/lm_replica.h"

#include "models/lm/lm_weights.h"

namespace troupe {

LmReplica::LmReplica(const LmModel& model, ParallelFor& parallel)
    : model_(model),
      signature_(std::make_shared<const Signature>(published_signature(lm_signature(model)))),
      parallel_(parallel),
      decoder_(model.shape, parallel) {
  if (model.lora.used()) adapters_.emplace(*signature_);
}

void LmReplica::load(const WeightSnapshot& weights) {
  check_snapshot(signature_, weights);
  if (loaded_ == weights.identity) return;
  if (adapters_) {
    adapters_->load(weights);
    if (!loaded()) decoder_.load(packed_frozen(model_, parallel_));
    decoder_.load_adapters(adapter_weights(model_, *adapters_));
  } else {
    decoder_.release();  // first, so that there are never two versions if nothing else has the old one
    loaded_ = 0;
    decoder_.load(packed_policy(model_, weights, parallel_));
  }
  loaded_ = weights.identity;
}

}  // namespace troupe
