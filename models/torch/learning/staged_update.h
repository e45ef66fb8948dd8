#pragma once
// StagedUpdate: a super-batch as the learner's form of update (update_form.h) has staged it. Made by the prefetcher's
// thread, then used by the learner's. Includes LibTorch: for the sources of models/ only.

#include <optional>

#include "algorithms/common/running_normalizer.h"
#include "models/learning/chunks.h"
#include "models/learning/staging.h"
#include "models/policy.h"
#include "models/torch/learning/batch_tensors.h"
#include "models/torch/learning/device_samples.h"

namespace troupe {

struct StagedUpdate final : StagedBatch {
  StagedSamples staged;                 // in host memory; without inputs where `device` has them
  Chunks chunks;                        // with recurrent state
  std::optional<DeviceSamples> device;  // of the device form
  // Statistics of the observations of the samples, where they are normalised.
  std::optional<RunningNormalizer> observations;
};

}  // namespace troupe
