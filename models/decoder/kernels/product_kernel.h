#pragma once
// The matrix product of LmKernels. A is read where it lies or packed into strips of rows and B, unless it is in panels
// already, into panels; a block of B that fits the L1 cache meets all strips of a block of A that fits the L2 cache.
// The sums stay in registers over a block of k and in C between blocks, which keeps their bits. Internal to
// models/decoder/kernels/kernels_*.cpp.

#include "models/decoder/kernels/kernel_table.h"
#include "models/decoder/kernels/lanes.h"

namespace troupe {
namespace {

inline constexpr int kPanelVectors = static_cast<int>(kPanel) / kLmLanes;
// Rows of a strip: as many sums as registers hold beside one row of B and one number of A.
inline constexpr int kStripRows = kLmLanes == 16 ? 14 : kLmLanes == 8 ? 6 : 4;
inline constexpr int64_t kBlockRows = kStripRows * (98 / kStripRows);
inline constexpr int64_t kBlockK = 256;
inline constexpr int64_t kBlockPanels = 32;  // of a B that has to be packed
// A strip of few rows is read where it lies, at one address for each row. More rows have no registers for that.
inline constexpr bool kReadInPlace = kStripRows <= 6;

// Panels that a strip of `rows` rows meets at once: with few rows, one panel would leave the multipliers idle.
constexpr int panels_at_once(int rows) {
  if (kLmLanes == 4) return 1;
  if (kLmLanes == 8) return rows == 1 ? 4 : rows <= 3 ? 2 : 1;
  return rows == 1 ? 8 : rows <= 7 ? 4 : 2;
}

// Rows of A: [kRows, k] with row_stride, or packed as [k, kRows] where row_stride is 0.
struct Strip {
  const float* data;
  int64_t row_stride;
};

// One strip times kPanels panels.
template <int kRows, int kPanels, bool kPacked>
TROUPE_LM_INLINE void multiply_tile(Strip strip, const float* panels, int64_t panel_stride, int64_t k, float* c,
                                    int64_t c_stride, bool continued) {
  constexpr int kVectors = kPanels * kPanelVectors;
  LmVector sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = continued ? load_vector(c + r * c_stride + v * kLmLanes) : splat_vector(0.0f);
  for (int64_t i = 0; i < k; ++i) {
    LmVector right[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v)
      right[v] = load_vector(panels + v / kPanelVectors * panel_stride + i * kPanel + v % kPanelVectors * kLmLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const LmVector left = splat_vector(kPacked ? strip.data[i * kRows + r] : strip.data[r * strip.row_stride + i]);
#pragma GCC unroll 16
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fused(left, right[v], sum[r][v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) store_vector(c + r * c_stride + v * kLmLanes, sum[r][v]);
}

// One strip times `count` panels, of which the last may have fewer than kPanel columns in C.
struct StripTask {
  Strip strip;
  const float* panels;
  int64_t panel_stride, count, last_columns, k;
  float* c;
  int64_t c_stride;
  bool continued;
};

// Panels from p on that are whole, kAtOnce at once; what is left in halves. Returns the first that is not whole.
template <int kRows, int kAtOnce, bool kPacked>
TROUPE_LM_INLINE int64_t multiply_whole(const StripTask& t, int64_t whole, int64_t p) {
  for (; p + kAtOnce <= whole; p += kAtOnce)
    multiply_tile<kRows, kAtOnce, kPacked>(t.strip, t.panels + p * t.panel_stride, t.panel_stride, t.k,
                                           t.c + p * kPanel, t.c_stride, t.continued);
  if constexpr (kAtOnce > 1) p = multiply_whole<kRows, kAtOnce / 2, kPacked>(t, whole, p);
  return p;
}

template <int kRows, bool kPacked>
void multiply_strip(const StripTask& t) {
  const int64_t whole = t.last_columns == kPanel ? t.count : t.count - 1;
  const int64_t p = multiply_whole<kRows, panels_at_once(kRows), kPacked>(t, whole, 0);
  if (p == t.count) return;
  float tile[kRows * kPanel] = {};
  float* c = t.c + p * kPanel;
  for (int r = 0; t.continued && r < kRows; ++r)
    for (int64_t j = 0; j < t.last_columns; ++j) tile[r * kPanel + j] = c[r * t.c_stride + j];
  multiply_tile<kRows, 1, kPacked>(t.strip, t.panels + p * t.panel_stride, t.panel_stride, t.k, tile, kPanel,
                                   t.continued);
  for (int r = 0; r < kRows; ++r)
    for (int64_t j = 0; j < t.last_columns; ++j) c[r * t.c_stride + j] = tile[r * kPanel + j];
}

using StripFunction = void (*)(const StripTask&);

template <int kRows = 1>
StripFunction strip_function(int64_t rows, bool packed) {
  if (rows == kRows) {
    if constexpr (kReadInPlace)
      if (!packed) return multiply_strip<kRows, false>;
    return multiply_strip<kRows, true>;
  }
  if constexpr (kRows < kStripRows) return strip_function<kRows + 1>(rows, packed);
  return nullptr;
}

// `rows` rows of A, k numbers each, as [k, rows].
TROUPE_LM_INLINE void pack_strip(const float* a, int64_t row_stride, int64_t k_stride, int64_t rows, int64_t k,
                                 float* strip) {
  if (rows == 1 && k_stride == 1) {
    __builtin_memcpy(strip, a, static_cast<std::size_t>(k) * sizeof(float));
    return;
  }
  if (row_stride == 1 && rows == kStripRows) {
    for (int64_t i = 0; i < k; ++i)
      __builtin_memcpy(strip + i * kStripRows, a + i * k_stride, kStripRows * sizeof(float));
    return;
  }
  if (row_stride == 1) {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t r = 0; r < rows; ++r) strip[i * rows + r] = a[i * k_stride + r];
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < k; ++i) strip[i * rows + r] = a[r * row_stride + i * k_stride];
}

// Rows [0, k) of B, `columns` columns, as panels of k rows, padded with zeros.
inline void pack_panels(const float* rows, int64_t row_stride, int64_t k, int64_t columns, float* panels) {
  for (int64_t p = 0; p < panels_of(columns); ++p) {
    const float* from = rows + p * kPanel;
    float* to = panels + p * k * kPanel;
    const int64_t width = columns - p * kPanel;
    if (width >= kPanel) {
      for (int64_t i = 0; i < k; ++i) __builtin_memcpy(to + i * kPanel, from + i * row_stride, kPanel * sizeof(float));
      continue;
    }
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kPanel; ++j) to[i * kPanel + j] = j < width ? from[i * row_stride + j] : 0.0f;
  }
}

// Rows of strip `i` when `rows` rows are divided evenly.
constexpr int64_t first_of(int64_t i, int64_t rows, int64_t strips) { return i * rows / strips; }

// `rows` rows of A times the panels of `columns` columns, over k numbers.
inline void multiply_block(const LmProduct& p, int64_t first_row, int64_t rows, int64_t first_k, int64_t k,
                           const float* panels, int64_t panel_stride, float* c, int64_t columns, float* scratch) {
  const int64_t strips = (rows + kStripRows - 1) / kStripRows;
  const float* a = p.a + first_row * p.a_row_stride + first_k * p.a_k_stride;
  const bool packed = !kReadInPlace || p.a_k_stride != 1;
  for (int64_t s = 0; packed && s < strips; ++s) {
    const int64_t from = first_of(s, rows, strips), to = first_of(s + 1, rows, strips);
    pack_strip(a + from * p.a_row_stride, p.a_row_stride, p.a_k_stride, to - from, k, scratch + from * k);
  }
  const int64_t count = panels_of(columns), last = columns - (count - 1) * kPanel;
  const int64_t most = strips == 1 ? count : panels_at_once(kStripRows);
  for (int64_t first = 0; first < count; first += most) {
    const int64_t group = count - first < most ? count - first : most;
    for (int64_t s = 0; s < strips; ++s) {
      const int64_t from = first_of(s, rows, strips), to = first_of(s + 1, rows, strips);
      const Strip strip = packed ? Strip{scratch + from * k, 0} : Strip{a + from * p.a_row_stride, p.a_row_stride};
      strip_function(to - from, packed)(
          {strip, panels + first * panel_stride, panel_stride, group, first + group == count ? last : kPanel, k,
           c + (first_row + from) * p.c_stride + first * kPanel, p.c_stride, p.continued || first_k > 0});
    }
  }
}

inline void clear_rows(const LmProduct& p) {
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) p.c[i * p.c_stride + j] = 0.0f;
}

inline void product(const LmProduct& p, float* scratch) {
  if (p.k == 0 && !p.continued) clear_rows(p);
  float* packed = scratch + kBlockRows * kBlockK;
  const bool ready = p.panels != nullptr;
  const int64_t block_columns = ready ? p.n : kBlockPanels * kPanel;
  // A single strip needs no blocks: nothing is read twice.
  int64_t block_k = kBlockK;
  if (ready && p.m <= kStripRows && p.m > 0) block_k = kBlockRows * kBlockK / p.m;
  for (int64_t column = 0; column < p.n; column += block_columns) {
    const int64_t columns = p.n - column < block_columns ? p.n - column : block_columns;
    for (int64_t first_k = 0; first_k < p.k; first_k += block_k) {
      const int64_t k = p.k - first_k < block_k ? p.k - first_k : block_k;
      if (!ready) pack_panels(p.rows + first_k * p.row_stride + column, p.row_stride, k, columns, packed);
      const float* panels = ready ? p.panels + first_k * kPanel : packed;
      for (int64_t row = 0; row < p.m; row += kBlockRows)
        multiply_block(p, row, p.m - row < kBlockRows ? p.m - row : kBlockRows, first_k, k, panels,
                       ready ? p.panel_stride : k * kPanel, p.c + column, columns, scratch);
    }
  }
}

}  // namespace
}  // namespace troupe
