#pragma once
// The scan down columns: a vector is one step of kLanes sequences. Memory is accessed strictly downward, except for
// strips that fit the cache. Internal to algorithms/scan/scan_kernel.h.

#include "algorithms/scan/scan_line.h"

namespace troupe {
namespace {

// The number of sequences processed together. When all data comes from memory, reading long pieces of each row matters
// more than keeping the state in the L1 cache; otherwise the reverse.
template <bool kStream>
inline constexpr int64_t kColumnBlock = kStream ? 2048 : 512;

// The state of the step after, for each sequence of a block.
struct ColumnState {
  alignas(64) float sum[kColumnBlock<true> + kLine];    // S
  alignas(64) float value[kColumnBlock<true> + kLine];  // V of the next unmasked step
};

// The part of the state, or of a row, that begins with the same sequence. For plain inputs V is read from the row after
// instead of being stored in the state: it saves one store, which is the bottleneck when the data is in cache.
struct ColumnPlaces {
  float *sums, *values;
  const float* later_values;
  float *first, *second;

  ColumnPlaces from(int64_t at) const {
    return {sums + at, values + at, later_values + at, first ? first + at : nullptr, second + at};
  }
};

// One step of kLanes sequences from element i of the line on. sum, value: on entry those of the step after, on return
// those of this step.
template <class Rule, bool kFlags, bool kPlain, bool kStream>
TROUPE_INLINE void column_block(const Context& k, const RuleConstants<ColumnLane>& constants, const Line& line,
                                int64_t i, F& sum, F& value, float* first, float* second) {
  Read<ColumnLane> only[1];
  read_steps<Rule, kFlags>(k, line, i, only);
  Read<ColumnLane>& r = only[0];
  const F later_sum = sum;
  F later = later_sum;
  if constexpr (kFlags || !Rule::kSteadyFactor) later = r.done ? F{} : later_sum;
  if constexpr (Rule::kValues) {
    r.step.next = following_value<Rule, kFlags, kPlain>(k, line, i, r, value);
    if constexpr (kFlags) {
      value = r.live ? r.step.value : k.skip ? value : F{};
    } else {
      value = r.step.value;
    }
  }
  const RuleLink<ColumnLane> link = Rule::link(r.step, constants);
  sum = link.factor * later + link.term;
  if constexpr (kFlags) sum = r.live ? sum : k.skip ? later_sum : F{};
  write_step<Rule, kFlags, kStream>(k, constants, r, sum, later, Rule::kFirst ? first + i : nullptr, second + i);
}

template <class Rule, bool kPlain, bool kStream>
TROUPE_INLINE void column_line(const Context& k, const RuleConstants<ColumnLane>& constants, const Inputs& in,
                               int64_t at, const Ahead& ahead, const ColumnPlaces& p) {
  if (write_blank<Rule, kPlain, kStream>(k, in, at, p.first, p.second)) return;
  Line line;
  const bool flagged = read_line<Rule, kPlain, false>(k, in, at, true, ahead.at(at), line);
  for (int i = kLine - kLanes; i >= 0; i -= kLanes) {
    F sum = load(p.sums + i), value{};
    if constexpr (Rule::kValues) value = load(p.later_values + i);
    if (flagged) {
      column_block<Rule, !kPlain, kPlain, kStream>(k, constants, line, i, sum, value, p.first, p.second);
    } else {
      column_block<Rule, false, kPlain, kStream>(k, constants, line, i, sum, value, p.first, p.second);
    }
    store(p.sums + i, sum);
    if constexpr (Rule::kValues && !kPlain) store(p.values + i, value);
  }
}

// n < kLine sequences at one end of a row, through a padded copy. The state is copied only where the alignment of rows
// to lines changes from one row to the next; otherwise the state has a separate first line.
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

// One step of `count` sequences. overhang: the first line may begin before the row, in a row that is processed later.
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

// The first step at which a line may begin `pad` elements before its row. The values written there are invalid, but the
// row before overwrites them later, provided that this call writes that row and rows are contiguous.
inline int64_t first_overhang(const ScanTask& task, const Context& k, int64_t count, int64_t pad) {
  bool allowed =
      count == task.sequences && task.second.stride == count && (!task.first.data || task.first.stride == count);
  for (const FloatView* view : k.floats) allowed = allowed && (!view->data || view->stride >= count);
  for (const FlagView* view : k.flags) allowed = allowed && (!view->data || view->stride >= count);
  return allowed ? (pad + count - 1) / count : task.steps;
}

TROUPE_INLINE RuleConstants<ColumnLane> column_constants(const Context& k) {
  return {k.constants.rho_bar, k.constants.c_bar, k.constants.pg_rho_bar, k.constants.multiply_pg_rho,
          k.constants.rlax_mix};
}

// Writes the state beyond the last step of the `count` sequences from `from` on.
template <class Rule>
void start_columns(const ScanTask& task, const Context& k, int64_t from, int64_t count, float* sums, float* values) {
  const char* next = k.inputs(task.steps - 1, from).floats[kNext];
  const int64_t bytes = k.wide[kNext] ? 4 : 2;
  const bool none = task.bootstrap.empty() && !(task.next_at_ends && next);
  for (int64_t i = 0; i < count; ++i) {
    const ScanState start = start_at<Rule>(none ? 0.0f : bootstrap_of(task, from + i, next ? next + i * bytes : next));
    sums[i] = task.later_sum.empty() ? start.sum : task.later_sum[static_cast<std::size_t>(from + i)];
    values[i] = start.value;
  }
}

// `steps` steps, backward from the one that `line`, first and second point to, of 16 sequences whose state stays in
// registers.
template <class Rule>
TROUPE_INLINE void column_strip(const Context& k, const RuleConstants<ColumnLane>& constants, const ScanTask& task,
                                Line& line, int64_t steps, float* sums, const float* later_values, float* first,
                                float* second) {
  constexpr int kBlocks = kLine / kLanes;
  F sum[kBlocks], value[kBlocks];
  each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
    sum[j] = load(sums + j * kLanes);
    value[j] = Rule::kValues ? load(later_values + j * kLanes) : F{};
  });
  for (int64_t t = 0; t < steps; ++t) {
    each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
      column_block<Rule, false, true, false>(k, constants, line, j * kLanes, sum[j], value[j], first, second);
    });
