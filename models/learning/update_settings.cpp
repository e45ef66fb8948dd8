#include "models/learning/update_settings.h"

#include <algorithm>

#include "algorithms/common/schedule.h"

namespace troupe {

UpdateSettings update_settings(const LearnerConfig& config, uint64_t updates, double kl_coef, double progress) {
  const TrainerConfig& trainer = config.trainer;
  const AlgorithmConfig& algorithm = config.algorithm;
  const double decay = decay_factor(find_learning_rate_kind(trainer.lr_schedule), progress, trainer.lr_min_ratio,
                                    trainer.lr_stable_ratio);
  // After `earlier` updates, which count from 1: at count 0 the learning rate would be 0, and the update would waste
  // its samples.
  const auto factor = [&](uint64_t earlier) {
    return decay * warmup_factor(static_cast<double>(earlier + 1), static_cast<double>(trainer.lr_warmup));
  };
  const auto value_only = static_cast<uint64_t>(trainer.value_only_updates);
  UpdateSettings result;
  result.rates = {trainer.policy_lr * factor(updates - std::min(updates, value_only)),
                  trainer.value_lr * factor(updates)};
  result.loss.entropy_coef = algorithm.entropy_coef_end < 0.0
                                 ? algorithm.entropy_coef
                                 : linear(algorithm.entropy_coef, algorithm.entropy_coef_end, progress);
  result.loss.kl_coef = kl_coef;
  result.loss.train_policy = updates >= value_only;
  return result;
}

}  // namespace troupe
