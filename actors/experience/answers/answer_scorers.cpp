#include "actors/experience/answers/answer_scorers.h"

#include "actors/experience/answers/python_scorer.h"
#include "actors/experience/answers/reward_scorer.h"
#include "actors/experience/answers/task_scorer.h"

namespace troupe {
namespace {

using Scorers = std::vector<std::shared_ptr<Scorer>>;

Scorers make_task_scorers(const RunSpec& run) {
  if (run.make_task_scorers) return run.make_task_scorers();
  const TaskConfig& task = run.config.task;
  if (task.verifier.empty()) return {std::make_shared<TaskScorer>(run.tokens)};
  Scorers scorers;
  for (int64_t i = 0; i < task.verifier_processes; ++i)
    scorers.push_back(std::make_shared<PythonScorer>(verifier_target(task)));
  return scorers;
}

}  // namespace

Scorers make_answer_scorers(const RunSpec& run) {
  Scorers scorers = make_task_scorers(run);
  if (!run.reward_model) return scorers;
  for (std::shared_ptr<Scorer>& scorer : scorers)
    scorer = std::make_shared<RewardScorer>(run.config, run.tokens, scorer, run.reward_model);
  return scorers;
}

Scorers make_worker_scorers(const RunSpec& run) {
  return run.config.reward_model.by_scorers() ? make_task_scorers(run) : make_answer_scorers(run);
}

}  // namespace troupe