#pragma GCC unroll 6
    for (int a = 0; a < kFloatInputs; ++a)
      if (reads<Rule, true>(a) && (!may_be_absent(a) || line.floats[a])) line.floats[a] -= k.floats[a]->stride;
    if constexpr (Rule::kFirst) first -= task.first.stride;
    second -= task.second.stride;
  }
  each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA { store(sums + j * kLanes, sum[j]); });
}

// With at least this many sequences, whole rows are processed: the lines of a strip would map to too few sets of the L1
// cache.
inline constexpr int64_t kStripColumns = 256;

// For plain inputs in cache, where [begin, end) are 16 to kStripColumns sequences: some steps of 16
// sequences, then of the 16 before. If their number is not a multiple of 16, the last strip overlaps another
// and writes the same values again.
template <class Rule>
void scan_strips(const ScanTask& task, int64_t begin, int64_t end) {
  const Context k(task);
  const RuleConstants<ColumnLane> constants = column_constants(k);
  alignas(64) float sums[kStripColumns + kLine], beyond[kStripColumns + kLine];
  const int64_t strips = (end - begin + kLine - 1) / kLine;
  const int64_t height = 128 / strips;  // steps at a time, so that the row after is still in the L1 cache
  const auto column = [&](int64_t strip) { return strip > 0 ? end - (strips - strip) * kLine : begin; };
  for (int64_t strip = 0; strip < strips; ++strip)
    start_columns<Rule>(task, k, column(strip), kLine, sums + strip * kLine, beyond + strip * kLine);
  for (int64_t t = task.steps - 1; t >= 0; t -= height)
    for (int64_t strip = strips - 1; strip >= 0; --strip) {
      const int64_t b = column(strip);
      const Inputs in = k.inputs(t, b);
      Line line;
      for (int a = 0; a < kFloatInputs; ++a) line.floats[a] = reinterpret_cast<const float*>(in.floats[a]);
      const float* later_values = beyond + strip * kLine;
      if (Rule::kValues && t + 1 < task.steps) later_values = line.floats[kValue] + task.value.stride;
      column_strip<Rule>(k, constants, task, line, t + 1 < height ? t + 1 : height, sums + strip * kLine, later_values,
                         Rule::kFirst ? task.first.data + t * task.first.stride + b : nullptr,
                         task.second.data + t * task.second.stride + b);
    }
}

