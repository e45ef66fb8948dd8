#pragma once
// The two streaming kernels of the scan, along rows and down columns, for every rule. Compiled once per instruction set by
// scan_sse2.cpp, scan_avx2.cpp and scan_avx512.cpp, which name the table. Internal to them.
//
// Memory is walked strictly downward, each array once. Where stores go past the caches, a cache line is written either whole
// that way or not at all: mixing costs up to eight times as much.

#include "algorithms/scan_line.h"

namespace troupe {
namespace {

// -- along rows: a vector is kLanes steps of one sequence -------------------------------------------------------------

// What a block hands to the one of earlier steps.
struct Carry {
  float sum;    // S
  float value;  // V of the next step that counts
  bool live;    // the next step counts
};

// w, w^2, w^4, w^8 for the scan within a vector, and w^(kLanes - i) for lane i.
struct Powers {
  F shifts[4];
  F lanes;
  float whole;  // w^kLanes

  explicit Powers(float w) {
    float power = w;
    for (F& shift : shifts) {
      shift = splat(power);
      power *= power;
    }
    power = 1;
    for (int i = kLanes - 1; i >= 0; --i) lanes[i] = power *= w;
    whole = power;
  }
};

template <int K = 1, int Level = 0>
TROUPE_INLINE F scan_steady(F sum, const Powers& w) {
  if constexpr (K < kLanes) {
    return scan_steady<2 * K, Level + 1>(fused(w.shifts[Level], shift<K>(sum), sum), w);
  } else {
    return sum;
  }
}

// Composes (factor, term) of each step with those of all later ones of the vector. Selects instead of multiplying by 0.
template <int K = 1>
TROUPE_INLINE void scan_pairs(F& factor, F& term) {
  if constexpr (K < kLanes) {
    const F later = shift<K>(term), later_factor = shift<K>(factor, splat(1.0f));
    const M passes = factor != 0.0f;
    term = passes ? fused(factor, later, term) : term;
    factor = passes ? factor * later_factor : F{};
    scan_pairs<2 * K>(factor, term);
  }
}

// In each lane the value of the first step from it on that counts; `beyond` if there is none in the vector.
template <int K = 1>
TROUPE_INLINE F fill_backward(F value, M live, F beyond) {
  if constexpr (K < kLanes) {
    const F later = shift<K>(value);
    const M later_live = shift<K>(live);
    return fill_backward<2 * K>(live ? value : later, live | later_live, beyond);
  } else {
    return live ? value : beyond;
  }
}

// kLanes steps from element i of the line. `lane`: of the earliest real step; 0, or more in a padded line. kNextInMemory: V of
// the step after a step stands after its own.
template <class Rule, bool kFlags, bool kPlain, bool kStream, bool kNextInMemory>
TROUPE_INLINE void row_block(const Context& k, const Powers& w, const Line& line, int i, int lane, Carry& carry,
                             float* first, float* second) {
  Read<RowLane> r;
  read_step<Rule, kFlags>(k, line, i, r);
  F value{};
  if constexpr (Rule::kValues) {
    value = r.step.value;
    F next;
    if constexpr (kFlags) {
      value = k.skip ? fill_backward(value, r.live, splat(carry.value)) : r.live ? value : F{};
      next = shift<1>(value, splat(carry.value));
    } else {
      next = kNextInMemory ? load(line.floats[kValue] + i + 1) : shift<1>(value, splat(carry.value));
    }
    r.step.next = following_value<Rule, kFlags, kPlain>(k, line, i, r, next);
  }
  RuleLink<RowLane> link = Rule::link(r.step, k.constants);
  const float beyond = carry.sum;
  F sum, later{};
  if constexpr (!kFlags && Rule::kSteadyFactor) {
    const F local = scan_steady(link.term, w);
    sum = fused(w.lanes, splat(beyond), local);
    carry.sum = lane == 0 ? fused(w.whole, beyond, local[0]) : sum[lane];
  } else {
    link.factor = r.done ? F{} : link.factor;
    if constexpr (kFlags) {
      link.factor = r.live ? link.factor : splat(k.skip ? 1.0f : 0.0f);
      link.term = r.live ? link.term : F{};
    }
    scan_pairs(link.factor, link.term);
    sum = link.factor != 0.0f ? fused(link.factor, splat(beyond), link.term) : link.term;
    carry.sum = sum[lane];
    later = r.done ? F{} : shift<1>(sum, splat(beyond));
  }
  carry.value = value[lane];
  if constexpr (!kPlain) carry.live = true;
  if constexpr (kFlags) carry.live = r.live[lane] != 0;
  write_step<Rule, kFlags, kStream>(k, k.constants, r, sum, later, first + i, second + i);
}

// The line from element `at` on, of which the steps from `lowest` on are real. kEdge: the last of the row, or a padded one.
template <class Rule, bool kPlain, bool kStream, bool kEdge>
TROUPE_INLINE void row_line(const Context& k, const Powers& w, const Inputs& in, int64_t at, int lowest, Carry& carry,
                            float* first, float* second) {
  if (write_blank<Rule, kPlain, kStream>(k, in, at, first, second)) {
    carry.live = false;
    return;
  }
  static constexpr int64_t kAhead[kFloatInputs] = {-kPrefetch, -kPrefetch, -kPrefetch,
                                                   -kPrefetch, -kPrefetch, -kPrefetch};
  Line line;
  const bool flagged = read_line<Rule, kPlain, true>(k, in, at, carry.live, kAhead, line);
  for (int i = kLine - kLanes; i + kLanes > lowest; i -= kLanes) {
    const int lane = lowest > i ? lowest - i : 0;
    if (flagged) {
      row_block<Rule, !kPlain, kPlain, kStream, false>(k, w, line, i, lane, carry, first, second);
    } else {
      row_block < Rule, false, kPlain, kStream,
          kPlain && !kEdge && kLanes<16>(k, w, line, i, lane, carry, first, second);
    }
  }
}

// n < kLine steps at one end of a row, through a padded copy.
template <class Rule, bool kPlain>
__attribute__((noinline)) Carry padded_row(const Context& k, const Powers& w, const Inputs& in, int64_t at, int64_t n,
                                           Carry carry, float* first, float* second) {
  PaddedLine line;
  const int count = static_cast<int>(n);
  const Inputs copy = line.take(k, in, at, count);
  row_line<Rule, kPlain, false, true>(k, w, copy, 0, kLine - count, carry, line.first, line.second);
  const int bytes = 4 * count;
  if constexpr (Rule::kFirst) copy_some(first + at, line.first + kLine - n, bytes);
  copy_some(second + at, line.second + kLine - n, bytes);
  return carry;
}

template <class Rule, bool kPlain, bool kStream>
TROUPE_INLINE void scan_row(const Context& k, const Powers& w, const Inputs& in, int64_t steps, Carry carry,
                            float* first, float* second) {
  const Lines lines = lines_of(second, steps, kStream);
  if (lines.high < steps)
    carry = padded_row<Rule, kPlain>(k, w, in, lines.high, steps - lines.high, carry, first, second);
  int64_t at = lines.high - kLine;
  if (lines.high == steps && at >= lines.low) {
    row_line<Rule, kPlain, kStream, true>(k, w, in, at, 0, carry, Rule::kFirst ? first + at : nullptr, second + at);
    at -= kLine;
  }
  for (; at >= lines.low; at -= kLine)
    row_line<Rule, kPlain, kStream, false>(k, w, in, at, 0, carry, Rule::kFirst ? first + at : nullptr, second + at);
  if (lines.low > 0) padded_row<Rule, kPlain>(k, w, in, 0, lines.low, carry, first, second);
}

template <class Rule, bool kPlain, bool kStream>
void scan_rows(const ScanTask& task, int64_t begin, int64_t end) {
  const FlushDenormals flush;
  const Context k(task);
  const Powers w(Rule::kValues ? task.gamma * task.lambda : task.gamma);
  const bool packed = !task.offsets.empty();
  for (int64_t b = end - 1; b >= begin; --b) {
    const int64_t start = packed ? task.offsets[static_cast<std::size_t>(b)] : 0;
    const int64_t steps = packed ? task.offsets[static_cast<std::size_t>(b) + 1] - start : task.steps;
    if (steps == 0) continue;
    const int64_t row = packed ? 0 : b;
    const float beyond = bootstrap_of(task, b, k.inputs(row, start + steps - 1).floats[kNext]);
    const Carry carry{Rule::kValues ? 0.0f : beyond, beyond, true};
    float* first = Rule::kFirst ? task.first.data + row * task.first.stride + start : nullptr;
    scan_row<Rule, kPlain, kStream>(k, w, k.inputs(row, start), steps, carry, first,
                                    task.second.data + row * task.second.stride + start);
  }
  if constexpr (kStream) end_stream();
}

// -- down columns: a vector is one step of kLanes sequences -----------------------------------------------------------

// Sequences walked together. When everything comes from memory, long stretches of each row count more than that the state
// stays in the first cache; else the other way round.
template <bool kStream>
inline constexpr int64_t kColumnBlock = kStream ? 2048 : 512;

// Of the step after, for each sequence of a block.
struct ColumnState {
  alignas(64) float sum[kColumnBlock<true> + kLine];    // S
  alignas(64) float value[kColumnBlock<true> + kLine];  // V of the next step that counts
};

// The part of the state, or of a row, that begins with the same sequence. Of plain inputs V is read where it stands, in the
// row after: a store less, which in cache is what limits.
struct ColumnPlaces {
  float *sums, *values;
  const float* later_values;
  float *first, *second;

