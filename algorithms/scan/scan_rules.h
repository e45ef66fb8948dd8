#pragma once
// The equations of the scan family: each step of an estimator as S = factor * S' + term, where S' belongs to the step
// after it, and the estimator's results as functions of S and S'. Without masks and state, for single numbers or
// vectors, so that the kernels of every layout, instruction set and device share them. Internal to algorithms/.
//
// Lane: a type with F, the number type (float, or a vector of floats), and multiply_add(a, b, c), which is a * b + c,
// rounded once or twice. F must support arithmetic, comparisons and `condition ? x : y`.

#ifdef __CUDACC__
#define TROUPE_RULE __host__ __device__ __forceinline__
#else
#define TROUPE_RULE inline __attribute__((always_inline))
#endif

namespace troupe {

template <class Lane>
struct RuleStep {
  typename Lane::F reward;
  typename Lane::F value;     // V(s_t)
  typename Lane::F next;      // V of the next state: 0 after a terminal step
  typename Lane::F discount;  // gamma
  typename Lane::F lambda;
  typename Lane::F ratio;  // pi / mu
};

template <class Lane>
struct RuleConstants {
  typename Lane::F rho_bar, c_bar, pg_rho_bar;  // infinite = no bound
  bool multiply_pg_rho;
  bool rlax_mix;
};

// S = factor * S' + term inside an episode. At its end, and where the factor is 0, S = term for any S', NaN included.
template <class Lane>
struct RuleLink {
  typename Lane::F factor, term;
};

template <class Lane>
struct RuleResult {
  typename Lane::F first, second;
};

// S = advantage (Schulman et al. 2016, arXiv:1506.02438, eq. 16): delta = r + gamma V' - V, factor gamma lambda.
struct GaeRule {
  static constexpr bool kValues = true;        // reads values; `bootstrap` is a value
  static constexpr bool kRatios = false;       // reads log_rho
  static constexpr bool kSteadyFactor = true;  // the same at every step, unless gamma or lambda is an array
  static constexpr bool kFirst = true;         // has a first result

  template <class Lane>
  TROUPE_RULE static RuleLink<Lane> link(const RuleStep<Lane>& s, const RuleConstants<Lane>&) {
    return {s.discount * s.lambda, Lane::multiply_add(s.discount, s.next, s.reward) - s.value};
  }
  template <class Lane>
  TROUPE_RULE static RuleResult<Lane> finish(const RuleStep<Lane>& s, const RuleConstants<Lane>&, typename Lane::F sum,
                                             typename Lane::F) {
    return {sum, sum + s.value};
  }
};

struct LambdaReturnRule : GaeRule {
  static constexpr bool kFirst = false;
};

// S = discounted sum of rewards; `bootstrap` is such a sum.
struct ReturnRule {
  static constexpr bool kValues = false;
  static constexpr bool kRatios = false;
  static constexpr bool kSteadyFactor = true;
  static constexpr bool kFirst = false;

  template <class Lane>
  TROUPE_RULE static RuleLink<Lane> link(const RuleStep<Lane>& s, const RuleConstants<Lane>&) {
    return {s.discount, s.reward};
  }
  template <class Lane>
  TROUPE_RULE static RuleResult<Lane> finish(const RuleStep<Lane>&, const RuleConstants<Lane>&, typename Lane::F sum,
                                             typename Lane::F) {
    return {sum, sum};
  }
};

// S = vs - V (Espeholt et al. 2018, arXiv:1802.01561, eq. 1). Lane has ratio(log_rho), the exponential of log_rho
// clamped to +-20, for the code that fills a step.
struct VtraceRule {
  static constexpr bool kValues = true;
  static constexpr bool kRatios = true;
  static constexpr bool kSteadyFactor = false;
  static constexpr bool kFirst = true;

  // NaN stays NaN.
  template <class F>
  TROUPE_RULE static F at_most(F x, F bound) {
    return x > bound ? bound : x;
  }
  template <class Lane>
  TROUPE_RULE static RuleLink<Lane> link(const RuleStep<Lane>& s, const RuleConstants<Lane>& k) {
    const auto delta = Lane::multiply_add(s.discount, s.next, s.reward) - s.value;
    return {s.discount * s.lambda * at_most(s.ratio, k.c_bar), at_most(s.ratio, k.rho_bar) * delta};
  }
  template <class Lane>
  TROUPE_RULE static RuleResult<Lane> finish(const RuleStep<Lane>& s, const RuleConstants<Lane>& k,
                                             typename Lane::F sum, typename Lane::F later) {
    const auto next_vs = s.next + (k.rlax_mix ? s.lambda * later : later);
    const auto advantage = Lane::multiply_add(s.discount, next_vs, s.reward) - s.value;
    if (!k.multiply_pg_rho) return {s.value + sum, advantage};
    return {s.value + sum, at_most(s.ratio, k.pg_rho_bar) * advantage};
  }
};

}  // namespace troupe
