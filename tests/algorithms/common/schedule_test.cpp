#include "algorithms/common/schedule.h"

#include <cmath>
#include <numbers>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

double rate(LearningRateKind kind, double step, double min_ratio = 0) {
  LearningRateSchedule schedule;
  schedule.kind = kind;
  schedule.warmup = 500;
  schedule.total = 10000;
  schedule.min_ratio = min_ratio;
  return learning_rate_factor(schedule, step);
}

}  // namespace

TEST_CASE("schedule: a worked example, peak 1e-4, warm-up 500, total 10000") {
  const auto lr = [](double step) { return 1e-4 * rate(LearningRateKind::cosine, step); };
  CHECK(lr(0) == 0);
  CHECK(lr(250) == doctest::Approx(5e-5));
  CHECK(lr(500) == doctest::Approx(1e-4));
  CHECK(lr(5250) == doctest::Approx(5e-5));
  CHECK(std::abs(lr(10000)) < 1e-18);
  CHECK(std::abs(lr(25000)) < 1e-18);
}

TEST_CASE("schedule: after its end every kind is constant") {
  for (const LearningRateKind kind : {LearningRateKind::linear, LearningRateKind::cosine, LearningRateKind::wsd})
    for (const double step : {10000.0, 15000.0, 20000.0, 1e12}) CHECK(rate(kind, step, .1) == doctest::Approx(.1));
  CHECK(rate(LearningRateKind::constant, 1e12, .1) == 1);
}

TEST_CASE("schedule: linear and cosine are half-way between peak and end in the middle") {
  for (const LearningRateKind kind : {LearningRateKind::linear, LearningRateKind::cosine})
    CHECK(rate(kind, 5250, .2) == doctest::Approx(.6));
}

TEST_CASE("schedule: wsd stays at the peak, then falls along a cosine") {
  CHECK(decay_factor(LearningRateKind::wsd, .9) == 1);
  CHECK(decay_factor(LearningRateKind::wsd, .95) == doctest::Approx(.5));
  CHECK(decay_factor(LearningRateKind::wsd, .975, .5) ==
        doctest::Approx(.5 + .25 * (1 + std::cos(.75 * std::numbers::pi))));
  CHECK(decay_factor(LearningRateKind::wsd, 1) == doctest::Approx(0));
  CHECK(decay_factor(LearningRateKind::wsd, 1, .3, 1) == 1);
}

TEST_CASE("schedule: before its start the factor is 0, and warm-up counts from the start") {
  LearningRateSchedule schedule;
  schedule.kind = LearningRateKind::linear;
  schedule.start = 100;
  schedule.warmup = 10;
  schedule.total = 210;
  CHECK(learning_rate_factor(schedule, 99) == 0);
  CHECK(learning_rate_factor(schedule, 100) == 0);
  CHECK(learning_rate_factor(schedule, 105) == .5);
  CHECK(learning_rate_factor(schedule, 110) == 1);
  CHECK(learning_rate_factor(schedule, 160) == doctest::Approx(.5));
}

TEST_CASE("schedule: without warm-up the first step has the peak") {
  LearningRateSchedule schedule;
  schedule.kind = LearningRateKind::cosine;
  schedule.total = 10;
  CHECK(learning_rate_factor(schedule, 0) == 1);
}

TEST_CASE("schedule: when the warm-up fills the whole run, the decay has ended after it") {
  LearningRateSchedule schedule;
  schedule.kind = LearningRateKind::linear;
  schedule.warmup = 10;
  schedule.total = 10;
  schedule.min_ratio = .25;
  CHECK(learning_rate_factor(schedule, 5) == .5);
  CHECK(learning_rate_factor(schedule, 10) == .25);
}

TEST_CASE("schedule: linear is exact at both ends and clamps its progress") {
  CHECK(linear(.1, .7, 0) == .1);
  CHECK(linear(.1, .7, 1) == .7);
  CHECK(linear(.1, .7, -5) == .1);
  CHECK(linear(.1, .7, 5) == .7);
  CHECK(linear(-2, -3, .5) == -2.5);
}

TEST_CASE("schedule: NaN progress is rejected") {
  CHECK_THROWS_AS(linear(0, 1, std::nan("")), InvariantError);
  CHECK_THROWS_AS(decay_factor(LearningRateKind::cosine, std::nan("")), InvariantError);
  CHECK_THROWS_AS(rate(LearningRateKind::constant, std::nan("")), InvariantError);
}

TEST_CASE("schedule: kinds are found by name, unknown ones are rejected with the nearest") {
  CHECK(find_learning_rate_kind("constant") == LearningRateKind::constant);
  CHECK(find_learning_rate_kind("linear") == LearningRateKind::linear);
  CHECK(find_learning_rate_kind("cosine") == LearningRateKind::cosine);
  CHECK(find_learning_rate_kind("wsd") == LearningRateKind::wsd);
  CHECK_THROWS_WITH_AS(find_learning_rate_kind("cosin"),
                       "trainer.lr_schedule: unknown name \"cosin\", did you mean \"cosine\"? "
                       "(known: constant, linear, cosine, wsd)",
                       ConfigError);
}

TEST_CASE("schedule: the rate is the peak times the factor, and errors name bad settings") {
  LearningRateSchedule schedule;
  schedule.kind = LearningRateKind::cosine;
  schedule.warmup = 500;
  schedule.total = 10000;
  CHECK(learning_rate(schedule, 1e-4, 250) == doctest::Approx(5e-5));
  CHECK(learning_rate(schedule, 1e-4, 5250) == doctest::Approx(5e-5));
  CHECK_THROWS_AS(learning_rate(schedule, -1, 0), ConfigError);
  CHECK_THROWS_AS(learning_rate(schedule, 1, std::nan("")), ConfigError);
  schedule.min_ratio = 1.5;
  CHECK_THROWS_WITH_AS(learning_rate(schedule, 1, 0),
                       "min_ratio: 1.500000, expected a finite number of at least 0 and at most 1", ConfigError);
  schedule.min_ratio = 0;
  schedule.warmup = -1;
  CHECK_THROWS_AS(learning_rate(schedule, 1, 0), ConfigError);
}
