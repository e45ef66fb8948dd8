#pragma once
// GradientReducer: how several learners that train the same weights, the ranks, add up what each computes from its own
// samples. With it they make the updates that one learner would make with the samples of all. Without LibTorch. Each
// rank has one, used by its learner's thread.

#include <cstdint>
#include <memory>
#include <span>

#include "algorithms/common/moments.h"
#include "algorithms/common/running_normalizer.h"

namespace at {
class Tensor;
}

namespace troupe {

// Every function but ranks() waits until all ranks have called it, and gives all of them the same bits. How often and
// with which sizes Learner::update() calls them depends on settings and on earlier sums alone, not on a rank's own
// samples. So ranks stay in step when one has fewer minibatches than another, or none, and all of them end an update
// early or none does. The calls of one update:
//   1. sum [1]         samples to train on; 0 ends the update
//   2. sum [2 O], [O]  statistics of the O observed features; with model.normalize_observations
//   3. sum [1]         samples that are left without the burn-in and incomplete sequences; 0 ends the update
//   4. sum [2], [1]    statistics of returns; with model.normalize_returns
//   5. sum [4], [2]    moments of advantages, which whitening takes, and of returns
//   6. for each epoch:
//      sum [3 M]       samples, tokens and sequences of its M = trainer.minibatches minibatches
//      reduce          for each minibatch that has samples on any rank
//      sum [4]         KL of the epoch: whether algorithm.target_kl ends the update, and the adaptive KL penalty
//
// The ranks must have the same settings, the same weights and the same number of updates behind them, and be given the
// same progress. When update() throws on one rank, whoever catches the exception must end the wait of the others.
//
// What one rank computes from several of its samples stays its own: the groups and the whitening inside estimators of
// whole sequences, normalised rollout weights, and surrogates over a whole minibatch such as clip_cov. Minibatches are
// drawn from a rank's own samples: with several in an epoch the updates are as good as those of one learner, but not
// the same. Of the metrics of an update, those of the KL, the gradient norm, advantages and returns cover all ranks,
// the others the samples of this one.
class GradientReducer {
 public:
  virtual ~GradientReducer() = default;

  virtual int ranks() const = 0;
  // Replaces each number by its sum over all ranks.
  virtual void sum(std::span<double> numbers) = 0;
  // The same with the gradients of a step: [n] float32 on the trainer's device, laid out as the parameters of a
  // WeightBlock, padding included. They need no weights: the loss is already divided by the number of samples of all
  // ranks. `samples` of the minibatch are this rank's; with 0 its gradients are 0. When a rank's loss is not finite its
  // gradients are NaN, so that all ranks skip the step.
  virtual void reduce(at::Tensor& gradients, int64_t samples) = 0;
};

// One rank alone, for which nothing changes.
std::shared_ptr<GradientReducer> single_rank();

// The sum over all ranks of a number.
double sum_over_ranks(GradientReducer& reducer, double number);
// The same of streams of numbers, whose moments become those of the streams of all ranks. In two sums of two and of one
// number each. With one rank they stay as they are.
void merge_over_ranks(GradientReducer& reducer, std::span<Moments> moments);
RunningNormalizer merged_over_ranks(GradientReducer& reducer, const RunningNormalizer& statistics);

}  // namespace troupe
