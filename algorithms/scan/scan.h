#pragma once
// The scan under every estimator of the family: S_t = a_t S_{t+1} + b_t over each sequence, from its last step to its
// first, with a and b made by one of the rules of scan_rules.h. Streams each input once and writes each output once.
// Internal to algorithms/; users call gae.h, vtrace.h and returns.h.

#include <cstdint>

#include "algorithms/scan/scan_arrays.h"

namespace troupe {

enum class ScanRule : uint8_t { gae = 0, lambda_return = 1, vtrace = 2, reward_to_go = 3 };

// Absent arrays have no data. Once run_scan() has checked them, no stride is kDense.
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
  bool skip = false;           // what mask 0 means: S stays what it was, else S starts anew
  bool carry_outside = false;  // what mask 0 leaves in the outputs: S, else 0
  bool next_at_ends = false;   // `next` is read where an episode or segment ends, else at every step
  bool cut_is_end = false;     // truncated counts as terminated
  int threads = 1;
  bool stream = false;  // set by run_scan(): stores go past the caches
};

// The tasks of gae() and lambda_returns(), of vtrace() and of reward_to_go(), but for the outputs.
struct GaeInput;
struct ReturnInput;
struct VtraceInput;
ScanTask scan_task(const GaeInput& in);
ScanTask scan_task(const ReturnInput& in);
ScanTask scan_task(const VtraceInput& in);

// Elements of all sequences together. Throws InvariantError where something does not fit; gives each array its stride.
// Looks at no array but `offsets`, so that the others may be anywhere.
int64_t check_scan(ScanRule rule, ScanTask& task);

// Checks the task, chooses kernel and stores, splits it among threads and runs it.
void run_scan(ScanRule rule, ScanTask task);

// Runs a task on sequences [begin, end).
using ScanKernel = void (*)(const ScanTask& task, int64_t begin, int64_t end);
// Reads a and b and writes c and d, n floats each: what memory allows for two inputs and two outputs.
using StreamKernel = void (*)(const float* a, const float* b, float* c, float* d, int64_t n, bool stream);

struct ScanKernels {
  ScanKernel scan[4][2][2]
                 [2];  // [rule][layout][plain][stream]; plain: float32 and neither flags nor gammas nor lambdas
  StreamKernel limit;
};

// The same source compiled for each instruction set; nullptr where the compiler has none.
const ScanKernels* scan_kernels_sse2();
const ScanKernels* scan_kernels_avx2();
const ScanKernels* scan_kernels_avx512();
// Those of current_isa().
const ScanKernels& scan_kernels();

}  // namespace troupe
