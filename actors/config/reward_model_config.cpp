#include "actors/config/reward_model_config.h"

namespace troupe {

void describe(RewardModelConfig& c, Fields& fields) {
  const Section s(fields, "reward_model", "actors");
  s.add(
      c.path, "path", anything(),
      "token runs: folder of a model that scores answers, in the layout of transformers: sequence classification with "
      "one label, the tokenizer of the policy; the reward is its score times reward_model.weight plus that of the "
      "task times task.weight; empty = none",
      {.elsewhere = kWords<"reward_model_path", "reward_pretrain">});
  s.add(c.weight, "weight", between(-1e6, 1e6), "weight of its score in the reward; 0 = it is only reported");
  s.add(c.threads, "threads", between(1, 1024), "CPU threads that compute scores in each process",
        {.change = Change::at_resume});
  s.add(c.computed_by, "computed_by", one_of(kWords<"workers", "scorers">),
        "workers: in each process of workers; scorers: by scorers.count actors and by processes of troupe scorer");
}

}  // namespace troupe
