#pragma once
// The scan along rows: a vector is kLanes steps of one sequence, a line 16 of them. Memory is accessed strictly
// downward. Internal to algorithms/scan/scan_kernel.h.

#include "algorithms/scan/scan_line.h"

namespace troupe {
namespace {

// Independent work that hides the latency of scanning one vector:
inline constexpr int kGroup = kLanes == 16 ? 4 : kLanes == 8 ? 2 : 1;  // lines of plain inputs with a steady factor
inline constexpr int kSide = kLanes == 16 ? 1 : 2;                     // vectors of a line where factors differ

// Powers of a factor w that is the same at every step.
struct Powers {
  F shifts[4];   // w, w^2, w^4, w^8 for the scan within a vector
  F upper;       // w^(kLanes / 2 - i) in the lower half of the lanes, 0 in the upper
  F lanes;       // w^(kLanes - i) for lane i
  float vector;  // w^kLanes

  explicit Powers(float w) {
    float power = w;
    for (F& shift : shifts) {
      shift = splat(power);
      power *= power;
    }
    power = 1;
    upper = F{};
    for (int i = kLanes - 1; i >= 0; --i) {
      lanes[i] = power *= w;
      if (i >= kLanes / 2) upper[i - kLanes / 2] = power;
    }
    vector = power;
  }
};

// The operand of the scan within a vector at level K: the value K steps later, or that of the first later step added at
// this level; 0 if there is none.
template <int K>
TROUPE_INLINE F later_in_scan(F x) {
#if TROUPE_SCAN_LANES == 8
  if constexpr (K == 4) {
    return lower_from_upper(x);
  } else {
    return shift_halves<K>(x);
  }
#else
  return shift<K>(x);
#endif
}
// The same with 1 if there is none.
template <int K>
TROUPE_INLINE F later_in_scan_ones(F x) {
#if TROUPE_SCAN_LANES == 8
  if constexpr (K == 4) {
    return lower_from_upper_ones(x);
  } else {
    return shift_halves_ones<K>(x);
  }
#else
  return shift_ones<K>(x);
#endif
}

// Turns N vectors of terms into S of each lane as if nothing followed the vector, level by level for all of them.
template <int N, int K = 1, int Level = 0>
TROUPE_INLINE void scan_steady(F (&sum)[N], const Powers& w) {
  if constexpr (K < kLanes) {
    F later[N];
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { later[j] = later_in_scan<K>(sum[j]); });
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA {
      sum[j] = fused(kLanes == 8 && K == 4 ? w.upper : w.shifts[Level], later[j], sum[j]);
    });
    keep_order(sum);
    scan_steady<N, 2 * K, Level + 1>(sum, w);
  }
}

// In N vectors side by side, composes (factor, term) of each step with those of all later steps of its vector. No
// factor may be 0.
template <int K = 1, int N>
TROUPE_INLINE void scan_pairs(F (&factor)[N], F (&term)[N]) {
  if constexpr (K < kLanes) {
    F later[N];
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { later[j] = later_in_scan<K>(term[j]); });
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { term[j] = fused(factor[j], later[j], term[j]); });
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { factor[j] *= later_in_scan_ones<K>(factor[j]); });
    keep_order(term);
    keep_order(factor);
    scan_pairs<2 * K>(factor, term);
  }
}

// The same where factors may be 0: uses selection instead of multiplication by 0.
template <int K = 1>
TROUPE_INLINE void scan_cut_pairs(F& factor, F& term) {
  if constexpr (K < kLanes) {
    const F later = shift<K>(term), later_factor = shift<K>(factor, splat(1.0f));
    const M passes = factor != 0.0f;
    term = passes ? fused(factor, later, term) : term;
    factor = passes ? factor * later_factor : F{};
    scan_cut_pairs<2 * K>(factor, term);
  }
}

// S of each lane of N vectors, given S beyond the last vector. Overwrites `factor` and `term`.
template <int N>
TROUPE_INLINE void scan_vectors(F (&factor)[N], F (&term)[N], F beyond, F (&sum)[N]) {
  bool cut = false;
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { cut |= any_zero(factor[j]); });
  if (!cut) [[likely]] {
    scan_pairs(factor, term);
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA {
      sum[j] = fused(factor[j], beyond, term[j]);
      beyond = splat(sum[j][0]);
    });
    return;
  }
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA {
    scan_cut_pairs(factor[j], term[j]);
    sum[j] = factor[j] != 0.0f ? fused(factor[j], beyond, term[j]) : term[j];
    beyond = splat(sum[j][0]);
  });
}

