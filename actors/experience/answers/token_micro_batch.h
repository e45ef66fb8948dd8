#pragma once
// The micro-batches of a token run. Pure function; any thread.

#include "actors/config/run_config.h"
#include "models/learning/answers/micro_batch_choice.h"

namespace troupe {

// From trainer.micro_batch_tokens and trainer.recompute, and where these leave it open from the sizes of the model and
// of the task. Reads the prompts and the tokenizer as shared_token_run() does.
MicroBatchChoice micro_batch_of(const RunConfig& config);

}  // namespace troupe
