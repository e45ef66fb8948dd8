#pragma once
// How a scan runs on a GPU: which kernel, with how many blocks and how much memory. Pure host code that needs no CUDA.
// Internal to algorithms/cuda/.

#include <cstdint>

#include "algorithms/scan/scan.h"

namespace troupe::cuda {

// Inputs of numbers come first, then flags.
enum Input {
  kReward,
  kValue,
  kNext,
  kGamma,
  kLambda,
  kLogRho,
  kFloatInputs,
  kTerminated = kFloatInputs,
  kTruncated,
  kMask,
  kInputs,
};

// One input on the device. A row of memory is a sequence (Layout::rows) or a step (Layout::time).
struct DeviceArray {
  const unsigned char* data;  // nullptr = absent, or not read by the rule
  int64_t stride;             // elements from one row of memory to the next
  int size;                   // bytes of an element: 4 float32, 2 bfloat16, 1 flag
};

// The kernel's argument, passed by value.
struct DeviceScan {
  int64_t steps, sequences;
  const int64_t* offsets;  // packed rows, or nullptr
  DeviceArray inputs[kInputs];
  const float* bootstrap;  // or nullptr
  float *first, *second;
  int64_t first_stride, second_stride;
  float gamma, lambda, rho_bar, c_bar, pg_rho_bar;
  bool multiply_pg_rho, rlax_mix, skip, carry_outside, next_at_ends, cut_is_end;
  bool follow;    // masked steps are skipped: the next value is V of the next unmasked step
  int lane_bits;  // warp_rows: binary logarithm of the lanes per sequence
  // For the look-back: a ticket counter and a record per tile; see look_back.h.
  uint32_t* ticket;
  uint64_t* records;
};

// How general the code for a step must be.
enum class StepMode : uint8_t {
  plain = 0,        // no flags, one factor for all steps
  flags = 1,        // flags, but no arrays of gammas, lambdas or next values
  arrays = 2,       // everything
  skip = 3,         // flags, with `follow`, where V of the next unmasked step may be part of an unknown state
  skip_arrays = 4,  // the same, with arrays of gammas and lambdas
};
template <StepMode kMode>
inline constexpr bool kSkips = kMode == StepMode::skip || kMode == StepMode::skip_arrays;
template <StepMode kMode>
inline constexpr bool kArrays = kMode == StepMode::arrays || kMode == StepMode::skip_arrays;
constexpr bool skips(StepMode mode) { return mode == StepMode::skip || mode == StepMode::skip_arrays; }

enum class ScanKind : uint8_t {
  warp_rows = 0,     // one warp per sequence, or some of its lanes, for short or very many ones
  row_tiles = 1,     // one block per 4096 or 2048 steps of a sequence, joined by look-back
  columns = 2,       // one thread per sequence, for very many
  column_tiles = 3,  // one block per 128 or 64 steps of 32 sequences, joined by look-back
};

inline constexpr int kLanes = 32;
inline constexpr int kBlockWarps = 8;
inline constexpr int kRowWarps = 4;   // warps per block of warp_rows
inline constexpr int kQuad = 4;       // adjacent steps per thread along rows: 16 bytes
inline constexpr int kColumnRun = 8;  // steps of a column loaded at a time

// Quads per thread of a row tile, and steps per thread of a column tile; limited by the number of registers.
template <StepMode kMode>
inline constexpr int kTileQuads = kMode == StepMode::plain ? 4 : 2;
template <StepMode kMode>
inline constexpr int kTileRun = kArrays<kMode> ? 8 : 16;

// Steps of a tile of the look-back.
template <StepMode kMode>
inline constexpr int kRowTile = kBlockWarps * kLanes * kQuad * kTileQuads<kMode>;
template <StepMode kMode>
inline constexpr int kColumnTile = kBlockWarps * kTileRun<kMode>;

struct ScanPlan {
  ScanKind kind = ScanKind::warp_rows;
  StepMode mode = StepMode::arrays;
  int64_t blocks = 0;
  int threads = 0;  // per block
  int shared_bytes = 0;
  int64_t tiles = 0;            // tiles of the look-back; 0 without it
  int64_t cleared_bytes = 0;    // leading bytes of the workspace (ticket and records) to zero before the kernel starts
  int64_t offsets_at = 0;       // where the device's copy of the offsets begins in the workspace
  int64_t workspace_bytes = 0;  // 0 if none is needed
};

// The plan for a checked task with at least one element. Throws InvariantError when the grid would be too large.
ScanPlan plan_scan(ScanRule rule, const ScanTask& task);

// The same with a kind chosen by the caller; for tests.
ScanPlan plan_scan(ScanRule rule, const ScanTask& task, ScanKind kind);

// The arguments of the planned kernel. workspace: device memory of workspace_bytes, not accessed here.
DeviceScan device_scan(ScanRule rule, const ScanTask& task, const ScanPlan& plan, void* workspace);

}  // namespace troupe::cuda
