#include "actors/experience/answers/token_micro_batch.h"

#include "actors/experience/answers/shared_token_run.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/lm/lm_config.h"

namespace troupe {

MicroBatchChoice micro_batch_of(const RunConfig& config) {
  const std::shared_ptr<const TokenRun> run = shared_token_run(config);
  const int64_t longest = run->prompt_tokens + run->conversation_tokens();
  const bool whole = choose_algorithm(config.algorithm).surrogate.entry->needs == SurrogateNeeds::batch;
  return choose_micro_batch(lm_shape_of(config.model, run->tokenizer->vocabulary_size(), longest), config.trainer,
                            {.longest = longest, .whole_minibatch = whole});
}

}  // namespace troupe
