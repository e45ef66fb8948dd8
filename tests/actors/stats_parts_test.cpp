#include "actors/stats_core.h"

#include <cmath>

#include "runtime/base/log.h"
#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The number of points of a run with rollouts of `rollout` samples and `total` samples.
int points_of(const RunConfig& config, uint64_t rollout, uint64_t total) {
  CurvePoints points(config, 0);
  int count = 0;
  for (uint64_t produced = rollout; produced <= total; produced += rollout) count += points.take_due(produced);
  return count;
}

}  // namespace

TEST_CASE("curve_points: a short run has a point per update, a long one fewer than 700 points") {
  const RunConfig config = config_of(1000);
  for (const uint64_t updates : {1, 2, 7, 50, 64})
    for (const uint64_t rollout : {1, 10, 333, 999, 1000}) {
      const uint64_t total = (updates * 1000 + rollout - 1) / rollout * rollout;
      CHECK(points_of(config, rollout, total) == static_cast<int>(updates));
    }
  CHECK(points_of(config, 1000, 244'000) > 120);
  CHECK(points_of(config, 1000, 100'000'000) < 700);
  CHECK(points_of(config, 5000, 50'000) == 10);  // at most one per rollout
}

TEST_CASE("curve_points: with reuse an update needs fewer new samples, so points come after fewer samples") {
  RunConfig config = config_of(1000);
  config.replay.mode = "reuse";
  config.replay.max_reuse = 4;
  CHECK(points_of(config, 250, 12'500) == 50);  // 50 updates of 250 new samples each
}

TEST_CASE("curve_points: a resumed run continues from its last point") {
  CurvePoints points(config_of(1000), 5500);
  CHECK_FALSE(points.take_due(5900));
  CHECK(points.take_due(6000));
  CHECK_FALSE(points.take_due(6000));
}

TEST_CASE("learner_figures: a report has means, last values, sums, minima or maxima since the last one") {
  LearnerFigures figures;
  figures.add({{"kl", 0.1},
               {"policy_lr", 3e-4},
               {"skipped_steps", 1},
               {"rollout_weight_max", 5},
               {"ratio_min", 0.5},
               {"ess", NAN}});
  figures.add({{"kl", 0.3},
               {"policy_lr", 1e-4},
               {"skipped_steps", 2},
               {"rollout_weight_max", 2},
               {"ratio_min", 0.7},
               {"ess", NAN}});
  const auto taken = figures.take();
  CHECK(taken.at("kl") == doctest::Approx(0.2));
  CHECK(taken.at("policy_lr") == 1e-4);
  CHECK(taken.at("skipped_steps") == 3);
  CHECK(taken.at("rollout_weight_max") == 5);
  CHECK(taken.at("ratio_min") == 0.5);
  CHECK(std::isnan(taken.at("ess")));
  CHECK(figures.take().at("kl") == taken.at("kl"));  // there was no update in between
  figures.add({{"kl", 0.0}, {"ess", INFINITY}});
  figures.add({{"kl", 0.5}, {"ess", 0.9}});
  CHECK(figures.take() == std::map<std::string, double>{{"kl", 0.25}, {"ess", 0.9}});
}

TEST_CASE("episode_window: it holds the newest episodes, also after saving and loading") {
  EpisodeWindow window(3), copy(3), shorter(2);
  CHECK(std::isnan(window.summary().return_mean));
  window.add(episodes_with({1, 2}));
  Episodes with_parts = episodes_with({3, 6});
  with_parts.parts = {{"form", Array::of<float>({2}, {1, 4})}, {"length", Array::of<float>({2}, {NAN, 8})}};
  window.add(with_parts);
  CHECK(window.summary().return_mean == (2.0 + 3.0 + 6.0) / 3);
  CHECK(window.part_means() == std::map<std::string, double>{{"form", 2.5}, {"length", 8}});
  copy.load(window.save());
  CHECK(copy.part_means() == window.part_means());
  CHECK(copy.summary().return_mean == window.summary().return_mean);
  window.add(with_parts);
  shorter.load(window.save());
  CHECK(shorter.summary().return_mean == 4.5);
  CHECK(shorter.part_means() == std::map<std::string, double>{{"form", 2.5}, {"length", 8}});
  CHECK_THROWS_WITH(copy.load("x"), doctest::Contains("stats.window"));
}

TEST_CASE("learner_figures: the shares of the lags add up to 1, also where an update has no samples of a lag") {
  LearnerFigures figures;
  figures.add({{"share_lag_0", 1.0}, {"kl_lag_0", 0.1}});
  figures.add({{"share_lag_1", 1.0}, {"kl_lag_1", 0.5}});
  figures.add({{"share_lag_0", 0.25}, {"share_lag_1", 0.75}, {"kl_lag_0", 0.3}, {"kl_lag_1", 0.5}});
  const auto taken = figures.take();
  CHECK(taken.at("share_lag_0") == doctest::Approx(1.25 / 3));
  CHECK(taken.at("share_lag_1") == doctest::Approx(1.75 / 3));
  CHECK(taken.at("kl_lag_0") == doctest::Approx(0.2));
  figures.add({{"share_lag_1", 1.0}});
  CHECK(figures.take().at("share_lag_1") == 1.0);
}
