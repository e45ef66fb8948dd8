#include "algorithms/advantages/gae.h"

#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"

namespace troupe {

ScanTask scan_task(const GaeInput& in) {
  TROUPE_CHECK(in.mask.size == 0 || in.valid.size == 0, "mask and valid cannot be combined");
  ScanTask task;
  task.layout = in.layout;
  task.steps = in.steps;
  task.sequences = in.sequences;
  task.offsets = in.offsets;
  task.reward = in.rewards;
  task.value = in.values;
  task.next = in.next_values;
  task.gammas = in.gammas;
  task.lambdas = in.lambdas;
  task.terminated = in.terminated;
  task.truncated = in.truncated;
  task.mask = in.mask.size ? in.mask : in.valid;
  task.bootstrap = in.bootstrap;
  task.gamma = in.gamma;
  task.lambda = in.lambda;
  task.skip = in.valid.size == 0;
  task.carry_outside = in.mask.size != 0 && in.outside == Outside::carry;
  task.cut_is_end = !in.bootstrap_on_truncation;
  task.threads = in.threads;
  return task;
}

void gae(const GaeInput& in, OutputView advantages, OutputView returns) {
  ScanTask task = scan_task(in);
  task.first = advantages;
  task.second = returns;
  run_scan(ScanRule::gae, task);
}

void lambda_returns(const GaeInput& in, OutputView returns) {
  ScanTask task = scan_task(in);
  task.second = returns;
  run_scan(ScanRule::lambda_return, task);
}

}  // namespace troupe
