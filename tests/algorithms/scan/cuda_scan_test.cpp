// The CUDA kernels, executed on the host thread by thread (emulated_grid.h): the same code that nvcc compiles, except
// for DeviceThread. Compared with a plain loop in float64 and with the CPU's kernels.
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "algorithms/cuda/choose_kernel.h"
#include "algorithms/cuda/scan_columns.h"
#include "algorithms/cuda/scan_rows.h"
#include "algorithms/scan/scan.h"
#include "runtime/base/errors.h"
#include "tests/algorithms/scan/cuda_scan_case.h"
#include "tests/algorithms/scan/emulated_grid.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

double number_at(const FloatView& view, int64_t at) {
  if (view.element == Element::float32) return static_cast<const float*>(view.data)[at];
  return cuda::float_of_bfloat16(static_cast<const uint16_t*>(view.data)[at]);
}

struct Results {
  std::vector<double> first, second;
  double largest = 0;
};

// One sequence by the equations, from its last step to its first. Derived from
// docs/algorithms/advantages.md, not from the kernels.
void oracle(const CudaScanCase& c, ScanRule rule, int64_t b, Results& out) {
  const ScanTask& k = c.task;
  const bool values = rule != ScanRule::reward_to_go, vtrace = rule == ScanRule::vtrace;
  const int64_t n = c.length(b);
  const auto number = [&](const FloatView& view, int64_t t, double otherwise) {
    return view.data ? number_at(view, c.place(view.stride, b, t)) : otherwise;
  };
  const auto flag = [&](const FlagView& view, int64_t t) { return view.data && view.data[c.place(view.stride, b, t)]; };
  if (n == 0) return;
  double beyond = k.bootstrap.empty() ? 0 : k.bootstrap[static_cast<std::size_t>(b)];
  if (k.bootstrap.empty() && vtrace) beyond = number(k.next, n - 1, 0);
  double sum = values ? 0 : beyond, value = beyond;  // S of the step after, V of the next unmasked step
  bool later_live = true;
  std::vector<double> first(static_cast<std::size_t>(n)), second(first);
  for (int64_t t = n - 1; t >= 0; --t) {
    const auto i = static_cast<std::size_t>(t);
    const bool live = !k.mask.data || flag(k.mask, t);
    const double r = number(k.reward, t, 0), v = number(k.value, t, 0);
    const double gamma = number(k.gammas, t, k.gamma), lambda = number(k.lambdas, t, k.lambda);
    const bool cut = flag(k.truncated, t);
    const bool end = flag(k.terminated, t) || (cut && k.cut_is_end) || gamma == 0;
    double next = value;
    if (k.next.data && (!vtrace || cut || flag(k.terminated, t) || !later_live)) next = number(k.next, t, 0);
    if (end) next = 0;
    const double after = end || cut ? 0 : sum;
    double s = 0, a = 0, g = 0;
    if (vtrace) {
      const double rho = std::exp(std::min(20.0, std::max(-20.0, number(k.log_rho, t, 0))));
      const double delta = std::min<double>(k.rho_bar, rho) * (r + gamma * next - v);
      s = delta + gamma * lambda * std::min<double>(k.c_bar, rho) * after;
      a = r + gamma * (next + (k.rlax_mix ? lambda : 1) * after) - v;
      if (k.multiply_pg_rho) a *= std::min<double>(k.pg_rho_bar, rho);
      g = a;
      a = v + s;
    } else if (values) {
      s = r + gamma * next - v + gamma * lambda * after;
      a = s;
      g = s + v;
    } else {
      s = r + gamma * after;
      g = s;
    }
    if (!live) {
      const double carried = k.skip ? sum : 0;
      a = k.carry_outside ? carried : 0;
      g = !k.carry_outside ? 0 : values ? carried + v : k.skip ? carried : s;
      s = carried;
    }
    first[i] = a;
    second[i] = g;
    sum = s;
    if (live) value = v;
    if (!live && !k.skip) value = 0;
    later_live = live;
    out.largest = std::max({out.largest, std::fabs(a), std::fabs(g)});
  }
  out.first.insert(out.first.end(), first.begin(), first.end());
  out.second.insert(out.second.end(), second.begin(), second.end());
}

