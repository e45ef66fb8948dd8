#pragma once
// UpdateForm: the part of an update that depends on where the data is. HostForm makes it in plain loops on host arrays
// around the network's tensor operations, DeviceForm in tensor operations alone. Both compute the same up to rounding,
// and their saved states are the same. stage() may be called by another thread than the rest. Includes LibTorch: for
// the sources of models/ only.

#include <map>
#include <memory>
#include <string>

#include "algorithms/common/algorithm_choice.h"
#include "models/learning/chunk_forward.h"
#include "models/learning/gradient_reducer.h"
#include "models/learning/minibatch.h"
#include "models/learning/staged_update.h"
#include "models/learning/start.h"
#include "models/learning/targets.h"
#include "models/learning/update_settings.h"
#include "models/networks/replica.h"

namespace troupe {

struct StepReport {
  LossReport loss;
  double grad_norm = 0.0;  // not finite: the step was skipped, nothing has changed
};

// What the samples of a batch are trained towards.
struct Training {
  const Targets& targets;
  std::span<const uint8_t> is_trained;  // [B]; looked at only with chunks
};

class UpdateForm {
 public:
  // `replica` must outlive this.
  UpdateForm(Replica& replica, GradientReducer reducer);
  virtual ~UpdateForm() = default;
  // Its functions refer to it.
  UpdateForm(const UpdateForm&) = delete;
  UpdateForm& operator=(const UpdateForm&) = delete;

  // Makes what update needs of samples and chunks, once per batch.
  virtual void stage(StagedUpdate& batch) const = 0;

  // An update: begin(), begin_steps(), step() for every minibatch, end(); begin() alone where there turns out to be
  // nothing to train on. `batch` must outlive it.
  // Takes up the batch's statistics into the observation normaliser, then normalises its inputs.
  virtual void begin(StagedUpdate& batch) = 0;
  // The network with its present weights, for the batch of begin(), which must not be changed meanwhile.
  CurrentNetwork current_network();
  // Host weights that changed since begin() are taken over. `training` must outlive the steps.
  virtual void begin_steps(const Training& training) = 0;
  // Trains on one minibatch in parts of at most `micro_batch` samples (0 = whole), or one longer sequence. With chunks,
  // `minibatch` is the indices of some, each of which has something to train on, and a part is whole chunks.
  virtual StepReport step(const UpdateSettings& settings, SampleRange minibatch, int64_t micro_batch) = 0;
  // Makes the host weights those that were trained.
  virtual void end() = 0;

  // The optimizer's state, as save_moments() and load_moments() of adam.h.
  virtual void save(std::map<std::string, Array>& tensors, std::map<std::string, double>& scalars) const = 0;
  virtual void load(const std::map<std::string, Array>& tensors, const std::map<std::string, double>& scalars) = 0;

 protected:
  // What the policy says about the stored actions of some samples of the batch, given the network's outputs for them.
  virtual SampleEvaluation evaluate(std::span<const int64_t> samples, const NetworkOutput& said,
                                    bool probabilities) = 0;
  virtual const BatchTensors& tensors() const = 0;  // of the batch

  Replica& replica_;
  GradientReducer reducer_;
  SampleGather gather_;
  ChunkForward chunk_forward_;
  StagedUpdate* batch_ = nullptr;

 private:
  void use_samples(CurrentNetwork& network);
  void use_chunks(CurrentNetwork& network);
};

// Tokens of the longest sequence there can be in a run.
double longest_sequence(const LearnerConfig& config, const AlgorithmChoice& choice, const Head& head);
// Whole chunks of `steps` samples in a micro-batch, which holds one at least; `micro_batch` itself without chunks.
int64_t chunks_of(int64_t micro_batch, int64_t steps);

}  // namespace troupe