// For each lane, the value of the first unmasked step from it on; `beyond` if the vector has none.
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

// N vectors of kLanes steps from element i of the line on, side by side. `lane`: lane of the earliest real step: 0, or
// more in a padded line.
template <int N, class Rule, bool kFlags, bool kPlain, bool kStream>
TROUPE_INLINE void row_blocks(const Context& k, const Line& line, int i, int lane, ScanState& carry, float* first,
                              float* second) {
  Read<RowLane> r[N];
  read_steps<Rule, kFlags>(k, line, i, r);
  F value[N], factor[N], term[N];
  F above = splat(carry.value);
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA {
    if constexpr (Rule::kValues) {
      value[j] = r[j].step.value;
      if constexpr (kFlags)
        value[j] = k.skip ? fill_backward(value[j], r[j].live, splat(carry.value)) : r[j].live ? value[j] : F{};
      r[j].step.next = following_value<Rule, kFlags, kPlain>(k, line, i + j * kLanes, r[j], shift<1>(value[j], above));
      above = value[j];
    }
    const RuleLink<RowLane> link = Rule::link(r[j].step, k.constants);
    factor[j] = r[j].done ? F{} : link.factor;
    term[j] = link.term;
    if constexpr (kFlags) {
      factor[j] = r[j].live ? factor[j] : splat(k.skip ? 1.0f : 0.0f);
      term[j] = r[j].live ? term[j] : F{};
    }
  });
  F sum[N];
  F beyond = splat(carry.sum);
  scan_vectors(factor, term, beyond, sum);
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA {
    const F later = r[j].done ? F{} : shift<1>(sum[j], beyond);
    beyond = sum[j];
    const int at = i + j * kLanes;
    write_step<Rule, kFlags, kStream>(k, k.constants, r[j], sum[j], later, first + at, second + at);
  });
  carry.sum = sum[0][lane];
  if constexpr (Rule::kValues) carry.value = value[0][lane];
  if constexpr (!kPlain) carry.live = true;
  if constexpr (kFlags) carry.live = r[0].live[lane] != 0;
}

// kLines lines in which every step is unmasked and has the same factor. Their vectors are scanned side by side, and one
// multiply-add connects each to the next. kNextInMemory: V of the next step follows a step's own V in memory.
template <int kLines, class Rule, bool kPlain, bool kStream, bool kNextInMemory>
TROUPE_INLINE void steady_lines(const Context& k, const Powers& w, const Line& line, int lowest, ScanState& carry,
                                float* first, float* second) {
  constexpr int kBlocks = kLines * kLine / kLanes;
  Read<RowLane> r[kBlocks];
  F local[kBlocks];
  F above = splat(carry.value);
  each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
    constexpr int i = j * kLanes;
    read_step<Rule, false>(k, line, i, r[j]);
    if constexpr (Rule::kValues) {
      const F next = kNextInMemory ? load(line.floats[kValue] + i + 1) : shift<1>(r[j].step.value, above);
      r[j].step.next = following_value<Rule, false, kPlain>(k, line, i, r[j], next);
      above = r[j].step.value;
    }
    local[j] = Rule::link(r[j].step, k.constants).term;
  });
  scan_steady(local, w);
  F sums[kBlocks];
  float beyond = carry.sum;  // S of the step after the vector
  each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
    sums[j] = fused(w.lanes, splat(beyond), local[j]);
    beyond = fused(w.vector, beyond, local[j][0]);
    write_step<Rule, false, kStream>(k, k.constants, r[j], sums[j], F{}, Rule::kFirst ? first + j * kLanes : nullptr,
                                     second + j * kLanes);
  });
  carry.sum = beyond;
  if (lowest > 0)
    each_downward<kBlocks>([&](auto j) TROUPE_INLINE_LAMBDA {
      if (lowest / kLanes == j) carry.sum = sums[j][lowest % kLanes];
    });
  // Not read from memory, because the next line would have to wait for it.
  if constexpr (Rule::kValues) carry.value = lowest == 0 ? r[0].step.value[0] : line.floats[kValue][lowest];
  if constexpr (!kPlain) carry.live = true;
}

