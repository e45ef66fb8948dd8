#pragma once
// Advantages from returns-to-go along a sequence: GAE (gae.h) over unmasked tokens, REINFORCE++ (Hu 2025,
// arXiv:2501.03262) and ReMax (Li et al. 2024, arXiv:2310.10505). Internal to algorithms/; other code looks them up by
// name in algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

void gae_advantages(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void reinforce_plus_plus(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void remax(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
