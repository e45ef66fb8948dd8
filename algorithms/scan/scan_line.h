#pragma once
// Shared by the scan kernels of both layouts: reading and writing a line (16 adjacent elements of one row of memory),
// and padding the ends of a row that do not fill a line. Internal to algorithms/scan/scan_kernel.h.

#include "algorithms/scan/scan.h"
#include "algorithms/scan/scan_rules.h"
#include "algorithms/scan/scan_vector.h"

namespace troupe {
namespace {

inline constexpr int kLine = 16;       // floats per cache line; streamed stores write whole ones
inline constexpr int kPrefetch = 512;  // floats ahead: 2 KB

enum FloatInput { kReward, kValue, kNext, kGamma, kLambda, kLogRho, kFloatInputs };
enum FlagInput { kTerminated, kTruncated, kMask, kLaterMask, kFlagInputs };  // kLaterMask: mask of the step after

// The start addresses of the arrays' rows of memory; nullptr = absent.
struct Inputs {
  const char* floats[kFloatInputs];
  const uint8_t* flags[kFlagInputs];
};

// What is constant within a kernel call.
struct Context {
  const FloatView* floats[kFloatInputs];
  const FlagView* flags[kFlagInputs];
  bool wide[kFloatInputs];  // float32
  RuleConstants<RowLane> constants;
  F gamma, lambda;
  bool skip, carry_outside, cut_is_end;
  bool next_everywhere;  // the `next` array is read at every step
  bool next_at_ends;
  bool unsteady;  // gamma or lambda is an array
  bool blanks;    // inputs of a completely masked line need not be read

  explicit Context(const ScanTask& t)
      : floats{&t.reward, &t.value, &t.next, &t.gammas, &t.lambdas, &t.log_rho},
        flags{&t.terminated, &t.truncated, &t.mask, &t.mask},
        constants{splat(t.rho_bar), splat(t.c_bar), splat(t.pg_rho_bar), t.multiply_pg_rho, t.rlax_mix},
        gamma(splat(t.gamma)),
        lambda(splat(t.lambda)),
        skip(t.skip),
        carry_outside(t.carry_outside),
        cut_is_end(t.cut_is_end),
        next_everywhere(t.next.data != nullptr && !t.next_at_ends),
        next_at_ends(t.next.data != nullptr && t.next_at_ends),
        unsteady(t.gammas.data != nullptr || t.lambdas.data != nullptr),
        blanks(t.mask.data != nullptr && t.skip && !t.carry_outside) {
    for (int i = 0; i < kFloatInputs; ++i) wide[i] = floats[i]->element == Element::float32;
  }

