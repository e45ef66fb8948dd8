#include "actors/alarm_facts.h"

#include <cmath>
#include <limits>

#include "actors/answer_summary.h"
#include "actors/config/kind_settings.h"
#include "algorithms/advantages/advantages.h"

namespace troupe {

namespace {

// After how many updates.
uint64_t first_checkpoint(const RunConfig& config) {
  if (config.warmup.steps > 0) return 0;  // that of the warm-up
  const auto every = static_cast<uint64_t>(config.checkpoint.every_updates);
  return every == 0 ? std::numeric_limits<uint64_t>::max() : every;
}

}  // namespace

AlarmWatch::Facts alarm_facts(const RunConfig& config, int64_t window, const ActionSpec* action) {
  const AlgorithmConfig& algorithm = config.algorithm;
  AlarmWatch::Facts facts{.token_run = is_token_run(config)};
  facts.uses_values = settings_of_kind(config).has_values(config) && algorithm.value_coef > 0 &&
                      !find_advantage(algorithm.advantage).run.sequences;
  facts.window = window;
  if (facts.token_run) facts.compared_groups = compared_groups(config);
  facts.first_checkpoint = first_checkpoint(config);
  facts.keeps_best = config.checkpoint.keep_best > 0;
  if (action != nullptr && action->kind != ActionKind::continuous && !action->masked) {
    facts.most_entropy = 0;
    for (const int32_t bins : action->bins) facts.most_entropy += action->chunk * std::log(bins);
  }
  return facts;
}

}  // namespace troupe
