#pragma once
// Evaluations of a token run: answers to held-out prompts, the most likely ones, or several samples each.

#include <memory>

#include "actors/experience/common/evaluation_player.h"
#include "actors/experience/common/grader.h"
#include "actors/experience/common/run_spec.h"

namespace troupe {

// Without a grader the player makes its own.
std::unique_ptr<EvaluationPlayer> make_answer_evaluation(std::shared_ptr<const RunSpec> run,
                                                         std::shared_ptr<const RunFactories> factories,
                                                         std::shared_ptr<Grader> grader);

}  // namespace troupe
