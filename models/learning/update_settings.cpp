#include "models/learning/update_settings.h"

#include "algorithms/common/schedule.h"

namespace troupe {

UpdateSettings update_settings(const LearnerConfig& config, uint64_t updates, double kl_coef, double progress) {
  const TrainerConfig& trainer = config.trainer;
  const AlgorithmConfig& algorithm = config.algorithm;
  const double decay = decay_factor(find_learning_rate_kind(trainer.lr_schedule), progress, trainer.lr_min_ratio,
                                    trainer.lr_stable_ratio);
  // Updates count from 1 here: at count 0 the learning rate would be 0, and the update would waste its samples.
  const double factor = decay * warmup_factor(static_cast<double>(updates + 1), static_cast<double>(trainer.lr_warmup));
  UpdateSettings result;
  result.rates = {trainer.policy_lr * factor, trainer.value_lr * factor};
  result.loss.entropy_coef = algorithm.entropy_coef_end < 0.0
                                 ? algorithm.entropy_coef
                                 : linear(algorithm.entropy_coef, algorithm.entropy_coef_end, progress);
  result.loss.kl_coef = kl_coef;
  result.loss.train_policy = updates >= static_cast<uint64_t>(trainer.value_only_updates);
  return result;
}

}  // namespace troupe
