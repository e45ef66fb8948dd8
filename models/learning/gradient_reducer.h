#pragma once
// The hook between backward and optimizer step.

#include <functional>

namespace at {
class Tensor;
}

namespace troupe {

// May change the gradients of a step: [n] float32 on the trainer's device, laid out as the parameters of a WeightBlock,
// padding included. Called by the learner's thread, once for every minibatch that has samples. When this learner's loss
// is not finite the gradients are NaN: what it sums up with them is skipped by everybody. An empty function costs
// nothing.
//
// Nothing makes several learners call it equally often. Where it waits for the others, as a collective does, they hang
// unless all have the same trainer.epochs and trainer.minibatches, and each of them
// - has samples to train on in every minibatch. Empty ones are passed over: of fewer samples, whole sequences or chunks
//   than minibatches, and of an update with nothing to train on (algorithm.incomplete "drop", burn-in);
// - has algorithm.target_kl 0, because the KL of its own samples decides whether another epoch follows;
// - throws nothing in an update. Whoever catches the exception must end the wait of the others.
// Each loss is a mean over the samples of the learner's own minibatch, so only a mean weighted by their numbers is the
// gradient of the joined minibatch. Whitening and running normalisers use the learner's own batch.
using GradientReducer = std::function<void(at::Tensor& gradients)>;

}  // namespace troupe
