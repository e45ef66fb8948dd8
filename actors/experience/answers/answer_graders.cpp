#include "actors/experience/answers/answer_graders.h"

#include "actors/experience/answers/python_grader.h"
#include "actors/experience/answers/reply_grader.h"
#include "actors/experience/answers/reward_grader.h"
#include "actors/experience/answers/task_grader.h"
#include "tasks/python_task.h"

namespace troupe {
namespace {

using Graders = std::vector<std::shared_ptr<Grader>>;

// What replies to answers, where the grader of the task's verifier does not.
std::shared_ptr<Grader> make_replies(const RunSpec& run) {
  const TaskConfig& task = run.config.task;
  if (!task.reply.empty()) return std::make_shared<PythonGrader>(reply_target(task), /*turns=*/true, run.tokens);
  if (!is_python_task(task)) return std::make_shared<TaskGrader>(run.tokens);
  TaskConfig own = task;
  own.verifier = task.name;
  return std::make_shared<PythonGrader>(verifier_target(own), /*turns=*/true, run.tokens);
}

Graders make_task_graders(const RunSpec& run) {
  if (run.make_task_graders) return run.make_task_graders();
  const TaskConfig& task = run.config.task;
  const bool turns = task.turns > 1;
  Graders graders;
  if (task.verifier.empty()) graders.push_back(std::make_shared<TaskGrader>(run.tokens));
  for (int64_t i = 0; i < task.verifier_processes && !task.verifier.empty(); ++i)
    graders.push_back(std::make_shared<PythonGrader>(verifier_target(task), turns, run.tokens));
  const bool same = task.reply.empty() && (task.verifier.empty() || task.verifier == task.name);
  if (!turns || same) return graders;
  for (std::shared_ptr<Grader>& grader : graders) grader = std::make_shared<ReplyGrader>(grader, make_replies(run));
  return graders;
}

}  // namespace

Graders make_answer_graders(const RunSpec& run) {
  Graders graders = make_task_graders(run);
  if (!run.reward_model) return graders;
  for (std::shared_ptr<Grader>& grader : graders)
    grader = std::make_shared<RewardGrader>(run.config, run.tokens, grader, run.reward_model);
  return graders;
}

Graders make_worker_graders(const RunSpec& run) {
  return run.config.reward_model.by_scorers() ? make_task_graders(run) : make_answer_graders(run);
}

}  // namespace troupe
