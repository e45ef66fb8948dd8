#include "actors/config/reward_model_config.h"

namespace troupe {
namespace {

constexpr Need kWithModel = {.condition = is_given("reward_model.path"),
                             .instead = "set reward_model.path to the folder of a reward model"};

}  // namespace

void describe(RewardModelConfig& c, Fields& fields) {
  const Section s(fields, "reward_model", "actors", Change::never, {kOnlyTokenRuns});
  s.add(c.path, "path", anything(),
        "folder of a model that scores answers, in the layout of transformers: sequence classification with "
        "one label, the tokenizer of the policy; the reward is its score times reward_model.weight plus that of the "
        "task times task.weight; empty = none",
        {.elsewhere = kWords<"reward_model_path", "reward_pretrain">});
  s.add(c.weight, "weight", between(-1e6, 1e6), "weight of its score in the reward; 0 = it is only reported",
        {.needs = {kWithModel}});
  s.add(c.threads, "threads", between(1, 1024), "CPU threads that compute scores in each process",
        {.change = Change::at_resume, .needs = {kWithModel}});
  s.add(c.computed_by, "computed_by", one_of(kWords<"workers", "scorers">),
        "workers: in each process of workers; scorers: by scorers.count actors and by processes of troupe scorer",
        {.needs = {kWithModel}});
}

}  // namespace troupe