// Runs the planned kernel in the emulation.
void emulate(ScanRule rule, const cuda::ScanPlan& plan, const cuda::DeviceScan& k, uint64_t seed, int resident) {
  const auto kernel =
      cuda::choose_kernel(rule, plan.mode, [&]<class Rule, cuda::StepMode kMode>() -> test::EmulatedKernel {
        if constexpr (!cuda::kSkips<kMode>) {
          if (plan.kind == ScanKind::warp_rows)
            return [&k](EmulatedThread& t, unsigned char*) { cuda::scan_warp_row<Rule, kMode>(t, k); };
          if (plan.kind == ScanKind::columns)
            return [&k](EmulatedThread& t, unsigned char*) { cuda::scan_column<Rule, kMode>(t, k); };
        }
        if (plan.kind == ScanKind::row_tiles)
          return [&k](EmulatedThread& t, unsigned char* shared) { cuda::scan_row_tile<Rule, kMode>(t, k, shared); };
        return [&k](EmulatedThread& t, unsigned char* shared) { cuda::scan_column_tile<Rule, kMode>(t, k, shared); };
      });
  test::EmulatedGrid(plan.threads, plan.shared_bytes, seed).run(kernel, plan.blocks, resident);
}

// The complete run_scan_on_gpu(), with the emulation instead of CUDA.
cuda::ScanPlan run_emulated(const ScanShape& shape, ScanTask task, uint64_t seed) {
  REQUIRE(check_scan(shape.rule, task) > 0);
  const cuda::ScanPlan plan = cuda::plan_scan(shape.rule, task, shape.kind);
  std::vector<unsigned char> memory(static_cast<std::size_t>(plan.workspace_bytes) + 16, 0xa5);
  unsigned char* workspace = memory.data() + (16 - reinterpret_cast<uintptr_t>(memory.data()) % 16) % 16;
  std::memset(workspace, 0, static_cast<std::size_t>(plan.cleared_bytes));
  if (!task.offsets.empty()) std::memcpy(workspace + plan.offsets_at, task.offsets.data(), task.offsets.size_bytes());
  emulate(shape.rule, plan, cuda::device_scan(shape.rule, task, plan, workspace), seed, shape.resident);
  return plan;
}

// The largest difference between an output and the expected values; NaN counts as infinite.
double difference(const CudaScanCase& c, const OutputView& out, const std::vector<double>& want) {
  double largest = 0;
  std::size_t i = 0;
  for (int64_t b = 0; b < c.task.sequences; ++b)
    for (int64_t t = 0; t < c.length(b); ++t, ++i) {
      const double d = std::fabs(out.data[c.place(out.stride, b, t)] - want[i]);
      largest = std::max(largest, d <= 1e30 ? d : std::numeric_limits<double>::infinity());
    }
  return largest;
}

// Runs one random case of this shape; returns its plan.
cuda::ScanPlan check_case(const ScanShape& shape, uint64_t seed) {
  CAPTURE(static_cast<int>(shape.rule));
  CAPTURE(static_cast<int>(shape.kind));
  CAPTURE(shape.steps);
  CAPTURE(shape.sequences);
  CAPTURE(shape.packed);
  CAPTURE(shape.plain);
  CAPTURE(seed);
  CudaScanCase c(shape, seed);
  Results want;
  for (int64_t b = 0; b < c.task.sequences; ++b) oracle(c, shape.rule, b, want);
  const double tolerance = 1e-5 + 2e-5 * want.largest;

  const cuda::ScanPlan plan = run_emulated(shape, c.task, seed + 1);
  CAPTURE(static_cast<int>(plan.mode));
  const bool two = c.task.first.data != nullptr;
  if (two) CHECK(difference(c, c.task.first, want.first) <= tolerance);
  CHECK(difference(c, c.task.second, want.second) <= tolerance);
  CHECK(c.touched() <= (two ? 2 : 1) * c.elements());  // gaps between rows are unchanged

  ScanTask on_cpu = c.task;
  if (two) on_cpu.first = c.output();
  on_cpu.second = c.output();
  run_scan(shape.rule, on_cpu);
  if (two) CHECK(difference(c, on_cpu.first, want.first) <= tolerance);
  CHECK(difference(c, on_cpu.second, want.second) <= tolerance);
  return plan;
}

constexpr ScanRule kRules[] = {ScanRule::gae, ScanRule::lambda_return, ScanRule::vtrace, ScanRule::reward_to_go};

