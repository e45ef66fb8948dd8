#include "actors/config/evaluation_config.h"

#include "models/devices.h"

namespace troupe {

void describe(EvaluationConfig& c, Fields& fields) {
  const Section s(fields, "evaluation", "actors", Change::at_resume);
  s.add(c.every_updates, "every_updates", between(0, kMostCount),
        "updates between evaluations during training; 0 = only one, at the end of the run",
        {.elsewhere = kWords<"eval_freq">});
  s.add(c.episodes, "episodes", between(1, 1e6), "episodes (token runs: held-out prompts) of one evaluation",
        {.elsewhere = kWords<"n_eval_episodes">});
  s.add(c.answers, "answers", between(1, 1024),
        "answers to each prompt, for pass@k up to this k; above 1 only with evaluation.temperature above 0",
        {.elsewhere = kWords<"num_generations_eval">, .needs = {kOnlyTokenRuns}});
  s.add(c.temperature, "temperature", between(0, 100),
        "temperature at which evaluations sample; 0 = the most likely answer", {.needs = {kOnlyTokenRuns}});
  s.add(c.rows, "rows", between(1, 65536), "sub-environments stepped together", {.needs = {kOnlyControlRuns}});
  s.add(
      c.timeout, "timeout_ms", between(0, 86'400'000),
      "an evaluation in which no episode ends for this long ends with the episodes that it has, troupe eval included; "
      "0 = never; in a deterministic run 1,000 steps count as a second");
  s.add(c.device, "device", device_name_or_auto(),
        "device that evaluations compute on, troupe eval and troupe play included; auto = trainer.device; in a process "
        "that does not have that device, its first GPU, or the CPU if it has none");
  s.add_object(c.env_params, "env_params",
               "environment parameters for evaluations; those given here replace the ones of env.params",
               {.needs = {kOnlyControlRuns}});
}

}  // namespace troupe
