#pragma once
// Advantages from the score of a whole answer against the other answers of its group: one number per sequence, the same at each of
// its tokens. Internal to algorithms/; by name through algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

void grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void grpo_vectorized(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void dr_grpo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void grpo_passk(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void reinforce_plus_plus_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void rloo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void opo(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void gpg(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
