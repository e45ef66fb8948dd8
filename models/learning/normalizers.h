#pragma once
// The running statistics of observations and returns that a model carries: taking up a batch. Plain functions on the
// weights' buffers; used by the thread that owns the weights.

#include "algorithms/common/running_normalizer.h"
#include "models/learning/staging.h"
#include "models/networks/inputs.h"
#include "models/weights/weight_block.h"

namespace troupe {

// Adds the observations of the samples to train on. Those that hold a number that is not finite are left out: one would
// spoil the statistics for the rest of the run. Nothing happens without an observation normaliser. `batch` is not
// normalised yet.
void absorb_observations(const StagedSamples& batch, const InputEncoder& encoder, WeightBlock& weights);
// In two steps, of which the first, the longer one, needs no weights: the statistics of the batch, and adding them.
RunningNormalizer observation_statistics(const StagedSamples& batch, const InputEncoder& encoder);
void absorb_observations(const RunningNormalizer& statistics, WeightBlock& weights);

// Adds the returns of the samples, those that are finite. The value head keeps saying the same in reward units when its
// units change (van Hasselt et al. 2016, arXiv:1602.07714, section 2.1). Nothing happens without a return normaliser.
void absorb_returns(const StagedSamples& batch, WeightBlock& weights);

}  // namespace troupe