  // Moves each array one row of memory back.
  void step_back(Inputs& in) const {
    for (int i = 0; i < kFloatInputs; ++i)
      if (in.floats[i]) in.floats[i] -= floats[i]->stride * (wide[i] ? 4 : 2);
    for (int i = 0; i < kFlagInputs; ++i)
      if (in.flags[i]) in.flags[i] -= flags[i]->stride;
  }
  // The arrays from element `at` of row of memory `row` on.
  Inputs inputs(int64_t row, int64_t at) const {
    Inputs in;
    for (int i = 0; i < kFloatInputs; ++i) {
      const auto* data = static_cast<const char*>(floats[i]->data);
      in.floats[i] = data ? data + (row * floats[i]->stride + at) * (wide[i] ? 4 : 2) : nullptr;
    }
    for (int i = 0; i < kFlagInputs; ++i)
      in.flags[i] = flags[i]->data && i != kLaterMask ? flags[i]->data + row * flags[i]->stride + at : nullptr;
    return in;
  }
};

TROUPE_INLINE float float_of_bfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float x;
  __builtin_memcpy(&x, &bits, sizeof(x));
  return x;
}

// The bootstrap after the last step of sequence b, whose `next` value is at `next`.
inline float bootstrap_of(const ScanTask& task, int64_t b, const char* next) {
  if (!task.bootstrap.empty()) return task.bootstrap[static_cast<std::size_t>(b)];
  if (!task.next_at_ends || !next) return 0;
  if (task.next.element == Element::bfloat16) {
    uint16_t half;
    __builtin_memcpy(&half, next, sizeof(half));
    return float_of_bfloat16(half);
  }
  float x;
  __builtin_memcpy(&x, next, sizeof(x));
  return x;
}

// The state that a step needs from all later steps of its sequence.
struct ScanState {
  float sum;         // S
  float value;       // V of the next unmasked step
  bool live = true;  // whether the next step is unmasked
};

// The state at the end of a sequence.
template <class Rule>
TROUPE_INLINE ScanState start_at(float bootstrap) {
  return {Rule::kValues ? 0.0f : bootstrap, Rule::kValues ? bootstrap : 0.0f, true};
}

// A line as the kernels use it: floats, and masks that are only meaningful if the line is flagged.
struct Line {
  const float* floats[kFloatInputs];  // nullptr = absent
  alignas(64) float buffer[kFloatInputs][kLine];
  alignas(64) int32_t live[kLine];  // unmasked
  alignas(64) int32_t end[kLine];   // terminal: no next value
  alignas(64) int32_t done[kLine];  // S does not pass through
  alignas(64) int32_t own[kLine];   // the next value comes from the `next` array
};

// Where to prefetch while `count` elements of each row of memory are read: kPrefetch elements later in the order of
// reading, which near the end of a row is in an earlier row.
struct Ahead {
  int64_t in_row[kFloatInputs], in_row_before[kFloatInputs];  // distance in elements from the one being read
  int64_t first;                                              // from this element of the row on, in_row applies