// One step of the sequences [0, at) of a block, kLines lines at a time from the end; returns how many sequences at the
// beginning are left. sums: their S, updated.
template <class Rule, int kLines>
TROUPE_INLINE int64_t plain_lines(const Context& k, const RuleConstants<ColumnLane>& constants, const Line& line,
                                  int64_t at, float* sums, const float* later_values, float* first, float* second) {
  constexpr int kBlocks = kLines * kLine / kLanes;
  for (; at >= kLines * kLine; at -= kLines * kLine) {
    const int64_t from = at - kLines * kLine;
#pragma GCC unroll 6
    for (int a = 0; a < kFloatInputs; ++a)
      if (reads<Rule, true>(a) && (!may_be_absent(a) || line.floats[a]))
        for (int i = kLines - 1; i >= 0; --i)
          __builtin_prefetch(line.floats[a] + from + i * kLine - k.floats[a]->stride);
    each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
      const int64_t i = from + j * kLanes;
      F sum = load(sums + i), value{};
      if constexpr (Rule::kValues) value = load(later_values + i);
      column_block<Rule, false, true, false>(k, constants, line, i, sum, value, first, second);
      store(sums + i, sum);
    });
  }
  return at;
}

// For plain inputs in cache and many sequences: row by row, one block of sequences at a time. end -
// begin is a multiple of kLine.
template <class Rule>
void scan_plain_rows(const ScanTask& task, int64_t begin, int64_t end) {
  constexpr int64_t kBlock = kColumnBlock<false>;
  const Context k(task);
  const RuleConstants<ColumnLane> constants = column_constants(k);
  alignas(64) float sums[kBlock], beyond[kBlock];
  for (int64_t to = end; to > begin;) {
    const int64_t from = to - begin > kBlock ? to - kBlock : begin, count = to - from;
    start_columns<Rule>(task, k, from, count, sums, beyond);
    const float* later_values = beyond;
    for (int64_t t = task.steps - 1; t >= 0; --t) {
      const Inputs in = k.inputs(t, from);
      Line line;
      for (int a = 0; a < kFloatInputs; ++a) line.floats[a] = reinterpret_cast<const float*>(in.floats[a]);
      float* first = Rule::kFirst ? task.first.data + t * task.first.stride + from : nullptr;
      float* second = task.second.data + t * task.second.stride + from;
      const int64_t rest = plain_lines<Rule, 4>(k, constants, line, count, sums, later_values, first, second);
      plain_lines<Rule, 1>(k, constants, line, rest, sums, later_values, first, second);
      later_values = line.floats[kValue];
    }
    to = from;
  }
}

template <class Rule, bool kPlain, bool kStream>
void scan_columns(const ScanTask& task, int64_t begin, int64_t end) {
  const FlushDenormals flush;
  if constexpr (kPlain && !kStream)
    if (end - begin >= kLine) {
      const int64_t count = end - begin, rest = count > kStripColumns ? count % kLine : count;
      if (rest < count) scan_plain_rows<Rule>(task, begin + rest, end);
      if (rest > 0) scan_strips<Rule>(task, begin, begin + (rest < kLine ? kLine : rest));  // 16 or more
      return;
    }
  const Context k(task);
  const RuleConstants<ColumnLane> constants = column_constants(k);
  ColumnState state{};
  for (int64_t to = end; to > begin && task.steps > 0;) {
    const int64_t from = to - begin > kColumnBlock<kStream> ? to - kColumnBlock<kStream> : begin;
    const int64_t count = to - from, pad = kStream ? 0 : (kLine - count % kLine) % kLine, last = task.steps - 1;
    ColumnPlaces row{state.sum + pad, state.value + pad, state.value + pad,
                     Rule::kFirst ? task.first.data + last * task.first.stride + from : nullptr,
                     task.second.data + last * task.second.stride + from};
    start_columns<Rule>(task, k, from, count, row.sums, row.values);
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

}  // namespace
}  // namespace troupe
