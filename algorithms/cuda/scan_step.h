#pragma once
// One step of a scan on a GPU: reading it, its effect on the state of the recurrence, and writing its results. Shared
// by all kernels and by their emulation on the host. Internal to algorithms/cuda/.

#include <cmath>
#include <cstring>

#include "algorithms/cuda/scan_plan.h"
#include "algorithms/scan/scan_rules.h"

#ifdef __CUDACC__
#define TROUPE_UNROLL _Pragma("unroll")
#else
#define TROUPE_UNROLL
#endif

namespace troupe::cuda {

// The lane type for the rules: one number at a time.
struct ScalarLane {
  using F = float;
  TROUPE_RULE static float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
  // NaN stays NaN.
  TROUPE_RULE static float ratio(float log_rho) {
    const float low = log_rho < -20.0f ? -20.0f : log_rho;
    return expf(low > 20.0f ? 20.0f : low);
  }
};

// What a step passes to the previous one.
struct State {
  float sum;    // S
  float value;  // V of the next unmasked step; only used when steps are skipped
};

// The effect of consecutive steps on the state beyond them: S = factor S' + weight V' + term, V = has_value ? value :
// V'. If a coefficient is 0, its factor is ignored, so NaN there does not propagate.
template <bool kSkip>
struct Map;

template <>
struct Map<false> {
  static constexpr int kFields = 2;
  float factor, term;
};

template <>
struct Map<true> {
  static constexpr int kFields = 5;
  float factor, term, weight, value, has_value;
};

template <bool kSkip>
TROUPE_RULE Map<kSkip> identity_map() {
  if constexpr (kSkip) {
    return {1, 0, 0, 0, 0};
  } else {
    return {1, 0};
  }
}

// Removes the dependence on the state beyond.
template <bool kSkip>
TROUPE_RULE Map<kSkip> constant_map(const State& state) {
  if constexpr (kSkip) {
    return {0, state.sum, 0, state.value, 1};
  } else {
    return {0, state.sum};
  }
}

template <bool kSkip>
TROUPE_RULE bool is_closed(const Map<kSkip>& map) {
  if constexpr (kSkip) {
    return map.factor == 0 && map.weight == 0 && map.has_value != 0;
  } else {
    return map.factor == 0;
  }
}

template <bool kSkip>
TROUPE_RULE State apply(const Map<kSkip>& map, const State& beyond) {
  State state{map.term, beyond.value};
  if constexpr (kSkip) {
    if (map.weight != 0) state.sum = fmaf(map.weight, beyond.value, state.sum);
    if (map.has_value != 0) state.value = map.value;
  }
  if (map.factor != 0) state.sum = fmaf(map.factor, beyond.sum, state.sum);
  return state;
}

// The composition: `later` first, then `earlier`.
template <bool kSkip>
TROUPE_RULE Map<kSkip> compose(const Map<kSkip>& later, const Map<kSkip>& earlier) {
  Map<kSkip> both = earlier;
  if constexpr (kSkip) {
    if (earlier.weight != 0 && later.has_value != 0) {
      both.term = fmaf(earlier.weight, later.value, both.term);
      both.weight = 0;
    }
    if (earlier.factor != 0 && later.weight != 0) both.weight = fmaf(earlier.factor, later.weight, both.weight);
    if (earlier.has_value == 0) {
      both.value = later.value;
      both.has_value = later.has_value;
    }
  }
  if (earlier.factor != 0) {
    both.factor = later.factor != 0 ? earlier.factor * later.factor : 0.0f;
    both.term = fmaf(earlier.factor, later.term, both.term);
  }
  return both;
}

TROUPE_RULE float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}
TROUPE_RULE uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}
TROUPE_RULE float float_of_bfloat16(uint16_t half) { return float_of_bits(static_cast<uint32_t>(half) << 16); }

// The bits of one element.
template <class Word>
TROUPE_RULE Word load_word(const unsigned char* at) {
  Word word;
  memcpy(&word, __builtin_assume_aligned(at, sizeof(Word)), sizeof(Word));
  return word;
}

