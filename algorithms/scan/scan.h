#pragma once
// The scan behind every estimator of the family: S_t = a_t S_{t+1} + b_t over each sequence, from its last step to its
// first, where one of the rules of scan_rules.h defines a and b. Reads each input once and writes each output once.
// Internal to algorithms/; users call gae.h, vtrace.h and returns.h.

#include <cstdint>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

enum class ScanRule : uint8_t { gae = 0, lambda_return = 1, vtrace = 2, reward_to_go = 3 };

// Arrays that are not given have no data. After run_scan() has checked the task, no stride is kDense.
struct ScanTask {
  Layout layout = Layout::time;
  int64_t steps = 0;
  int64_t sequences = 0;
  std::span<const int64_t> offsets;  // packed rows, as in GaeInput
  FloatView reward, value, next, gammas, lambdas, log_rho;
  FlagView terminated, truncated, mask;
  std::span<const float> bootstrap;  // [B] or empty = 0
  std::span<const float> later_sum;  // [B] S after the last step, or empty = 0; set by run_scan(), layout time only
  OutputView first, second;
  float gamma = 1, lambda = 1;
  float rho_bar = 1, c_bar = 1, pg_rho_bar = 1;  // infinite = no bound
  bool multiply_pg_rho = false;
  bool rlax_mix = false;
  bool skip = false;           // at mask 0: true: S passes unchanged; false: S restarts
  bool carry_outside = false;  // what to write where mask is 0: true: S, false: 0
  bool next_at_ends = false;   // true: `next` is read where an episode or segment ends; false: at every step
  bool cut_is_end = false;     // truncated counts as terminated
  int threads = 1;
  bool stream = false;  // set by run_scan(): stores bypass the caches
};

// The tasks of gae() and lambda_returns(), of reward_to_go() and of vtrace(), without their outputs.
struct GaeInput;
struct ReturnInput;
struct VtraceInput;
ScanTask scan_task(const GaeInput& in);
ScanTask scan_task(const ReturnInput& in);
ScanTask scan_task(const VtraceInput& in);

// Returns the number of elements of all sequences and sets the stride of each array. Throws InvariantError when a size
// does not fit. Accesses no array except `offsets`, so the others may be in any memory.
int64_t check_scan(ScanRule rule, ScanTask& task);

// Checks the task, selects the kernel and the kind of stores, divides the task among threads and runs it.
void run_scan(ScanRule rule, ScanTask task);

// Runs a task on sequences [begin, end).
using ScanKernel = void (*)(const ScanTask& task, int64_t begin, int64_t end);
// Reads a and b and writes c and d, n floats each: the memory-bound limit for two inputs and two outputs.
using StreamKernel = void (*)(const float* a, const float* b, float* c, float* d, int64_t n, bool stream);

struct ScanKernels {
  ScanKernel scan[4][2][2][2];  // [rule][layout][plain][stream]; plain: float32, without flags, gammas and lambdas
  StreamKernel limit;
};

// The same source compiled for each instruction set; nullptr if the compiler does not support it.
const ScanKernels* scan_kernels_sse2();
const ScanKernels* scan_kernels_avx2();
const ScanKernels* scan_kernels_avx512();
// The kernels for current_isa().
const ScanKernels& scan_kernels();

}  // namespace troupe
