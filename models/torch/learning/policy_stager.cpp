#include "models/torch/learning/policy_stager.h"

#include <optional>
#include <utility>

#include "algorithms/choice/algorithm_choice.h"
#include "models/learning/normalizers.h"
#include "models/learning/recurrence.h"
#include "models/torch/learning/device_samples.h"
#include "models/torch/learning/staged_update.h"

namespace troupe {

namespace {

class PolicyStager final : public Stager {
 public:
  PolicyStager(const LearnerConfig& config, const EnvSpec& env, const Replica& replica, bool on_device)
      : env_(env),
        encoder_(replica.encoder),
        recurrence_(recurrence_of(config, env)),
        extras_(rollout_extras(config.algorithm)),
        whole_columns_(choose_algorithm(config.algorithm).columns || recurrence_.state_size > 0),
        normalizes_(config.model.normalize_observations),
        device_(replica.device.device()) {
    if (on_device) head_.emplace(replica.head, device_);
  }

  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    auto result = std::make_unique<StagedUpdate>();
    result->index = batch.index;
    StagedSamples& samples = result->staged = stage_samples(batch, env_, encoder_, whole_columns_, extras_);
    result->chunks = stage_chunks(batch, samples, recurrence_);
    result->samples = samples.trained.size();
    Array versions = stage_versions(batch, whole_columns_);
    samples.lags = stage_lags(batch, versions);
    if (normalizes_) {
      samples.versions = std::move(versions);
      result->observations = observation_statistics(samples, encoder_);
    }
    if (head_) {
      StageClock clock;
      clock.begin();
      place(*result);
      clock.mark(&UpdateStages::copy);
      result->stages = clock.stages();
    }
    return result;
  }

 private:
  void place(StagedUpdate& batch) const {
    batch.device = place_samples(batch.staged, batch.chunks, *head_, device_);
    batch.staged.inputs.clear();
    batch.staged.bootstrap_inputs.clear();
  }

  EnvSpec env_;
  InputEncoder encoder_;
  Recurrence recurrence_;
  RolloutExtras extras_;
  bool whole_columns_, normalizes_;
  at::Device device_;
  std::optional<DeviceHead> head_;  // where samples are placed on the device
};

}  // namespace

std::shared_ptr<const Stager> make_policy_stager(const LearnerConfig& config, const EnvSpec& env,
                                                 const Replica& replica, bool on_device) {
  return std::make_shared<const PolicyStager>(config, env, replica, on_device);
}

}  // namespace troupe
