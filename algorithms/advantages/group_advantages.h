#pragma once
// Advantages from the score of a whole answer against the other answers of its group: one number per sequence, the same
// at each of its tokens. Internal to algorithms/; by name through algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

// GRPO, Shao et al. 2024, arXiv:2402.03300; the same with a floor under the variance.
void grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void grpo_vectorized(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Liu et al. 2025, arXiv:2503.20783.
void dr_grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Tang et al. 2025, arXiv:2503.19595.
void grpo_passk(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Hu 2025, arXiv:2501.03262.
void reinforce_plus_plus_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Ahmadian et al. 2024, arXiv:2402.14740.
void rloo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Hao et al. 2025, arXiv:2505.23585.
void opo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Chu et al. 2025, arXiv:2504.02546.
void gpg(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
