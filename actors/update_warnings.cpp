#include "actors/update_warnings.h"

#include "actors/config/kind_settings.h"
#include "actors/run_progress.h"

namespace troupe {

std::string skipped_warning(const RunConfig& config, uint64_t update, const UpdateReport& report) {
  const KindSettings& kind = settings_of_kind(config);
  return "update " + std::to_string(update) + ": " + std::to_string(report.skipped) + " of " +
         std::to_string(report.steps + report.skipped) +
         " optimizer steps were skipped because the loss or its gradient was not finite; check the size of the rewards "
         "(" +
         kind.reward_size + ") and the learning rate" +
         (kind.has_values(config) ? "s (trainer.policy_lr, trainer.value_lr)" : " (trainer.policy_lr)") +
         ". Further ones are counted in skipped_steps without a warning; the run ends after " +
         std::to_string(config.trainer.max_skipped) +
         " updates in a row in which every step is skipped (trainer.max_skipped)";
}

std::string empty_warning(const RunConfig& config, uint64_t update, uint64_t samples) {
  const bool drop = config.algorithm.incomplete == "drop";
  return "update " + std::to_string(update) + ": nothing to train on in a super-batch of " + std::to_string(samples) +
         " samples, so no optimizer step was taken: " +
         (drop ? "algorithm.incomplete \"drop\" leaves out every sequence that does not end in a terminal state within "
                 "its rollout; use a larger rollout.length, or algorithm.incomplete \"bootstrap\""
               : "every sample is in the burn-in of its sequence (model.burn_in)") +
         ". Further updates like this are not reported";
}

std::string slow_disk_warning(const RunConfig& config, uint64_t update) {
  const bool evaluated = config.checkpoint.keep_best > 0 && !due(update, config.checkpoint.every_updates);
  return "update " + std::to_string(update) +
         ": training waits until the checkpoint before this one is written; to avoid the wait, use a larger " +
         (evaluated ? "evaluation" : "checkpoint") + ".every_updates. Further waits are not reported";
}

std::string evaluations_warning(uint64_t update, uint64_t evaluations) {
  return "update " + std::to_string(update) + ": training waits until fewer than " + std::to_string(evaluations) +
         " evaluations are open, because they take longer than the updates between them; to avoid the wait, use a "
         "larger evaluation.every_updates or fewer evaluation.episodes. Further waits are not reported";
}

}  // namespace troupe
