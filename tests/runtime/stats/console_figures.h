#pragma once
// Snapshots for tests of what is printed.

#include <cmath>
#include <iterator>

#include "runtime/base/rng.h"
#include "runtime/stats/snapshot.h"

namespace troupe::test {

inline StatsSnapshot running() {
  StatsSnapshot s;
  s.elapsed_seconds = 12.4;
  s.progress = 0.625;
  s.eta_seconds = 3725;
  s.env_steps = 312'500;
  s.env_steps_per_second = 103'512.4;
  s.env_steps_per_second_60s = 98'001;
  s.updates = 152;
  s.updates_per_second = 12.34;
  s.reuse = 1;
  s.trainer_wait_fraction = 0.03;
  s.lag_p50 = 0;
  s.lag_p95 = 1;
  s.lag_max = 1;
  s.lag_cap = 1;
  s.ledger = {313'000, 311'296, 1'000, 0, 64, 640};
  s.batch_size_p50 = 64;
  s.batches_full = 80;
  s.batches_all_waiting = 20;
  s.recent = {.batches_full = 80, .batches_all_waiting = 20, .trainer_wait = 0.03};
  s.inference_p50_ms = 0.211;
  s.inference_p99_ms = 0.8;
  s.episodes = 900;
  s.return_mean = 421.34;
  s.return_std = 88.06;
  s.length_mean = 421;
  s.learner = {{"kl", 0.0123}, {"clip_fraction", 0.081}, {"ess", 0.94}};
  s.workers_up = s.workers_total = 2;
  s.inference_up = s.inference_own = 1;
  s.weights_behind = {{"inference/0", 0}, {"10.0.0.2:4000", 1}};
  s.rss_bytes = 182'400'000;
  return s;
}

// A snapshot with random extreme values: long, tiny, negative and non-finite ones.
inline StatsSnapshot extreme(Rng& rng) {
  constexpr double kNumbers[] = {kUnknown, INFINITY,  -INFINITY,  0,          -0.0,      1e-300, -1e-300, 0.00012345,
                                 0.5,      -123456.7, 99999.4999, -99998.996, 123456789, 1e18,   1e300,   -1.2345e-7};
  constexpr uint64_t kCounts[] = {0, 1, 999, 9'999'999, 10'000'000, 999'500'000, UINT64_MAX / 8, UINT64_MAX};
  const auto number = [&] { return kNumbers[rng.below(std::size(kNumbers))]; };
  const auto count = [&] { return kCounts[rng.below(std::size(kCounts))]; };
  StatsSnapshot s;
  for (double* value : {&s.elapsed_seconds,
                        &s.progress,
                        &s.eta_seconds,
                        &s.env_steps_per_second,
                        &s.env_steps_per_second_60s,
                        &s.updates_per_second,
                        &s.reuse,
                        &s.trainer_wait_fraction,
                        &s.recent.trainer_wait,
                        &s.lag_p50,
                        &s.lag_p95,
                        &s.lag_max,
                        &s.batch_size_p50,
                        &s.inference_p50_ms,
                        &s.inference_p99_ms,
                        &s.return_mean,
                        &s.return_std,
                        &s.length_mean,
                        &s.success_rate,
                        &s.learner["kl"],
                        &s.learner["clip_fraction"],
                        &s.learner["ess"]})
    *value = number();
  for (uint64_t* value : {&s.env_steps,
                          &s.updates,
                          &s.lag_cap,
                          &s.ledger.produced,
                          &s.ledger.dropped_stale,
                          &s.ledger.dropped_full,
                          &s.ledger.lost_in_crash,
                          &s.ledger.filtered,
                          &s.ledger.unscored,
                          &s.ledger.verifier_failed,
                          &s.batches_full,
                          &s.batches_timeout,
                          &s.batches_all_waiting,
                          &s.workers_up,
                          &s.workers_total,
                          &s.inference_up,
                          &s.inference_own,
                          &s.rss_bytes,
                          &s.weights_behind["inference 0"],
                          &s.env_failures["Env"]})
    *value = count();
  if (rng.below(2) == 0) s.evaluation = EvaluationResult{count(), count(), number(), number(), number(), number()};
  return s;
}

}  // namespace troupe::test
