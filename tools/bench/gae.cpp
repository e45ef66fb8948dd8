// `troupe bench gae`: GAE and related scans, compared with the memory bandwidth.

#include <algorithm>

#include "algorithms/advantages/gae.h"
#include "algorithms/advantages/returns.h"
#include "tools/bench/scan.h"

namespace troupe {
namespace {

constexpr double kFloat = 4, kFlag = 1;

GaeInput input_of(const ScanCase& c, const ScanData& data) {
  GaeInput in;
  in.layout = c.layout;
  in.steps = c.steps;
  in.sequences = c.sequences;
  in.rewards = data.floats(0, c.elements());
  in.values = data.floats(1, c.elements());
  in.threads = c.threads;
  return in;
}

ScanCase with_gae(ScanCase c, const ScanData& data, GaeInput in, double more_bytes_per_step = 0) {
  const int64_t n = c.elements();
  c.bytes = (4 * kFloat + more_bytes_per_step) * static_cast<double>(n);
  c.run = [in, advantages = data.output(0, n), returns = data.output(1, n)] { gae(in, advantages, returns); };
  return c;
}

// Packed rows of 256 to 1791 steps.
std::vector<int64_t> packed_offsets(int64_t elements) {
  std::vector<int64_t> offsets = {0};
  for (int64_t i = 0; offsets.back() < elements; ++i)
    offsets.push_back(std::min(elements, offsets.back() + 256 + i * 761 % 1536));
  return offsets;
}

}  // namespace

BenchReport bench_gae(double seconds) {
  ScanData data(kScanElements);
  const std::vector<int64_t> offsets = packed_offsets(kScanElements);
  std::vector<ScanCase> cases;
  for (const ScanCase& c : scan_sweep()) cases.push_back(with_gae(c, data, input_of(c, data)));
  for (const ScanCase& c : scan_variant("dones")) {
    GaeInput in = input_of(c, data);
    in.terminated = data.dones(c.elements());
    cases.push_back(with_gae(c, data, in, kFlag));
  }
  for (const ScanCase& c : scan_variant("masked")) {
    GaeInput in = input_of(c, data);
    in.mask = data.mask(c.sequences, c.steps, c.layout);
    cases.push_back(with_gae(c, data, in, kFlag));
  }
  for (const ScanCase& c : scan_variant("packed")) {
    if (c.layout != Layout::rows) continue;
    GaeInput in = input_of(c, data);
    in.steps = 0;
    in.sequences = static_cast<int64_t>(offsets.size()) - 1;
    in.offsets = offsets;
    cases.push_back(with_gae(c, data, in));
  }
  for (ScanCase c : scan_variant("lambda_returns")) {
    const int64_t n = c.elements();
    c.bytes = 3 * kFloat * static_cast<double>(n);
    c.run = [in = input_of(c, data), out = data.output(0, n)] { lambda_returns(in, out); };
    cases.push_back(c);
  }
  for (ScanCase c : scan_variant("reward_to_go")) {
    const int64_t n = c.elements();
    c.bytes = 2 * kFloat * static_cast<double>(n);
    ReturnInput in;
    in.layout = c.layout;
    in.steps = c.steps;
    in.sequences = c.sequences;
    in.rewards = data.floats(0, n);
    in.gamma = 0.99f;
    c.run = [in, out = data.output(0, n)] { reward_to_go(in, out); };
    cases.push_back(c);
  }
  return bench_scan(cases, data, seconds);
}

}  // namespace troupe
