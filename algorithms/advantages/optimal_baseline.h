#pragma once
// The optimal token baseline: one baseline per group and step. It weights each answer by how strongly its tokens so far
// affect the gradient, as in verl (github.com/volcengine/verl). Internal to algorithms/; other code looks it up by name
// in algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

// A step is a position in the sequence.
void optimal_token_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// A step is a count of unmasked tokens, for answers with tool output in between.
void tir_optimal_token_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
