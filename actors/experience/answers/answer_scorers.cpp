#include "actors/experience/answers/answer_scorers.h"

#include "actors/experience/answers/python_scorer.h"
#include "actors/experience/answers/reply_scorer.h"
#include "actors/experience/answers/reward_scorer.h"
#include "actors/experience/answers/task_scorer.h"
#include "tasks/python_task.h"

namespace troupe {
namespace {

using Scorers = std::vector<std::shared_ptr<Scorer>>;

// What replies to answers, where the scorer of the task's verifier does not.
std::shared_ptr<Scorer> make_replies(const RunSpec& run) {
  const TaskConfig& task = run.config.task;
  if (!task.reply.empty()) return std::make_shared<PythonScorer>(reply_target(task), /*turns=*/true);
  if (!is_python_task(task)) return std::make_shared<TaskScorer>(run.tokens);
  TaskConfig own = task;
  own.verifier = task.name;
  return std::make_shared<PythonScorer>(verifier_target(own), /*turns=*/true);
}

Scorers make_task_scorers(const RunSpec& run) {
  if (run.make_task_scorers) return run.make_task_scorers();
  const TaskConfig& task = run.config.task;
  const bool turns = task.turns > 1;
  Scorers scorers;
  if (task.verifier.empty()) scorers.push_back(std::make_shared<TaskScorer>(run.tokens));
  for (int64_t i = 0; i < task.verifier_processes && !task.verifier.empty(); ++i)
    scorers.push_back(std::make_shared<PythonScorer>(verifier_target(task), turns));
  const bool same = task.reply.empty() && (task.verifier.empty() || task.verifier == task.name);
  if (!turns || same) return scorers;
  for (std::shared_ptr<Scorer>& scorer : scorers) scorer = std::make_shared<ReplyScorer>(scorer, make_replies(run));
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
