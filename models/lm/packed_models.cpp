#include "models/lm/packed_models.h"

#include <utility>

#include "models/lm/lm_weights.h"

namespace troupe {
namespace {

constexpr uint64_t kFrozenKey = 0;  // snapshots are numbered from 1

PackedPtr packed(const LmShape& shape, const DecoderWeights& weights, ParallelFor& parallel) {
  auto result = std::make_shared<PackedDecoder>();
  result->pack(shape, weights, parallel);
  result->keep_rest(weights);
  return result;
}

}  // namespace

PackedPtr PackedModels::get(uint64_t identity, const std::function<PackedPtr()>& make) {
  const MutexLock lock(mutex_);
  if (const auto found = forms_.find(identity); found != forms_.end())
    if (PackedPtr form = found->second.lock()) return form;
  std::erase_if(forms_, [](const auto& entry) { return entry.second.expired(); });
  PackedPtr form = make();
  forms_[identity] = form;
  return form;
}

PackedPtr packed_policy(const LmModel& model, const WeightSnapshot& weights, ParallelFor& parallel) {
  return model.packed->get(weights.identity, [&] {
    const auto find = [&](const std::string& name) { return weights.floats(name); };
    return packed(model.shape, bind_decoder<const float>(model.shape, find), parallel);
  });
}

PackedPtr packed_frozen(const LmModel& model, ParallelFor& parallel) {
  FrozenWeights& frozen = *model.frozen;
  if (frozen.only) return frozen.only;
  return frozen.packed.get(kFrozenKey, [&] {
    const auto find = [&](const std::string& name) { return std::as_const(frozen.weights).floats(name); };
    return packed(model.shape, bind_decoder<const float>(model.shape, find), parallel);
  });
}

void FrozenWeights::release(const LmModel& model, ParallelFor& parallel) {
  only = packed_frozen(model, parallel);
  weights = WeightBlock(Signature());
}

}  // namespace troupe