// One element of an input of numbers.
TROUPE_RULE float load_number(const unsigned char* at, int size) {
  return size == 2 ? float_of_bfloat16(load_word<uint16_t>(at)) : float_of_bits(load_word<uint32_t>(at));
}

// N adjacent steps of one sequence in registers. In a set of flags, bit i is step i. Steps that do not exist have
// arbitrary contents.
template <int N>
struct Run {
  float reward[N], value[N], discount[N], lambda[N], ratio[N];
  float next[N];             // V of the next state; not if steps are skipped: it is part of the state then
  float factor[N], term[N];  // the effect of the step on S; if steps are skipped, the term is the part without next
  uint32_t there;            // the steps that exist
  uint32_t live;             // unmasked
  uint32_t end;              // terminal: no next value
  uint32_t done;             // S does not pass through
  float followed;            // k.follow: V of the first unmasked step of the run or, without one, after it
};

// What follows a run: the sequence's last step, and the step after the run if it exists.
struct Surroundings {
  int last;           // index of the sequence's last step, which may be outside the run
  float beyond;       // bootstrap: V after the last step, or S for a rule without values
  float later_value;  // with k.follow: V of the next unmasked step
  bool later_live;
};

TROUPE_RULE bool has(uint32_t flags, int i) { return (flags >> i & 1) != 0; }

// kClean: all steps of the run exist, or none does.
template <bool kClean, int N>
TROUPE_RULE bool exists(const Run<N>& run, int i) {
  return kClean ? run.there != 0 : has(run.there, i);
}

template <class Rule, StepMode kMode, int N>
TROUPE_RULE RuleStep<ScalarLane> step_of(const DeviceScan& k, const Run<N>& run, int i) {
  RuleStep<ScalarLane> s{};
  s.reward = run.reward[i];
  if constexpr (Rule::kValues) s.value = run.value[i];
  if constexpr (Rule::kValues && !kSkips<kMode>) s.next = run.next[i];
  if constexpr (Rule::kRatios) s.ratio = run.ratio[i];
  s.discount = kArrays<kMode> ? run.discount[i] : k.gamma;
  if constexpr (Rule::kValues) s.lambda = kArrays<kMode> ? run.lambda[i] : k.lambda;
  return s;
}

TROUPE_RULE RuleConstants<ScalarLane> constants_of(const DeviceScan& k) {
  return {k.rho_bar, k.c_bar, k.pg_rho_bar, k.multiply_pg_rho, k.rlax_mix};
}

// The factor of every step in plain mode.
template <class Rule>
TROUPE_RULE float plain_factor(const DeviceScan& k) {
  return Rule::kValues ? k.gamma * k.lambda : k.gamma;
}

template <StepMode kMode, bool kClean, int N, class Numbers>
TROUPE_RULE void set_adjacent_next(const DeviceScan& k, const Surroundings& around, const Numbers& numbers,
                                   Run<N>& run) {
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) run.next[i] = i + 1 < N ? run.value[i + 1 < N ? i + 1 : i] : around.later_value;
  if ((!kClean && around.last < N) || around.last == N - 1) {
    TROUPE_UNROLL
    for (int i = kClean ? N - 1 : 0; i < N; ++i)
      if (i == around.last) run.next[i] = around.beyond;
  }
  if constexpr (kMode != StepMode::plain) {
    uint32_t later_live = ~0u;
    if (k.inputs[kMask].data) {
      later_live = run.live >> 1 | (around.later_live ? 1u << (N - 1) : 0);
      if (around.last >= 0 && around.last < N) later_live |= 1u << around.last;
      TROUPE_UNROLL
      for (int i = 0; i < N; ++i)
        if (!has(later_live, i)) run.next[i] = 0;
    }
    if (kArrays<kMode> && k.inputs[kNext].data) {
      const uint32_t from_given = k.next_at_ends ? run.done | ~later_live : ~0u;
      float given[N];
      numbers(kNext, given);
      TROUPE_UNROLL
      for (int i = 0; i < N; ++i)
        if (has(from_given, i)) run.next[i] = given[i];
    }
  }
}

