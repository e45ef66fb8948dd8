#pragma once
// Evaluations of a run on environments: episodes with the most likely actions.

#include <memory>

#include "actors/experience/common/evaluation_player.h"
#include "actors/experience/common/grader.h"
#include "actors/experience/common/run_spec.h"

namespace troupe {

// `grader` is not used.
std::unique_ptr<EvaluationPlayer> make_environment_evaluation(std::shared_ptr<const RunSpec> run,
                                                              std::shared_ptr<const RunFactories> factories,
                                                              std::shared_ptr<Grader> grader);

}  // namespace troupe
