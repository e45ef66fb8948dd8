#pragma once
// The running statistics of observations and returns that a model carries: adding those of batches. Plain functions on
// the weights' buffers; used by the thread that owns the weights.

#include "algorithms/common/running_normalizer.h"
#include "models/learning/staging.h"
#include "models/networks/inputs.h"
#include "models/networks/network_layout.h"
#include "models/weights/weight_block.h"

namespace troupe {

// The statistics of the observations of the samples to train on. Those that hold a number that is not finite are left
// out: one would spoil the statistics for the rest of the run. `batch` is not normalised yet.
RunningNormalizer observation_statistics(const StagedSamples& batch, const InputEncoder& encoder);
// Adds them. Nothing happens without an observation normaliser.
void absorb_observations(const RunningNormalizer& statistics, WeightBlock& weights);

// The statistics of the returns of the samples, those that are finite.
RunningNormalizer return_statistics(const StagedSamples& batch);
// Adds them. The value head is rescaled, so that its values in reward
// units stay the same when its units change (van Hasselt et al. 2016, arXiv:1602.07714, section 2.1). Nothing happens
// without a return normaliser.
void absorb_returns(const RunningNormalizer& statistics, const LinearTensors& value_head, WeightBlock& weights);

}  // namespace troupe
