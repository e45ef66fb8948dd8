#pragma once
// PackedModels: the packed forms of a model's weights that this process uses. Generators, references and the learner of
// one version share one, which lives as long as one of them has it. Any thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "models/decoder/packed_decoder.h"
#include "runtime/base/mutex.h"
#include "runtime/weights/weights.h"

namespace troupe {

struct LmModel;

using PackedPtr = std::shared_ptr<const PackedDecoder>;

class PackedModels {
 public:
  // The form of the weights with this number, made if nothing has it. Who asks meanwhile waits for it.
  PackedPtr get(uint64_t identity, const std::function<PackedPtr()>& make);

 private:
  Mutex mutex_;
  std::map<uint64_t, std::weak_ptr<const PackedDecoder>> forms_ TROUPE_GUARDED_BY(mutex_);
};

// The policy in a snapshot of this model, which has no adapters.
PackedPtr packed_policy(const LmModel& model, const WeightSnapshot& weights, ParallelFor& parallel);

// The frozen weights of a model with adapters.
PackedPtr packed_frozen(const LmModel& model, ParallelFor& parallel);

}  // namespace troupe
