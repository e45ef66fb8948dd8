#include "algorithms/advantages/returns.h"

#include "algorithms/scan/scan.h"

namespace troupe {

ScanTask scan_task(const ReturnInput& in) {
  ScanTask task;
  task.layout = in.layout;
  task.steps = in.steps;
  task.sequences = in.sequences;
  task.offsets = in.offsets;
  task.reward = in.rewards;
  task.gammas = in.gammas;
  task.terminated = in.terminated;
  task.mask = in.mask;
  task.bootstrap = in.bootstrap;
  task.gamma = in.gamma;
  task.skip = in.masked == MaskedReturn::skip;
  task.carry_outside = in.outside == Outside::carry;
  task.threads = in.threads;
  return task;
}

void reward_to_go(const ReturnInput& in, OutputView returns) {
  ScanTask task = scan_task(in);
  task.second = returns;
  run_scan(ScanRule::reward_to_go, task);
}

}  // namespace troupe
