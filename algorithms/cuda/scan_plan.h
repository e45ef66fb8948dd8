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
  int slot;                   // offset of its piece of a tile within a slot of shared memory
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
  // For kernels along rows.
  int slot_bytes;  // size of the staged pieces of one tile
  int depth;       // number of tiles in shared memory at a time
  // For the look-back: a ticket counter and, per tile, a status and a record; see look_back.h.
  uint32_t* ticket;
  uint32_t* status;
  float* records;
};

// How general the code for a step must be.
enum class StepMode : uint8_t {
  plain = 0,    // float32 throughout, no flags, one factor for all steps
  flagged = 1,  // everything that is neither plain nor skip
  skip = 2,     // masked steps are skipped, so V of the next unmasked step is part of the state
};

enum class ScanKind : uint8_t {
  warp_rows = 0,     // one warp per sequence, for short ones
  block_rows = 1,    // one block per sequence, for many
  row_tiles = 2,     // one block per 4096 steps of a sequence, joined by look-back, for few long ones
  columns = 3,       // one thread per sequence, for very many
  column_tiles = 4,  // one block per 128 steps of 32 sequences, joined by look-back
};

inline constexpr int kLanes = 32;
inline constexpr int kBlockWarps = 8;
inline constexpr int kQuad = 4;       // adjacent steps per thread along rows: 16 bytes
inline constexpr int kTileQuads = 4;  // quads per thread of a row tile
inline constexpr int kColumnRun = 8;  // steps of a column loaded at a time
inline constexpr int kTileRun = 16;   // steps per thread of a column tile
inline constexpr int kMaxDepth = 4;

constexpr int tile_steps(ScanKind kind) {
  switch (kind) {
    case ScanKind::warp_rows: return kLanes * kQuad;
    case ScanKind::block_rows: return kBlockWarps * kLanes * kQuad;
    case ScanKind::row_tiles: return kBlockWarps * kLanes * kQuad * kTileQuads;
    case ScanKind::columns: return kColumnRun;
    case ScanKind::column_tiles: return kBlockWarps * kTileRun;
  }
  return 0;
}

struct ScanPlan {
  ScanKind kind = ScanKind::block_rows;
  StepMode mode = StepMode::flagged;
  int64_t blocks = 0;
  int threads = 0;  // per block
  int shared_bytes = 0;
  int64_t tiles = 0;            // tiles of the look-back; 0 without it
  int64_t cleared_bytes = 0;    // leading bytes of the workspace (ticket and statuses) to zero before the kernel starts
  int64_t offsets_at = 0;       // where the device's copy of the offsets begins in the workspace
  int64_t workspace_bytes = 0;  // 0 if none is needed
};

// The plan for a checked task with at least one element. shared_limit: bytes of shared memory available to one block.
// Throws InvariantError when the grid would be too large.
ScanPlan plan_scan(ScanRule rule, const ScanTask& task, int shared_limit);

// The same with a kind chosen by the caller; for tests.
ScanPlan plan_scan(ScanRule rule, const ScanTask& task, int shared_limit, ScanKind kind);

// The arguments of the planned kernel. workspace: device memory of workspace_bytes, not accessed here.
DeviceScan device_scan(ScanRule rule, const ScanTask& task, const ScanPlan& plan, void* workspace, int shared_limit);

}  // namespace troupe::cuda