template <StepMode kMode, bool kClean, int N, class Numbers>
TROUPE_RULE void set_next(const DeviceScan& k, const Surroundings& around, const Numbers& numbers, Run<N>& run) {
  if (kMode != StepMode::plain && k.follow) {
    run.followed = around.later_value;
    TROUPE_UNROLL
    for (int i = N - 1; i >= 0; --i) {
      run.next[i] = run.followed;
      if (has(run.live & run.there, i)) run.followed = run.value[i];
    }
  } else {
    set_adjacent_next<kMode, kClean>(k, around, numbers, run);
  }
  if constexpr (kMode != StepMode::plain) {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i)
      if (has(run.end, i)) run.next[i] = 0;
  }
}

// `numbers(input, to)` and `flags(input)` give the steps of an input; only called for those that are given.
template <class Rule, StepMode kMode, bool kClean, int N, class Numbers, class Flags>
TROUPE_RULE Run<N> make_run(const DeviceScan& k, uint32_t there, const Surroundings& around, const Numbers& numbers,
                            const Flags& flags) {
  Run<N> run;
  run.there = there;
  run.live = ~0u;
  run.end = run.done = 0;
  run.followed = 0;
  numbers(kReward, run.reward);
  if constexpr (Rule::kValues) numbers(kValue, run.value);
  if constexpr (Rule::kRatios) {
    numbers(kLogRho, run.ratio);
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i) run.ratio[i] = ScalarLane::ratio(run.ratio[i]);
  }
  if constexpr (kMode != StepMode::plain) {
    const auto bits = [&](Input input, uint32_t otherwise) { return k.inputs[input].data ? flags(input) : otherwise; };
    const uint32_t cut = bits(kTruncated, 0);
    run.end = bits(kTerminated, 0) | (k.cut_is_end ? cut : 0);
    if constexpr (kArrays<kMode>) {
      const auto fill = [&](Input input, float otherwise, float(&to)[N]) {
        if (k.inputs[input].data) {
          numbers(input, to);
          return;
        }
        TROUPE_UNROLL
        for (int i = 0; i < N; ++i) to[i] = otherwise;
      };
      fill(kGamma, k.gamma, run.discount);
      if constexpr (Rule::kValues) fill(kLambda, k.lambda, run.lambda);
      TROUPE_UNROLL
      for (int i = 0; i < N; ++i) run.end |= run.discount[i] == 0 ? 1u << i : 0;
    } else if (k.gamma == 0) {
      run.end = ~0u;
    }
    run.done = run.end | cut;
    run.live = bits(kMask, ~0u);
  } else if (!Rule::kValues) {
    // The state beyond a plain sequence is 0, so that steps that do not exist need no special factor.
    TROUPE_UNROLL
    for (int i = kClean ? N - 1 : 0; i < N; ++i)
      if (i == around.last) run.reward[i] = fmaf(k.gamma, around.beyond, run.reward[i]);
  }
  if constexpr (Rule::kValues && !kSkips<kMode>) set_next<kMode, kClean>(k, around, numbers, run);
  TROUPE_UNROLL
  for (int i = 0; i < N; ++i) {
    const RuleLink<ScalarLane> link = Rule::link(step_of<Rule, kMode>(k, run, i), constants_of(k));
    run.factor[i] = has(run.done, i) ? 0.0f : link.factor;
    run.term[i] = link.term;
  }
  if (kMode != StepMode::plain && k.inputs[kMask].data) {
    const float passed = k.skip ? 1.0f : 0.0f;
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i)
      if (!has(run.live, i)) {
        run.factor[i] = passed;
        run.term[i] = 0;
      }
  }
  if constexpr (!kClean) {
    TROUPE_UNROLL
    for (int i = 0; i < N; ++i)
      if (!has(there, i)) {
        run.factor[i] = 1;
        run.term[i] = 0;
      }
  }
  return run;
}