  Ahead(const Context& k, int64_t count) : first(kPrefetch % count) {
    for (int i = 0; i < kFloatInputs; ++i) {
      const int64_t gap = k.floats[i]->data ? k.floats[i]->stride - count : 0;
      in_row[i] = -kPrefetch - kPrefetch / count * gap;
      in_row_before[i] = in_row[i] - gap;
    }
  }
  const int64_t* at(int64_t element) const { return element >= first ? in_row : in_row_before; }
};

// Whether each byte of a line is `byte`, or the array is absent.
TROUPE_INLINE bool all_are(const uint8_t* flags, int64_t at, uint64_t byte) {
  if (!flags) return true;
  uint64_t words[2];
  __builtin_memcpy(words, flags + at, sizeof(words));
  const uint64_t want = byte * 0x0101010101010101u;
  return ((words[0] ^ want) | (words[1] ^ want)) == 0;
}

// Writes the masks of a line. later_live: whether the step after the line is unmasked; columns use
// in.flags[kLaterMask] instead.
template <bool kRows>
inline void widen_flags(const Context& k, const Inputs& in, int64_t at, bool later_live, Line& line) {
  uint8_t bytes[kFlagInputs][kLine];
  for (int f = 0; f < kFlagInputs; ++f) {
    if (in.flags[f]) {
      __builtin_memcpy(bytes[f], in.flags[f] + at, kLine);
    } else {
      __builtin_memset(bytes[f], f == kMask || f == kLaterMask ? 1 : 0, kLine);
    }
  }
  for (int i = 0; i < kLine; ++i) line.live[i] = -(bytes[kMask][i] != 0);
  for (int i = 0; i < kLine; ++i) line.end[i] = -(bytes[kTerminated][i] != 0);
  for (int i = 0; i < kLine; ++i) line.done[i] = line.end[i] | -(bytes[kTruncated][i] != 0);
  for (int i = 0; i < kLine; ++i) line.own[i] = k.next_everywhere ? -1 : 0;
  if (k.next_at_ends) {
    for (int i = 0; i < kLine; ++i) line.own[i] = line.done[i] | -(bytes[kLaterMask][i] == 0);
    if (kRows) {
      for (int i = 0; i + 1 < kLine; ++i) line.own[i] |= ~line.live[i + 1];
      line.own[kLine - 1] |= later_live ? 0 : -1;
    }
  }
  if (k.cut_is_end)
    for (int i = 0; i < kLine; ++i) line.end[i] = line.done[i];
}

// Which arrays a rule reads. For plain inputs this is known at compile time: most are absent, the others are given.
template <class Rule, bool kPlain>
constexpr bool reads(int input) {
  if (input == kValue) return Rule::kValues;
  if (input == kNext || input == kLambda) return Rule::kValues && !kPlain;
  if (input == kLogRho) return Rule::kRatios;
  if (input == kGamma) return !kPlain || !Rule::kSteadyFactor;
  return true;
}
constexpr bool may_be_absent(int input) { return input == kNext || input == kLambda || input == kGamma; }

// Reads the line from element `at` on, and returns whether it is flagged. ahead: per array, the distance in elements at
// which to prefetch.
template <class Rule, bool kPlain, bool kRows>
TROUPE_INLINE bool read_line(const Context& k, const Inputs& in, int64_t at, bool later_live, const int64_t* ahead,
                             Line& line) {
#pragma GCC unroll 6
  for (int a = 0; a < kFloatInputs; ++a) {
    line.floats[a] = nullptr;
    if (!reads<Rule, kPlain>(a) || (may_be_absent(a) && !in.floats[a])) continue;
    if (kPlain || k.wide[a]) {
      line.floats[a] = reinterpret_cast<const float*>(in.floats[a]) + at;
      __builtin_prefetch(line.floats[a] + ahead[a]);
      continue;
    }
    uint16_t halves[kLine];
    __builtin_memcpy(halves, in.floats[a] + 2 * at, sizeof(halves));
    __builtin_prefetch(in.floats[a] + 2 * (at + ahead[a]));
    for (int i = 0; i < kLine; ++i) line.buffer[a][i] = float_of_bfloat16(halves[i]);
    line.floats[a] = line.buffer[a];
  }
  if constexpr (kPlain) return false;
  const bool flagged = (Rule::kSteadyFactor && k.unsteady) || !later_live || !all_are(in.flags[kTerminated], at, 0) ||
                       !all_are(in.flags[kTruncated], at, 0) || !all_are(in.flags[kMask], at, 1) ||
                       !all_are(in.flags[kLaterMask], at, 1);
  if (flagged) widen_flags<kRows>(k, in, at, later_live, line);
  return flagged;
}

// A copy of the n < kLine elements from `at` on, right-aligned in one line and padded with zeros on the left.
struct PaddedLine {
  alignas(64) char floats[kFloatInputs][4 * kLine] = {};
  alignas(64) uint8_t flags[kFlagInputs][kLine] = {};
  alignas(64) float first[kLine], second[kLine];

