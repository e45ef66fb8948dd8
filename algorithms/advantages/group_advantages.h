#pragma once
// Advantages that compare the score of a whole answer with the other answers of its group: one number per sequence, the
// same for each of its tokens. Internal to algorithms/; other code looks them up by name in
// algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

// GRPO (Shao et al. 2024, arXiv:2402.03300), and the same with a lower bound on the variance.
void grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void grpo_vectorized(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Dr. GRPO (Liu et al. 2025, arXiv:2503.20783).
void dr_grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Pass@k advantages (Tang et al. 2025, arXiv:2503.19595).
void grpo_passk(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// REINFORCE++ with a group baseline (Hu 2025, arXiv:2501.03262).
void reinforce_plus_plus_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Leave-one-out baseline (Ahmadian et al. 2024, arXiv:2402.14740).
void rloo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// OPO, length-weighted baseline (Hao et al. 2025, arXiv:2505.23585).
void opo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// GPG (Chu et al. 2025, arXiv:2504.02546).
void gpg(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
