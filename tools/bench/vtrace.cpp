// `troupe bench vtrace`: V-trace, compared with the memory bandwidth.

#include "algorithms/advantages/vtrace.h"
#include "tools/bench/scan.h"

namespace troupe {
namespace {

constexpr double kVtraceFloat = 4, kVtraceFlag = 1;

VtraceInput vtrace_input(const ScanCase& c, const ScanData& data) {
  VtraceInput in;
  in.layout = c.layout;
  in.steps = c.steps;
  in.sequences = c.sequences;
  in.log_rho = data.floats(0, c.elements());
  in.rewards = data.floats(1, c.elements());
  in.values = data.floats(2, c.elements());
  in.multiply_pg_rho = true;
  in.threads = c.threads;
  return in;
}

ScanCase with_vtrace(ScanCase c, const ScanData& data, VtraceInput in, double more_bytes_per_step = 0) {
  const int64_t n = c.elements();
  c.bytes = (5 * kVtraceFloat + more_bytes_per_step) * static_cast<double>(n);
  c.run = [in, vs = data.output(0, n), advantages = data.output(1, n)] { vtrace(in, vs, advantages); };
  return c;
}

}  // namespace

BenchReport bench_vtrace(double seconds) {
  const ScanData data(kScanElements);
  std::vector<ScanCase> cases;
  for (const ScanCase& c : scan_sweep()) cases.push_back(with_vtrace(c, data, vtrace_input(c, data)));
  for (const ScanCase& c : scan_variant("discounts")) {
    VtraceInput in = vtrace_input(c, data);
    in.discounts = data.floats(3, c.elements());
    cases.push_back(with_vtrace(c, data, in, kVtraceFloat));
  }
  for (const ScanCase& c : scan_variant("dones")) {
    VtraceInput in = vtrace_input(c, data);
    in.terminated = data.dones(c.elements());
    cases.push_back(with_vtrace(c, data, in, kVtraceFlag));
  }
  return bench_scan(cases, data, seconds);
}

}  // namespace troupe
