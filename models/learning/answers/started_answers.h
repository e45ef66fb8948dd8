#pragma once
// The answers of a shard with what the start of an update has computed of them, in a form that other ranks can be told.
// Every rank makes the targets of the answers of all shards from these: passes of the model take the time of an update,
// and what follows them costs next to nothing. Plain values and pure functions; any thread.

#include <span>
#include <vector>

#include "models/learning/answers/answer_batch.h"
#include "models/learning/answers/answer_targets.h"
#include "runtime/base/array.h"

namespace troupe {

struct StartedAnswers {
  AnswerBatch batch;
  AnswerStart start;
};

// [N] uint8
Array bytes_of(const AnswerBatch& batch, const AnswerStart& start);
// Throws InvariantError when these are no such bytes.
StartedAnswers started_answers(const Array& bytes);

// Of all shards, at least one, in their order. What one of them has of its tokens, all others have too.
AnswerStart joined_starts(std::span<const AnswerStart* const> shards);

}  // namespace troupe
