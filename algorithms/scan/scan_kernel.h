#pragma once
// The two streaming kernels of the scan, along rows and down columns, for every rule. Compiled once per instruction set
// by scan_sse2.cpp, scan_avx2.cpp and scan_avx512.cpp, which name the table. Internal to these files.
//
// Each array is read and written once. A cache line is written either entirely with stores that bypass the caches or
// entirely without: mixing both costs up to eight times as much.

#include "algorithms/scan/scan_columns.h"
#include "algorithms/scan/scan_rows.h"

namespace troupe {
namespace {

// Streams two inputs and two outputs with little arithmetic, to measure the limit set by memory bandwidth.
template <bool kStream>
void stream_limit(const float* a, const float* b, float* c, float* d, int64_t n) {
  int64_t i = (n - 1) / kLine * kLine;
  for (; i >= 0; i -= kLine) {
    __builtin_prefetch(a + i - kPrefetch);
    __builtin_prefetch(b + i - kPrefetch);
    for (int j = kLine - kLanes; j >= 0; j -= kLanes) {
      const F x = load(a + i + j), y = load(b + i + j);
      put<kStream>(c + i + j, x + y);
      put<kStream>(d + i + j, x - y);
    }
  }
  if constexpr (kStream) end_stream();
}

void limit(const float* a, const float* b, float* c, float* d, int64_t n, bool stream) {
  if (stream) return stream_limit<true>(a, b, c, d, n);
  stream_limit<false>(a, b, c, d, n);
}

#define TROUPE_SCAN_KERNELS(Rule)                                           \
  {                                                                         \
      {{scan_columns<Rule, false, false>, scan_columns<Rule, false, true>}, \
       {scan_columns<Rule, true, false>, scan_columns<Rule, true, true>}},  \
      {{scan_rows<Rule, false, false>, scan_rows<Rule, false, true>},       \
       {scan_rows<Rule, true, false>, scan_rows<Rule, true, true>}},        \
  }

constexpr ScanKernels kKernels = {{TROUPE_SCAN_KERNELS(GaeRule), TROUPE_SCAN_KERNELS(LambdaReturnRule),
                                   TROUPE_SCAN_KERNELS(VtraceRule), TROUPE_SCAN_KERNELS(ReturnRule)},
                                  limit};

}  // namespace
}  // namespace troupe
