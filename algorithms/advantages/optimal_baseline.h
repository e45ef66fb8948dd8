#pragma once
// The optimal token baseline: a baseline per group and step that weights every answer by how much its tokens so far
// move the gradient, as in verl (github.com/volcengine/verl). Internal to algorithms/; by name through
// algorithms/advantages/advantages.h.

#include "algorithms/advantages/advantages.h"

namespace troupe {

// Steps are positions in the sequence.
void optimal_token_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);
// Steps are the unmasked tokens of a sequence, counted: for answers with the output of tools in between.
void tir_optimal_token_baseline(const AdvantageInput&, const ParameterValues&, const AdvantageOutput&);

}  // namespace troupe
