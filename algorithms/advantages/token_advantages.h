#pragma once
// Advantages from returns-to-go along a sequence: GAE over unmasked tokens, REINFORCE++ and ReMax. Internal to algorithms/; by name
// through algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

void gae_advantages(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void reinforce_plus_plus(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
void remax(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
