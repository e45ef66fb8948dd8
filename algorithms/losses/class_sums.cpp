#include "algorithms/losses/class_sums.h"

#include <initializer_list>

namespace troupe {

void ClassSums::merge(const ClassSums& other) {
  for (auto member : {&ClassSums::count, &ClassSums::k3, &ClassSums::clipped, &ClassSums::dead, &ClassSums::ratio,
                      &ClassSums::ratio_squared})
    this->*member += other.*member;
}

void ClassDiagnostics::add_step(const ClassSums& step) {
  if (step.count == 0) return;
  const ClassDiagnostics theirs = diagnostics_of(step);
  const double total = count + theirs.count;
  for (auto member : {&ClassDiagnostics::kl, &ClassDiagnostics::clip_fraction,
                      &ClassDiagnostics::dead_gradient_fraction, &ClassDiagnostics::ess})
    this->*member = (this->*member * count + theirs.*member * theirs.count) / total;
  count = total;
}

ClassDiagnostics diagnostics_of(const ClassSums& sums) {
  const double n = sums.count;
  if (n == 0) return {};
  return {.count = n,
          .kl = sums.k3 / n,
          .clip_fraction = sums.clipped / n,
          .dead_gradient_fraction = sums.dead / n,
          .ess = sums.ratio_squared > 0 ? sums.ratio * sums.ratio / (n * sums.ratio_squared) : 0.0};
}

}  // namespace troupe
