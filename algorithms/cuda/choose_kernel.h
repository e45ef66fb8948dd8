#pragma once
// Selects the kernel of a family for a rule and a mode; the only place that names every instance. Internal to
// algorithms/cuda/.

#include "algorithms/cuda/scan_step.h"

namespace troupe::cuda {

// Calls make<Rule, StepMode>() for the rule and mode, which must be a combination that plan_scan() chooses.
template <class Make>
auto choose_kernel(ScanRule rule, StepMode mode, const Make& make) {
  const auto with_mode = [&]<class Rule>(Rule) {
    switch (mode) {
      case StepMode::plain: return make.template operator()<Rule, StepMode::plain>();
      case StepMode::flags: return make.template operator()<Rule, StepMode::flags>();
      case StepMode::arrays: break;
      case StepMode::skip:
        if constexpr (Rule::kValues) return make.template operator()<Rule, StepMode::skip>();
        break;
      case StepMode::skip_arrays:
        if constexpr (Rule::kValues) return make.template operator()<Rule, StepMode::skip_arrays>();
        break;
    }
    return make.template operator()<Rule, StepMode::arrays>();
  };
  switch (rule) {
    case ScanRule::gae: return with_mode(GaeRule());
    case ScanRule::lambda_return: return with_mode(LambdaReturnRule());
    case ScanRule::reward_to_go: return with_mode(ReturnRule());
    case ScanRule::vtrace: break;
  }
  return make.template operator()<VtraceRule, StepMode::arrays>();
}

}  // namespace troupe::cuda