// The effect of the whole run on the state.
template <class Rule, StepMode kMode, bool kClean, int N>
TROUPE_RULE Map<kSkips<kMode>> map_of_run(const DeviceScan& k, const Run<N>& run) {
  constexpr bool kSkip = kSkips<kMode>;
  Map<kSkip> map = identity_map<kSkip>();
  if constexpr (kMode == StepMode::plain) {
    const float factor = plain_factor<Rule>(k);
    map = {0, run.term[N - 1]};  // the factor is known without the steps
    TROUPE_UNROLL
    for (int i = N - 2; i >= 0; --i) map.term = factor != 0 ? fmaf(factor, map.term, run.term[i]) : run.term[i];
    if (kClean && run.there == 0) map.term = 0;
    return map;
  } else {
    TROUPE_UNROLL
    for (int i = N - 1; i >= 0; --i) {
      Map<kSkip> step = identity_map<kSkip>();
      step.factor = run.factor[i];
      step.term = run.term[i];
      if constexpr (kSkip) {
        static_assert(!Rule::kRatios, "the term must be linear in V' with the discount as coefficient");
        if (exists<kClean>(run, i) && has(run.live, i)) {
          step.weight = has(run.end, i) ? 0.0f : kArrays<kMode> ? run.discount[i] : k.gamma;
          step.value = run.value[i];
          step.has_value = 1;
        }
      }
      map = i == N - 1 ? step : compose(map, step);
    }
    return kClean && run.there == 0 ? identity_map<kSkip>() : map;
  }
}

// Writes the results of step i, which must exist, and advances the state over it.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE RuleResult<ScalarLane> finish_step(const DeviceScan& k, const Run<N>& run, int i, State& state) {
  constexpr bool kSkip = kSkips<kMode>;
  RuleStep<ScalarLane> s = step_of<Rule, kMode>(k, run, i);
  float factor = kMode == StepMode::plain ? plain_factor<Rule>(k) : run.factor[i];
  float term = run.term[i];
  if constexpr (kSkip) {
    s.next = has(run.end, i) ? 0.0f : state.value;
    if (has(run.live, i)) term = Rule::link(s, constants_of(k)).term;
  }
  const float later = has(run.done, i) ? 0.0f : state.sum;
  const float sum = factor != 0 ? fmaf(factor, state.sum, term) : term;
  state.sum = sum;
  RuleResult<ScalarLane> result = Rule::finish(s, constants_of(k), sum, later);
  if constexpr (kMode != StepMode::plain) {
    if (k.inputs[kMask].data && !has(run.live, i)) {
      if (!k.carry_outside) {
        result = {0, 0};
      } else if (!Rule::kValues && !k.skip) {
        result.second = fmaf(s.discount, later, s.reward);
      }
    }
    if (kSkip && has(run.live, i)) state.value = s.value;
  }
  return result;
}

// Which inputs a kernel reads if they are given.
template <class Rule, StepMode kMode>
TROUPE_RULE constexpr bool reads(int input) {
  switch (input) {
    case kReward: return true;
    case kValue: return Rule::kValues;
    case kLogRho: return Rule::kRatios;
    case kGamma: return kArrays<kMode>;
    case kLambda: return kArrays<kMode> && Rule::kValues;
    case kNext: return kArrays<kMode> && Rule::kValues && !kSkips<kMode>;
    default: return kMode != StepMode::plain;
  }
}

// The state beyond the last step of a sequence. `next`: address of that step's next value, or nullptr.
template <class Rule>
TROUPE_RULE State state_beyond(const DeviceScan& k, int64_t sequence, const unsigned char* next) {
  float beyond = 0;
  if (k.bootstrap) {
    beyond = k.bootstrap[sequence];
  } else if (Rule::kValues && k.next_at_ends && next) {
    beyond = load_number(next, k.inputs[kNext].size);
  }
  return {Rule::kValues ? 0.0f : beyond, beyond};
}

}  // namespace troupe::cuda