// Runs `cases` random cases of every rule, with sequences of at most `steps` steps.
void check_many(ScanShape shape, int64_t steps, int64_t sequences, int cases) {
  std::mt19937_64 random(static_cast<uint64_t>(shape.kind) * 7919 + shape.packed);
  for (const ScanRule rule : kRules)
    for (int i = 0; i < cases; ++i) {
      shape.rule = rule;
      shape.steps = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(steps));
      shape.sequences = 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(sequences));
      shape.plain = i % 4 == 0;
      shape.aligned = i % 3 == 0;
      if (i % 6 == 0) shape.half = i % 12 == 0;
      if (i % 6 == 1) shape.half.reset();
      shape.ends = i % 5 == 0 ? 0 : 0.01f * static_cast<float>(random() % 10);
      shape.holes = 0.1f * static_cast<float>(random() % 10);
      shape.gamma = i % 7 == 0 ? 1 : 0.99f;
      shape.lambda = i % 7 == 0 ? 1 : i % 7 == 1 ? 0 : 0.95f;
      shape.resident = 1 + static_cast<int>(random() % 5);
      check_case(shape, random());
    }
}

}  // namespace

TEST_CASE("cuda scan: one warp per row equals the plain loop, for all arrays and alignments") {
  check_many({.kind = ScanKind::warp_rows}, 600, 5, 60);
  check_many({.kind = ScanKind::warp_rows, .packed = true}, 300, 7, 30);
}

TEST_CASE("cuda scan: several short rows per warp equal the plain loop") {
  for (const int64_t steps : {1, 4, 8, 16, 32, 64}) check_many({.kind = ScanKind::warp_rows}, steps, 200, 24);
}

TEST_CASE("cuda scan: row tiles joined by look-back equal the plain loop") {
  check_many({.kind = ScanKind::row_tiles}, 20000, 2, 20);
  check_many({.kind = ScanKind::row_tiles, .packed = true}, 9000, 4, 8);
}

TEST_CASE("cuda scan: look-back over more row tiles than a warp visits at once") {
  // 41 tiles, none of them closed.
  for (const ScanRule rule : {ScanRule::gae, ScanRule::reward_to_go})
    check_case({.rule = rule,
                .kind = ScanKind::row_tiles,
                .steps = 41 * 4096 - 77,
                .sequences = 1,
                .plain = true,
                .gamma = 1,
                .lambda = 1,
                .resident = 40},
               5);
}

TEST_CASE("cuda scan: one thread per column equals the plain loop") {
  check_many({.kind = ScanKind::columns}, 100, 300, 60);
}

TEST_CASE("cuda scan: column tiles joined by look-back equal the plain loop") {
  check_many({.kind = ScanKind::column_tiles}, 900, 70, 40);
}

TEST_CASE("cuda scan: look-back over more column tiles than a block visits at once") {
  check_case({.kind = ScanKind::column_tiles,
              .steps = 30 * 128 + 5,
              .sequences = 33,
              .plain = true,
              .gamma = 1,
              .lambda = 1,
              .resident = 12},
             6);
}

TEST_CASE("cuda scan: lengths around the sizes of quads, warps and tiles") {
  for (const int64_t steps : {1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 1023, 1024, 1025})
    for (uint64_t seed = 0; seed < 6; ++seed)
      check_case(
          {.kind = ScanKind::warp_rows, .steps = steps, .sequences = 5, .plain = seed < 2, .aligned = seed % 2 == 0},
          seed);
  for (const int64_t steps : {1, 5, 127, 1024, 2045, 2047, 2048, 2049, 4093, 4094, 4095, 4096, 4097, 8192, 8193})
    for (uint64_t seed = 0; seed < 4; ++seed)
      check_case(
          {.kind = ScanKind::row_tiles, .steps = steps, .sequences = 1, .plain = seed < 2, .aligned = seed % 2 == 0},
          seed);
  for (const int64_t steps : {1, 7, 8, 9, 15, 16, 17, 127, 128, 129, 256})
    for (const int64_t sequences : {1, 31, 32, 33})
      for (uint64_t seed = 0; seed < 2; ++seed) {
        check_case({.kind = ScanKind::columns, .steps = steps, .sequences = sequences, .plain = seed == 0}, seed);
        check_case({.kind = ScanKind::column_tiles, .steps = steps, .sequences = sequences, .plain = seed == 0}, seed);
      }
}
