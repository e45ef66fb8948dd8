#pragma once
// What scores the answers of a token run. Any thread.

#include <memory>
#include <vector>

#include "actors/experience/common/grader.h"
#include "actors/experience/common/run_spec.h"

namespace troupe {

// One for each process of the verifier, or one that runs the code of the task; with a reward model, that beside it.
std::vector<std::shared_ptr<Grader>> make_answer_graders(const RunSpec& run);
// The same of a worker, for which scorers may compute with the reward model.
std::vector<std::shared_ptr<Grader>> make_worker_graders(const RunSpec& run);

}  // namespace troupe
