#include "algorithms/advantages/vtrace.h"

#include <cmath>
#include <limits>

#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

float bound_or_infinity(float bound) { return bound <= 0 ? std::numeric_limits<float>::infinity() : bound; }

}  // namespace

ScanTask scan_task(const VtraceInput& in) {
  ScanTask task;
  task.layout = in.layout;
  task.steps = in.steps;
  task.sequences = in.sequences;
  task.reward = in.rewards;
  task.value = in.values;
  task.next = in.next_values;
  task.gammas = in.discounts;
  task.log_rho = in.log_rho;
  task.terminated = in.terminated;
  task.truncated = in.truncated;
  task.mask = in.valid;
  task.bootstrap = in.bootstrap;
  task.gamma = in.gamma;
  task.lambda = in.lambda;
  task.rho_bar = bound_or_infinity(in.rho_bar);
  task.c_bar = bound_or_infinity(in.c_bar);
  task.pg_rho_bar = bound_or_infinity(in.pg_rho_bar);
  TROUPE_CHECK(task.rho_bar >= task.c_bar, "rho_bar", in.rho_bar, "c_bar",
               in.c_bar);  // as the paper requires; also rejects NaN
  TROUPE_CHECK(!std::isnan(in.pg_rho_bar), "pg_rho_bar", in.pg_rho_bar);
  task.multiply_pg_rho = in.multiply_pg_rho;
  task.rlax_mix = in.q_mix == QMix::rlax;
  task.next_at_ends = true;
  task.cut_is_end = !in.bootstrap_on_truncation;
  task.threads = in.threads;
  return task;
}

void vtrace(const VtraceInput& in, OutputView vs, OutputView pg_advantages) {
  ScanTask task = scan_task(in);
  task.first = vs;
  task.second = pg_advantages;
  run_scan(ScanRule::vtrace, task);
}

}  // namespace troupe