  Inputs take(const Context& k, const Inputs& in, int64_t at, int n) {
    Inputs copy{};
    for (int i = 0; i < kFloatInputs; ++i) {
      if (!in.floats[i]) continue;
      const int bytes = k.wide[i] ? 4 : 2;
      copy.floats[i] = floats[i];
      copy_some(floats[i] + (kLine - n) * bytes, in.floats[i] + at * bytes, n * bytes);
    }
    for (int i = 0; i < kFlagInputs; ++i) {
      if (!in.flags[i]) continue;
      copy.flags[i] = flags[i];
      copy_some(flags[i] + kLine - n, in.flags[i] + at, n);
    }
    return copy;
  }
};

// How n elements, whose second output begins at `out`, divide into lines: [0, low) and [high, n) do not fill a line.
struct Lines {
  int64_t low, high;
};
TROUPE_INLINE Lines lines_of(const float* out, int64_t n, bool stream) {
  const auto to_boundary = static_cast<int64_t>((64 - reinterpret_cast<uintptr_t>(out) % 64) % 64 / 4);
  int64_t low = stream ? to_boundary : n % kLine;
  if (low > n) low = n;
  return {low, low + (n - low) / kLine * kLine};
}

// One step of each lane, ready for a rule. `end` and `done` are set where a factor may be 0, `live`
// and `own` only with kFlags.
template <class Lane>
struct Read {
  RuleStep<Lane> step;
  M live, end, done, own;
};

// Reads everything except the ratio and the next value.
template <class Rule, bool kFlags, class Lane>
TROUPE_INLINE void read_step(const Context& k, const Line& line, int64_t i, Read<Lane>& r) {
  r.step.reward = load(line.floats[kReward] + i);
  if constexpr (Rule::kValues) r.step.value = load(line.floats[kValue] + i);
  r.step.discount = k.gamma;
  r.step.lambda = k.lambda;
  if constexpr (kFlags || !Rule::kSteadyFactor) {
    if (line.floats[kGamma]) r.step.discount = load(line.floats[kGamma] + i);
    if (line.floats[kLambda]) r.step.lambda = load(line.floats[kLambda] + i);
    // A discount of 0 ends an episode like a flag: NaN does not propagate across it.
    r.end = r.step.discount == 0.0f;
    r.done = r.end;
  }
  if constexpr (kFlags) {
    r.live = load(line.live + i);
    r.own = load(line.own + i);
    r.end |= load(line.end + i);
    r.done |= load(line.done + i);
  }
}

// N vectors from element i on, side by side: everything except the next values.
template <class Rule, bool kFlags, class Lane, int N>
TROUPE_INLINE void read_steps(const Context& k, const Line& line, int64_t i, Read<Lane> (&r)[N]) {
  if constexpr (Rule::kRatios) {
    F ratios[N];
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { ratios[j] = load(line.floats[kLogRho] + i + j * kLanes); });
    Lane::ratios(ratios);
    each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { r[j].step.ratio = ratios[j]; });
  }
  each_downward<N>([&](auto j) TROUPE_INLINE_LAMBDA { read_step<Rule, kFlags>(k, line, i + j * kLanes, r[j]); });
}

// The next value, given V of the next unmasked step.
template <class Rule, bool kFlags, bool kPlain, class Lane>
TROUPE_INLINE F following_value(const Context& k, const Line& line, int64_t i, const Read<Lane>& r, F later) {
  F next = later;
  if constexpr (kFlags) {
    if (line.floats[kNext]) next = r.own ? load(line.floats[kNext] + i) : later;
  } else if constexpr (!kPlain) {
    if (k.next_everywhere) next = load(line.floats[kNext] + i);
  }
  if constexpr (kFlags || !Rule::kSteadyFactor) next = r.end ? F{} : next;
  return next;
}

// Whether a line is completely masked; if so, writes its zeros.
template <class Rule, bool kPlain, bool kStream>
TROUPE_INLINE bool write_blank(const Context& k, const Inputs& in, int64_t at, float* first, float* second) {
  if (kPlain || !k.blanks || !all_are(in.flags[kMask], at, 0)) return false;
  for (int i = 0; i < kLine; i += kLanes) {
    if constexpr (Rule::kFirst) put<kStream>(first + i, F{});
    put<kStream>(second + i, F{});
  }
  return true;
}

// Stores the rule's results from S, and the masked-step values where steps are masked. `later`: S of the step after, 0
// if there is none.
template <class Rule, bool kFlags, bool kStream, class Lane>
TROUPE_INLINE void write_step(const Context& k, const RuleConstants<Lane>& constants, const Read<Lane>& r, F sum,
                              F later, float* first, float* second) {
  RuleResult<Lane> out = Rule::finish(r.step, constants, sum, later);
  if constexpr (kFlags) {
    if (!k.carry_outside) {
      out = {r.live ? out.first : F{}, r.live ? out.second : F{}};
    } else if constexpr (!Rule::kValues) {
      if (!k.skip) out.second = r.live ? out.second : Lane::multiply_add(r.step.discount, later, r.step.reward);
    }
  }
  if constexpr (Rule::kFirst) put<kStream>(first, out.first);
  put<kStream>(second, out.second);
}

}  // namespace
}  // namespace troupe
