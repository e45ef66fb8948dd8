#pragma once
// Whether the prompts and answers that a peer sent fit the run. Pure functions.

#include <cstddef>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/common/array_checks.h"
#include "actors/experience/common/run_spec.h"
#include "models/experience/answer_request.h"

namespace troupe {

// Of the body of a rollout, and of the numbers in its head that follow from the body.
Misfit answers_misfit(const RunSpec& run, const Rollout& rollout);
// No such rollout has more bytes on the wire.
size_t most_bytes_of_answers(const RunSpec& run);

Misfit misfit(const RunConfig& config, const TokenRun& tokens, const AnswerRequest& request);
Misfit misfit(const TokenRun& tokens, const AnswerRequest& request, const AnswerReply& reply);
Misfit misfit(const RunConfig& config, const TokenRun& tokens, const ScoringRequest& request);
Misfit misfit(const RunConfig& config, const ScoringRequest& request, const ScoringReply& reply);
// No request or reply of a worker, of either role, has more bytes on the wire.
size_t most_bytes_of_answer_request(const RunSpec& run);
size_t most_bytes_of_answer_reply(const RunSpec& run);

}  // namespace troupe
