#pragma once
// Selects the kernel of a family for a rule and a mode; the only place that names every instance. Internal to
// algorithms/cuda/.

#include "algorithms/cuda/scan_step.h"

namespace troupe::cuda {

// Calls make<Rule, StepMode>() for the rule and mode, which must be a combination that plan_scan() chooses.
template <class Make>
auto choose_kernel(ScanRule rule, StepMode mode, const Make& make) {
  const auto with_mode = [&]<class Rule>(Rule) {
    if (mode == StepMode::plain) return make.template operator()<Rule, StepMode::plain>();
    if constexpr (Rule::kValues) {
      if (mode == StepMode::skip) return make.template operator()<Rule, StepMode::skip>();
    }
    return make.template operator()<Rule, StepMode::flagged>();
  };
  switch (rule) {
    case ScanRule::gae: return with_mode(GaeRule());
    case ScanRule::lambda_return: return with_mode(LambdaReturnRule());
    case ScanRule::reward_to_go: return with_mode(ReturnRule());
    case ScanRule::vtrace: break;
  }
  return make.template operator()<VtraceRule, StepMode::flagged>();
}

}  // namespace troupe::cuda