// The line from element `at` on, in which the steps from `lowest` on are real. kEdge: the last line of
// the row, or a padded one.
template <class Rule, bool kPlain, bool kStream, bool kEdge>
TROUPE_INLINE void row_line(const Context& k, const Powers& w, const Inputs& in, int64_t at, int lowest,
                            ScanState& carry, float* first, float* second) {
  if (write_blank<Rule, kPlain, kStream>(k, in, at, first, second)) {
    carry.live = false;
    return;
  }
  static constexpr int64_t kAhead[kFloatInputs] = {-kPrefetch, -kPrefetch, -kPrefetch,
                                                   -kPrefetch, -kPrefetch, -kPrefetch};
  Line line;
  const bool flagged = read_line<Rule, kPlain, true>(k, in, at, carry.live, kAhead, line);
  if constexpr (Rule::kSteadyFactor)
    if (!flagged)
      return steady_lines < 1, Rule, kPlain, kStream,
             kPlain && !kEdge && kLanes<16>(k, w, line, lowest, carry, first, second);
  if constexpr (!Rule::kSteadyFactor)
    if (!flagged && lowest == 0) {
#pragma GCC unroll 1
      for (int i = kLine - kSide * kLanes; i >= 0; i -= kSide * kLanes)
        row_blocks<kSide, Rule, false, kPlain, kStream>(k, line, i, 0, carry, first, second);
      return;
    }
#pragma GCC unroll 1
  for (int i = kLine - kLanes; i + kLanes > lowest; i -= kLanes) {
    const int lane = kEdge && lowest > i ? lowest - i : 0;
    if (flagged) {
      row_blocks<1, Rule, !kPlain, kPlain, kStream>(k, line, i, lane, carry, first, second);
    } else if constexpr (!Rule::kSteadyFactor) {
      row_blocks<1, Rule, false, kPlain, kStream>(k, line, i, lane, carry, first, second);
    }
  }
}

// kGroup lines of plain inputs from element `at` on; the row continues after them.
template <class Rule, bool kStream>
TROUPE_INLINE void line_group(const Context& k, const Powers& w, const Inputs& in, int64_t at, ScanState& carry,
                              float* first, float* second) {
  Line line;
  for (int a : {kReward, kValue}) {
    line.floats[a] = reinterpret_cast<const float*>(in.floats[a]) + at;
    if (a == kValue && !Rule::kValues) continue;
    for (int i = kGroup - 1; i >= 0; --i) __builtin_prefetch(line.floats[a] + i * kLine - kPrefetch);
  }
  steady_lines < kGroup, Rule, true, kStream,
      kLanes<16>(k, w, line, 0, carry, Rule::kFirst ? first + at : nullptr, second + at);
}

// n < kLine steps at one end of a row, through a padded copy.
template <class Rule, bool kPlain>
__attribute__((noinline)) ScanState padded_row(const Context& k, const Powers& w, const Inputs& in, int64_t at,
                                               int64_t n, ScanState carry, float* first, float* second) {
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
TROUPE_INLINE void scan_row(const Context& k, const Powers& w, const Inputs& in, int64_t steps, ScanState carry,
                            float* first, float* second) {
  constexpr bool kGrouped = kPlain && Rule::kSteadyFactor && kGroup > 1;
  const Lines lines = lines_of(second, steps, kStream);
  if (lines.high < steps)
    carry = padded_row<Rule, kPlain>(k, w, in, lines.high, steps - lines.high, carry, first, second);
  int64_t at = lines.high - kLine;
  if (!(kGrouped && kLanes == 16) && lines.high == steps && at >= lines.low) {
    row_line<Rule, kPlain, kStream, true>(k, w, in, at, 0, carry, Rule::kFirst ? first + at : nullptr, second + at);
    at -= kLine;
  }
  if constexpr (kGrouped)
    for (; at - (kGroup - 1) * kLine >= lines.low; at -= kGroup * kLine)
      line_group<Rule, kStream>(k, w, in, at - (kGroup - 1) * kLine, carry, first, second);
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
    const ScanState carry = start_at<Rule>(beyond);
    float* first = Rule::kFirst ? task.first.data + row * task.first.stride + start : nullptr;
    scan_row<Rule, kPlain, kStream>(k, w, k.inputs(row, start), steps, carry, first,
                                    task.second.data + row * task.second.stride + start);
  }
  if constexpr (kStream) end_stream();
}

}  // namespace
}  // namespace troupe
