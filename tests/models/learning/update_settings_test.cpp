#include "models/learning/update_settings.h"

#include <algorithm>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE(
    "update_settings: the rate of the policy warms up once it learns, that of the value function from the start") {
  LearnerConfig config;
  config.trainer.lr_schedule = "constant";
  config.trainer.lr_warmup = 4;
  config.trainer.policy_lr = 1e-3;
  config.trainer.value_lr = 4e-3;
  for (const int value_only : {0, 2, 6}) {
    config.trainer.value_only_updates = value_only;
    for (int updates = 0; updates < 12; ++updates) {
      CAPTURE(value_only);
      CAPTURE(updates);
      const UpdateSettings settings = update_settings(config, static_cast<uint64_t>(updates), 0.0, 0.0);
      CHECK(settings.loss.train_policy == (updates >= value_only));
      CHECK(settings.rates.value == doctest::Approx(4e-3 * std::min(updates + 1, 4) / 4));
      CHECK(settings.rates.policy == doctest::Approx(1e-3 * std::clamp(updates + 1 - value_only, 1, 4) / 4));
    }
  }
}
