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

// N adjacent steps of one sequence in registers; those outside [begin, end) do not exist and have arbitrary contents.
template <int N>
struct Run {
  float numbers[kFloatInputs][N];
  unsigned char flags[kInputs - kFloatInputs][N];
  float later_value;         // V of the step after the N, if it exists
  unsigned char later_live;  // whether that step is unmasked
  int begin, end;
  int last;      // index of the sequence's last step, which may be outside the N
  float beyond;  // bootstrap: V after the last step, or S for a rule without values

  TROUPE_RULE bool there(int i) const { return i >= begin && i < end; }
};

// One step, ready for the rule except for the next value.
struct Step {
  RuleStep<ScalarLane> numbers;
  bool live;  // unmasked
  bool end;   // terminal: no next value
  bool done;  // S does not pass through
};

template <class Rule, StepMode kMode, int N>
TROUPE_RULE Step read_step(const DeviceScan& k, const Run<N>& run, int i) {
  Step s{};
  s.numbers.reward = run.numbers[kReward][i];
  if constexpr (Rule::kValues) s.numbers.value = run.numbers[kValue][i];
  if constexpr (Rule::kRatios) s.numbers.ratio = ScalarLane::ratio(run.numbers[kLogRho][i]);
  s.numbers.discount = k.gamma;
  s.numbers.lambda = k.lambda;
  s.live = true;
  if constexpr (kMode == StepMode::plain) {
    // The state beyond a plain sequence is 0, so that steps that do not exist need no special factor.
    if (!Rule::kValues && i == run.last) s.numbers.reward = fmaf(k.gamma, run.beyond, s.numbers.reward);
  } else {
    if (k.inputs[kGamma].data) s.numbers.discount = run.numbers[kGamma][i];
    if (k.inputs[kLambda].data) s.numbers.lambda = run.numbers[kLambda][i];
    const bool cut = k.inputs[kTruncated].data && run.flags[kTruncated - kFloatInputs][i] != 0;
    const bool terminal = k.inputs[kTerminated].data && run.flags[kTerminated - kFloatInputs][i] != 0;
    if (k.inputs[kMask].data) s.live = run.flags[kMask - kFloatInputs][i] != 0;
    s.end = terminal || (cut && k.cut_is_end) || s.numbers.discount == 0;
    s.done = s.end || cut;
  }
  return s;
}

// The next value of an unmasked step. Not for StepMode::skip, where it is part of the state.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE float following_value(const DeviceScan& k, const Run<N>& run, int i, const Step& s) {
  const bool inside = i + 1 < N;
  float next = i == run.last ? run.beyond : inside ? run.numbers[kValue][inside ? i + 1 : i] : run.later_value;
  if constexpr (kMode != StepMode::plain) {
    bool later_live = true;
    if (k.inputs[kMask].data && i != run.last)
      later_live = (inside ? run.flags[kMask - kFloatInputs][inside ? i + 1 : i] : run.later_live) != 0;
    if (!later_live) next = 0;
    if (k.inputs[kNext].data && (!k.next_at_ends || s.done || !later_live)) next = run.numbers[kNext][i];
    if (s.end) next = 0;
  }
  return next;
}

TROUPE_RULE RuleConstants<ScalarLane> constants_of(const DeviceScan& k) {
  return {k.rho_bar, k.c_bar, k.pg_rho_bar, k.multiply_pg_rho, k.rlax_mix};
}

// The effect of step i on the state.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE auto map_of_step(const DeviceScan& k, const Run<N>& run, int i) {
  constexpr bool kSkip = kMode == StepMode::skip;
  Step s = read_step<Rule, kMode>(k, run, i);
  if constexpr (Rule::kValues && !kSkip) s.numbers.next = following_value<Rule, kMode>(k, run, i, s);
  const RuleLink<ScalarLane> link = Rule::link(s.numbers, constants_of(k));
  Map<kSkip> map = identity_map<kSkip>();
  if constexpr (kMode == StepMode::plain) {
    map = {link.factor, run.there(i) ? link.term : 0.0f};
  } else if (run.there(i) && s.live) {
    map.factor = s.done ? 0.0f : link.factor;
    map.term = link.term;
    if constexpr (kSkip) {
      static_assert(!Rule::kRatios, "the term must be linear in V' with the discount as coefficient");
      map.weight = s.end ? 0.0f : s.numbers.discount;
      map.value = s.numbers.value;
      map.has_value = 1;
    }
  } else if (run.there(i) && !k.skip) {
    map.factor = 0;
  }
  return map;
}

// The effect of the whole run on the state.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE auto map_of_run(const DeviceScan& k, const Run<N>& run) {
  auto map = map_of_step<Rule, kMode>(k, run, N - 1);
  TROUPE_UNROLL
  for (int i = N - 2; i >= 0; --i) map = compose(map, map_of_step<Rule, kMode>(k, run, i));
  return map;
}

// Writes the results of step i, which must exist, and advances the state over it.
template <class Rule, StepMode kMode, int N>
TROUPE_RULE RuleResult<ScalarLane> finish_step(const DeviceScan& k, const Run<N>& run, int i, State& state) {
  constexpr bool kSkip = kMode == StepMode::skip;
  Step s = read_step<Rule, kMode>(k, run, i);
  if constexpr (Rule::kValues) {
    if constexpr (kSkip) {
      s.numbers.next = s.end ? 0.0f : state.value;
    } else {
      s.numbers.next = following_value<Rule, kMode>(k, run, i, s);
    }
  }
  const RuleConstants<ScalarLane> constants = constants_of(k);
  const RuleLink<ScalarLane> link = Rule::link(s.numbers, constants);
  const float later = s.done ? 0.0f : state.sum;
  float sum = link.term;
  if (!s.done && link.factor != 0) sum = fmaf(link.factor, state.sum, link.term);
  if (!s.live) sum = k.skip ? state.sum : 0.0f;
  state.sum = sum;
  if (kSkip && s.live) state.value = s.numbers.value;

  RuleResult<ScalarLane> result = Rule::finish(s.numbers, constants, sum, later);
  if (!s.live) {
    if (!k.carry_outside) {
      result = {0, 0};
    } else if (!Rule::kValues && !k.skip) {
      result.second = fmaf(s.numbers.discount, later, s.numbers.reward);
    }
  }
  return result;
}

TROUPE_RULE float float_of_bfloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

// One element of an input of numbers.
TROUPE_RULE float load_number(const unsigned char* at, int size) {
  if (size == 2) return float_of_bfloat16(*reinterpret_cast<const uint16_t*>(at));
  return *reinterpret_cast<const float*>(at);
}

// Which inputs a kernel reads if they are given.
template <class Rule, StepMode kMode>
TROUPE_RULE constexpr bool reads(int input) {
  if (input == kReward) return true;
  if (input == kValue) return Rule::kValues;
  if (input == kLogRho) return Rule::kRatios;
  if (kMode == StepMode::plain) return false;
  if (input == kNext) return Rule::kValues && kMode != StepMode::skip;
  return input != kLambda || Rule::kValues;
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
