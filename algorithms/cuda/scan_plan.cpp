#include "algorithms/cuda/scan_plan.h"

#include <algorithm>
#include <limits>

#include "algorithms/cuda/scan_columns.h"
#include "algorithms/cuda/scan_rows.h"
#include "runtime/base/errors.h"

namespace troupe::cuda {

namespace {

// Up to this many steps, a sequence is the work of one warp. So is a longer one if there are many sequences, so that
// one warp each fills the GPU.
constexpr int64_t kShortRow = 1024;
constexpr int64_t kManyRows = 4096;
// With at least this many sequences, one thread per sequence keeps enough reads in flight: 8 steps of 8 bytes are 2 MB.
constexpr int64_t kManyColumns = 32768;
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();

// The array if the rule reads it, else an absent one. The stride of an absent one is 0: kernels compute its address.
DeviceArray array_of(const FloatView& view, bool read) {
  if (!read || view.data == nullptr) return {nullptr, 0, 4};
  return {static_cast<const unsigned char*>(view.data), view.stride, view.element == Element::float32 ? 4 : 2};
}
DeviceArray array_of(const FlagView& view) { return {view.data, view.data ? view.stride : 0, 1}; }

bool has_values(ScanRule rule) { return rule != ScanRule::reward_to_go; }

// In the order of the enum Input.
void fill_inputs(ScanRule rule, const ScanTask& task, DeviceArray (&inputs)[kInputs]) {
  const bool values = has_values(rule);
  const DeviceArray all[kInputs] = {
      array_of(task.reward, true), array_of(task.value, values),   array_of(task.next, values),
      array_of(task.gammas, true), array_of(task.lambdas, values), array_of(task.log_rho, rule == ScanRule::vtrace),
      array_of(task.terminated),   array_of(task.truncated),       array_of(task.mask)};
  std::copy(std::begin(all), std::end(all), inputs);
}

// Whether the next value is V of the next unmasked step.
bool follows(ScanRule rule, const DeviceArray (&inputs)[kInputs], bool skip) {
  return rule != ScanRule::vtrace && has_values(rule) && skip && inputs[kMask].data && !inputs[kNext].data;
}

StepMode mode_of(ScanRule rule, const DeviceArray (&inputs)[kInputs], bool skip, ScanKind kind) {
  const auto given = [&inputs](Input input) { return inputs[input].data != nullptr; };
  const bool arrays = rule == ScanRule::vtrace || given(kNext) || given(kGamma) || given(kLambda);
  if (!arrays && !given(kTerminated) && !given(kTruncated) && !given(kMask)) return StepMode::plain;
  const bool in_order = kind == ScanKind::warp_rows || kind == ScanKind::columns;  // what follows is always known
  if (!in_order && follows(rule, inputs, skip)) return arrays ? StepMode::skip_arrays : StepMode::skip;
  return arrays ? StepMode::arrays : StepMode::flags;
}

int64_t longest(const ScanTask& task) {
  int64_t steps = task.steps;
  for (std::size_t i = 1; i < task.offsets.size(); ++i) steps = std::max(steps, task.offsets[i] - task.offsets[i - 1]);
  return steps;
}

ScanKind kind_of(const ScanTask& task) {
  if (task.layout == Layout::time) {
    const bool one_run = task.steps <= 2 * kColumnRun;
    return one_run || task.sequences >= kManyColumns ? ScanKind::columns : ScanKind::column_tiles;
  }
  return longest(task) <= kShortRow || task.sequences >= kManyRows ? ScanKind::warp_rows : ScanKind::row_tiles;
}

// So many lanes that they process a sequence at once, if a warp has them. A warp's packed sequences would end at
// different times.
int lane_bits_of(const ScanTask& task) {
  int bits = 0;
  while (1 << bits < kLanes && (!task.offsets.empty() || kQuad << bits < task.steps)) ++bits;
  return bits;
}

int64_t row_tile(StepMode mode) {
  return mode == StepMode::plain ? kRowTile<StepMode::plain> : kRowTile<StepMode::flags>;
}
int64_t column_tile(StepMode mode) {
  const bool arrays = mode == StepMode::arrays || mode == StepMode::skip_arrays;
  return arrays ? kColumnTile<StepMode::arrays> : kColumnTile<StepMode::plain>;
}

template <template <bool> class Shared>
int bytes_of(StepMode mode) {
  return skips(mode) ? sizeof(Shared<true>) : sizeof(Shared<false>);
}

int shared_bytes_of(ScanKind kind, StepMode mode) {
  switch (kind) {
    case ScanKind::warp_rows:
    case ScanKind::columns: return 0;
    case ScanKind::row_tiles: return bytes_of<RowTileShared>(mode);
    case ScanKind::column_tiles: return bytes_of<ColumnTileShared>(mode);
  }
  return 0;
}

int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t up_to_16(int64_t bytes) { return divided_up(bytes, 16) * 16; }

}  // namespace

ScanPlan plan_scan(ScanRule rule, const ScanTask& task) { return plan_scan(rule, task, kind_of(task)); }

ScanPlan plan_scan(ScanRule rule, const ScanTask& task, ScanKind kind) {
  DeviceArray inputs[kInputs];
  fill_inputs(rule, task, inputs);
  ScanPlan plan;
  plan.kind = kind;
  plan.mode = mode_of(rule, inputs, task.skip, kind);
  plan.threads = (kind == ScanKind::warp_rows ? kRowWarps : kBlockWarps) * kLanes;
  switch (kind) {
    case ScanKind::warp_rows: plan.blocks = divided_up(task.sequences << lane_bits_of(task), plan.threads); break;
    case ScanKind::row_tiles:
      plan.tiles = divided_up(longest(task) + kQuad - 1, row_tile(plan.mode)) * task.sequences;
      plan.blocks = plan.tiles;
      break;
    case ScanKind::columns: plan.blocks = divided_up(task.sequences, plan.threads); break;
    case ScanKind::column_tiles:
      plan.tiles = divided_up(task.steps, column_tile(plan.mode)) * divided_up(task.sequences, kLanes);
      plan.blocks = plan.tiles;
      break;
  }
  TROUPE_CHECK(plan.blocks <= kMaxBlocks, "steps", longest(task), "sequences", task.sequences, "blocks", plan.blocks,
               "want at most", kMaxBlocks);
  plan.shared_bytes = shared_bytes_of(kind, plan.mode);
  if (plan.tiles > 0) {
    const int64_t width = kind == ScanKind::row_tiles ? 1 : kLanes;
    plan.cleared_bytes =
        16 + up_to_16(plan.tiles * width * record_fields(skips(plan.mode)) * static_cast<int64_t>(sizeof(uint64_t)));
    plan.workspace_bytes = plan.cleared_bytes;
  }
  plan.offsets_at = plan.workspace_bytes;
  plan.workspace_bytes += static_cast<int64_t>(task.offsets.size() * sizeof(int64_t));
  return plan;
}

DeviceScan device_scan(ScanRule rule, const ScanTask& task, const ScanPlan& plan, void* workspace) {
  DeviceScan k{};
  k.steps = task.steps;
  k.sequences = task.sequences;
  auto* memory = static_cast<unsigned char*>(workspace);
  if (!task.offsets.empty()) k.offsets = reinterpret_cast<const int64_t*>(memory + plan.offsets_at);
  fill_inputs(rule, task, k.inputs);
  k.bootstrap = task.bootstrap.empty() ? nullptr : task.bootstrap.data();
  k.first = task.first.data;
  k.second = task.second.data;
  k.first_stride = task.first.stride;
  k.second_stride = task.second.stride;
  k.gamma = task.gamma;
  k.lambda = task.lambda;
  k.rho_bar = task.rho_bar;
  k.c_bar = task.c_bar;
  k.pg_rho_bar = task.pg_rho_bar;
  k.multiply_pg_rho = task.multiply_pg_rho;
  k.rlax_mix = task.rlax_mix;
  k.skip = task.skip;
  k.follow = follows(rule, k.inputs, task.skip);
  k.carry_outside = task.carry_outside;
  k.next_at_ends = task.next.data != nullptr && task.next_at_ends;
  k.cut_is_end = task.cut_is_end;
  k.lane_bits = lane_bits_of(task);
  if (plan.tiles > 0) {
    k.ticket = reinterpret_cast<uint32_t*>(memory);
    k.records = reinterpret_cast<uint64_t*>(memory + 16);
  }
  return k;
}

}  // namespace troupe::cuda