  ColumnPlaces from(int64_t at) const {
    return {sums + at, values + at, later_values + at, first ? first + at : nullptr, second + at};
  }
};

template <class Rule, bool kFlags, bool kPlain, bool kStream>
TROUPE_INLINE void column_block(const Context& k, const RuleConstants<ColumnLane>& constants, const Line& line, int i,
                                const ColumnPlaces& p) {
  Read<ColumnLane> r;
  read_step<Rule, kFlags>(k, line, i, r);
  const F later_sum = load(p.sums + i);
  F later = later_sum;
  if constexpr (kFlags || !Rule::kSteadyFactor) later = r.done ? F{} : later_sum;
  if constexpr (Rule::kValues) {
    const F later_value = load(p.later_values + i);
    r.step.next = following_value<Rule, kFlags, kPlain>(k, line, i, r, later_value);
    F value = r.step.value;
    if constexpr (kFlags) value = r.live ? value : k.skip ? later_value : F{};
    if constexpr (!kPlain) store(p.values + i, value);
  }
  const RuleLink<ColumnLane> link = Rule::link(r.step, constants);
  F sum = link.factor * later + link.term;
  if constexpr (kFlags) sum = r.live ? sum : k.skip ? later_sum : F{};
  store(p.sums + i, sum);
  write_step<Rule, kFlags, kStream>(k, constants, r, sum, later, Rule::kFirst ? p.first + i : nullptr, p.second + i);
}

template <class Rule, bool kPlain, bool kStream>
TROUPE_INLINE void column_line(const Context& k, const RuleConstants<ColumnLane>& constants, const Inputs& in,
                               int64_t at, const Ahead& ahead, const ColumnPlaces& p) {
  if (write_blank<Rule, kPlain, kStream>(k, in, at, p.first, p.second)) return;
  Line line;
  const bool flagged = read_line<Rule, kPlain, false>(k, in, at, true, ahead.at(at), line);
  for (int i = kLine - kLanes; i >= 0; i -= kLanes) {
    if (flagged) {
      column_block<Rule, !kPlain, kPlain, kStream>(k, constants, line, i, p);
    } else {
      column_block<Rule, false, kPlain, kStream>(k, constants, line, i, p);
    }
  }
}

// n < kLine sequences at one end of a row, through a padded copy. The state is copied only where the division of rows into
// lines changes from one to the next; else it has the first line of its own.
template <class Rule, bool kPlain, bool kCopyState>
__attribute__((noinline)) void padded_columns(const Context& k, const RuleConstants<ColumnLane>& constants,
                                              const Inputs& in, int64_t at, int64_t n, const Ahead& ahead,
                                              const ColumnPlaces& row) {
  PaddedLine line;
  const Inputs copy = line.take(k, in, at, static_cast<int>(n));
  const ColumnPlaces p = row.from(at);
  const int bytes = 4 * static_cast<int>(n);
  const int64_t pad = kLine - n;
  alignas(64) float sums[kLine] = {}, values[kLine] = {};
  ColumnPlaces padded{sums, values, values, line.first, line.second};
  if constexpr (kCopyState) {
    copy_some(sums + pad, p.sums, bytes);
  } else {
    padded.sums = p.sums - pad;
  }
  if (kCopyState || kPlain) {
    copy_some(values + pad, p.later_values, bytes);
  } else {
    padded.values = p.values - pad;
    padded.later_values = padded.values;
  }
  column_line<Rule, kPlain, false>(k, constants, copy, 0, ahead, padded);
  if constexpr (kCopyState) {
    copy_some(p.sums, sums + pad, bytes);
    copy_some(p.values, values + pad, bytes);
  }
  if constexpr (Rule::kFirst) copy_some(p.first, line.first + pad, bytes);
  copy_some(p.second, line.second + pad, bytes);
}

// One step of `count` sequences. overhang: the first line may begin before the row, in one that is still to come.
template <class Rule, bool kPlain, bool kStream>
TROUPE_INLINE void scan_step(const Context& k, const RuleConstants<ColumnLane>& constants, const Inputs& in,
                             int64_t count, bool overhang, const Ahead& ahead, const ColumnPlaces& row) {
  const Lines lines = lines_of(row.second, count, kStream);
  if (lines.high < count)
    padded_columns<Rule, kPlain, kStream>(k, constants, in, lines.high, count - lines.high, ahead, row);
  const int64_t low = overhang && lines.low > 0 ? lines.low - kLine : lines.low;
  for (int64_t at = lines.high - kLine; at >= low; at -= kLine)
    column_line<Rule, kPlain, kStream>(k, constants, in, at, ahead, row.from(at));
  if (low > 0) padded_columns<Rule, kPlain, kStream>(k, constants, in, 0, low, ahead, row);
}

// The first step at which a line may begin `pad` elements before its row. What is written there is garbage that the row before
// overwrites, if this call writes it, later, and rows follow each other without a gap.
inline int64_t first_overhang(const ScanTask& task, const Context& k, int64_t count, int64_t pad) {
  bool allowed =
      count == task.sequences && task.second.stride == count && (!task.first.data || task.first.stride == count);
  for (const FloatView* view : k.floats) allowed = allowed && (!view->data || view->stride >= count);
  for (const FlagView* view : k.flags) allowed = allowed && (!view->data || view->stride >= count);
  return allowed ? (pad + count - 1) / count : task.steps;
}

template <class Rule, bool kPlain, bool kStream>
void scan_columns(const ScanTask& task, int64_t begin, int64_t end) {
  const FlushDenormals flush;
  const Context k(task);
  const RuleConstants<ColumnLane> constants{k.constants.rho_bar, k.constants.c_bar, k.constants.pg_rho_bar,
                                            k.constants.multiply_pg_rho, k.constants.rlax_mix};
  ColumnState state{};
  for (int64_t to = end; to > begin && task.steps > 0;) {
    const int64_t from = to - begin > kColumnBlock<kStream> ? to - kColumnBlock<kStream> : begin;
    const int64_t count = to - from, pad = kStream ? 0 : (kLine - count % kLine) % kLine, last = task.steps - 1;
    ColumnPlaces row{state.sum + pad, state.value + pad, state.value + pad,
                     Rule::kFirst ? task.first.data + last * task.first.stride + from : nullptr,
                     task.second.data + last * task.second.stride + from};
    for (int64_t i = 0; i < count; ++i) {
      const float beyond = bootstrap_of(task, from + i, k.inputs(last, from + i).floats[kNext]);
      row.sums[i] = Rule::kValues ? 0.0f : beyond;
      row.values[i] = beyond;
    }
    const Ahead ahead(k, count);
    const int64_t overhang = kStream ? task.steps : first_overhang(task, k, count, pad);
    Inputs in = k.inputs(last, from);
    for (int64_t t = last;; --t) {
      scan_step<Rule, kPlain, kStream>(k, constants, in, count, t >= overhang, ahead, row);
      if (t == 0) break;
      if (kPlain && Rule::kValues) row.later_values = reinterpret_cast<const float*>(in.floats[kValue]);
      const uint8_t* mask = in.flags[kMask];
      k.step_back(in);
      in.flags[kLaterMask] = k.next_at_ends && !k.skip ? mask : nullptr;
      if constexpr (Rule::kFirst) row.first -= task.first.stride;
      row.second -= task.second.stride;
    }
    to = from;
  }
  if constexpr (kStream) end_stream();
}

// -- what memory allows -----------------------------------------------------------------------------------------------

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

// -- the table ------------------------------------------------------------------------------------------------------

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
