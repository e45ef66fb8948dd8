#include "algorithms/cuda/scan_plan.h"

#include <algorithm>
#include <limits>

#include "algorithms/cuda/scan_columns.h"
#include "algorithms/cuda/scan_rows.h"
#include "runtime/base/errors.h"

namespace troupe::cuda {

namespace {

// With at least this many sequences, one block per sequence fills the GPU.
constexpr int64_t kManyRows = 96;
// With at least this many sequences, one thread per sequence keeps enough reads in flight: 8 steps of 8 bytes are 2 MB.
constexpr int64_t kManyColumns = 32768;
constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();

// The array if the rule reads it, else an absent one: the kernels only check `data`.
DeviceArray array_of(const FloatView& view, bool read) {
  return {read ? static_cast<const unsigned char*>(view.data) : nullptr, view.stride,
          view.element == Element::float32 ? 4 : 2, 0};
}
DeviceArray array_of(const FlagView& view) { return {view.data, view.stride, 1, 0}; }

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

StepMode mode_of(ScanRule rule, const DeviceArray (&inputs)[kInputs], bool skip) {
  if (rule == ScanRule::vtrace) return StepMode::flagged;
  const bool bare = std::all_of(std::begin(inputs), std::end(inputs), [&inputs](const DeviceArray& array) {
    const auto i = &array - inputs;
    return array.data == nullptr || (i <= kValue && array.size == 4);
  });
  if (bare) return StepMode::plain;
  const bool follows = has_values(rule) && inputs[kNext].data == nullptr;
  return follows && skip && inputs[kMask].data ? StepMode::skip : StepMode::flagged;
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
  const int64_t steps = longest(task);
  if (steps <= tile_steps(ScanKind::warp_rows)) return ScanKind::warp_rows;
  const bool look_back = task.sequences < kManyRows && steps > tile_steps(ScanKind::row_tiles);
  return look_back ? ScanKind::row_tiles : ScanKind::block_rows;
}

bool along_rows(ScanKind kind) { return kind != ScanKind::columns && kind != ScanKind::column_tiles; }

// Assigns the arrays their offsets within a slot; returns the size of the slot.
int lay_out_slot(ScanKind kind, DeviceArray (&inputs)[kInputs]) {
  int bytes = 0;
  for (DeviceArray& array : inputs) {
    array.slot = bytes;
    if (array.data) bytes += slot_bytes_of(array.size, tile_steps(kind));
  }
  return bytes;
}

int depth_of(ScanKind kind, int slot_bytes, int shared_limit) {
  if (kind == ScanKind::row_tiles) return 1;
  const int depth = std::min(kMaxDepth, (shared_limit - kTotalsBytes<kBlockWarps>) / slot_bytes);
  TROUPE_CHECK(depth >= 2, "shared memory", shared_limit, "bytes of a tile", slot_bytes);
  return depth;
}

int shared_bytes_of(ScanKind kind, StepMode mode, int slot_bytes, int depth) {
  switch (kind) {
    case ScanKind::warp_rows: return kTotalsBytes<1> + depth * slot_bytes;
    case ScanKind::block_rows: return kTotalsBytes<kBlockWarps> + depth * slot_bytes;
    case ScanKind::row_tiles: return kRowTileSharedBytes + slot_bytes;
    case ScanKind::columns: return 0;
    case ScanKind::column_tiles:
      return mode == StepMode::skip ? sizeof(ColumnTileShared<true>) : sizeof(ColumnTileShared<false>);
  }
  return 0;
}

int64_t divided_up(int64_t n, int64_t by) { return (n + by - 1) / by; }
int64_t up_to_16(int64_t bytes) { return divided_up(bytes, 16) * 16; }

}  // namespace

ScanPlan plan_scan(ScanRule rule, const ScanTask& task, int shared_limit) {
  return plan_scan(rule, task, shared_limit, kind_of(task));
}

ScanPlan plan_scan(ScanRule rule, const ScanTask& task, int shared_limit, ScanKind kind) {
  DeviceArray inputs[kInputs];
  fill_inputs(rule, task, inputs);
  ScanPlan plan;
  plan.kind = kind;
  plan.mode = mode_of(rule, inputs, task.skip);
  const int64_t tile = tile_steps(kind);
  switch (kind) {
    case ScanKind::warp_rows:
    case ScanKind::block_rows: plan.blocks = task.sequences; break;
    case ScanKind::row_tiles:
      plan.tiles = divided_up(longest(task) + kQuad - 1, tile) * task.sequences;
      plan.blocks = plan.tiles;
      break;
    case ScanKind::columns: plan.blocks = divided_up(task.sequences, kBlockWarps * kLanes); break;
    case ScanKind::column_tiles:
      plan.tiles = divided_up(task.steps, tile) * divided_up(task.sequences, kLanes);
      plan.blocks = plan.tiles;
      break;
  }
  TROUPE_CHECK(plan.blocks <= kMaxBlocks, "steps", longest(task), "sequences", task.sequences, "blocks", plan.blocks,
               "want at most", kMaxBlocks);
  plan.threads = (kind == ScanKind::warp_rows ? 1 : kBlockWarps) * kLanes;
  int depth = 0, slot_bytes = 0;
  if (along_rows(kind)) {
    slot_bytes = lay_out_slot(kind, inputs);
    depth = depth_of(kind, slot_bytes, shared_limit);
  }
  plan.shared_bytes = shared_bytes_of(kind, plan.mode, slot_bytes, depth);
  TROUPE_CHECK(plan.shared_bytes <= shared_limit, "shared memory", plan.shared_bytes, "limit", shared_limit);
  if (plan.tiles > 0) {
    const int64_t width = kind == ScanKind::row_tiles ? 1 : kLanes;
    plan.cleared_bytes = up_to_16(16 + plan.tiles * static_cast<int64_t>(sizeof(uint32_t)));
    plan.workspace_bytes =
        plan.cleared_bytes +
        up_to_16(plan.tiles * width * record_fields(plan.mode == StepMode::skip) * static_cast<int64_t>(sizeof(float)));
  }
  plan.offsets_at = plan.workspace_bytes;
  plan.workspace_bytes += static_cast<int64_t>(task.offsets.size() * sizeof(int64_t));
  return plan;
}

DeviceScan device_scan(ScanRule rule, const ScanTask& task, const ScanPlan& plan, void* workspace, int shared_limit) {
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
  k.carry_outside = task.carry_outside;
  k.next_at_ends = task.next.data != nullptr && task.next_at_ends;
  k.cut_is_end = task.cut_is_end;
  if (along_rows(plan.kind)) {
    k.slot_bytes = lay_out_slot(plan.kind, k.inputs);
    k.depth = depth_of(plan.kind, k.slot_bytes, shared_limit);
  }
  if (plan.tiles > 0) {
    k.ticket = reinterpret_cast<uint32_t*>(memory);
    k.status = reinterpret_cast<uint32_t*>(memory + 16);
    k.records = reinterpret_cast<float*>(memory + plan.cleared_bytes);
  }
  return k;
}

}  // namespace troupe::cuda
