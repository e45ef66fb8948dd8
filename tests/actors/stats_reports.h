#pragma once
// What the actors report to stats, for tests of StatsCore.

#include "actors/stats_core.h"
#include "runtime/base/log.h"

namespace troupe::test {

using Clock = StatsCore::Clock;

inline const Clock::time_point kStart{};

inline Episodes episodes_with(std::initializer_list<float> returns) {
  const auto count = static_cast<int64_t>(returns.size());
  return {Array::of<float>({count}, returns), Array(DType::i32, {count}), Array(DType::u8, {count})};
}

// The report of replay after rollouts with `steps` samples in total.
inline ReplayReport after(uint64_t steps) {
  ReplayReport report;
  report.ledger.produced = report.ledger.waiting = report.env_steps = steps;
  report.workers = report.workers_total = 1;
  return report;
}

inline UpdateMessage update_with(uint64_t number, std::map<std::string, double> metrics) {
  UpdateMessage update;
  update.version = {0, number};
  update.report = std::make_shared<const UpdateReport>(UpdateReport{1, 0, 1, std::move(metrics)});
  return update;
}

inline RunConfig config_of(int64_t super_batch) {
  RunConfig config;
  config.trainer.super_batch = super_batch;
  return config;
}

}  // namespace troupe::test
