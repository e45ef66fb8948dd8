#pragma once
// How the answers of an update are divided: at random into minibatches, and each of these into micro-batches that one
// pass computes. A micro-batch has at most so many tokens, and those of a minibatch cost about the same. Pure
// functions; any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "models/decoder/lm_shape.h"
#include "models/learning/answers/answer_batch.h"
#include "models/learning/balance_figures.h"

namespace troupe {

// Groups of a batch in an order drawn from the stream `key`, in `parts` parts whose numbers of answers are as equal as
// whole groups allow. Some may be empty. `groups`: of those from the first to before the last number.
std::vector<std::vector<int64_t>> answer_minibatches(const AnswerBatch& batch, std::pair<int64_t, int64_t> groups,
                                                     int64_t parts, uint64_t key);
// Of all groups.
std::vector<std::vector<int64_t>> answer_minibatches(const AnswerBatch& batch, int64_t parts, uint64_t key);

// Multiplications that the forward pass of a decoder needs.
struct AnswerCost {
  double input = 1;  // of a token that passes through the layers
  double label = 0;  // of a token of an answer: the output layer
  double pair = 0;   // of a token and one that it attends to

  double of_prompt(int64_t tokens) const;
  double of_answer(int64_t tokens, int64_t prompt_tokens) const;
};
AnswerCost answer_cost(const LmShape& shape);

// Answers of a batch by their index, ascending. A pass computes the prompt of answers that follow each other once.
using MicroBatch = std::vector<int64_t>;

struct AnswerCut {
  int64_t most_tokens = 0;  // of a micro-batch, each prompt counted once; 0 = no limit
  int64_t shards = 1;       // each with the same number of micro-batches
  AnswerCost cost = {};
};

// The micro-batches of each shard, the most costly one first. None has more than most_tokens, unless it is a single
// answer. A group is only divided where it is too large, or where that saves micro-batches. With several shards the
// last ones of each may be empty. Without groups there are none.
std::vector<std::vector<MicroBatch>> cut_answers(const AnswerBatch& batch, std::span<const int64_t> groups,
                                                 const AnswerCut& cut);
// The same for all answers and one shard.
std::vector<MicroBatch> cut_answers(const AnswerBatch& batch, int64_t most_tokens, const AnswerCost& cost);

// Tokens of some answers with their prompts, each prompt counted once.
int64_t tokens_of(const AnswerBatch& batch, std::span<const int64_t> answers);

// Of these micro-batches, cut from these groups.
BalanceFigures balance_of(const AnswerBatch& batch, std::span<const int64_t> groups,
                          std::span<const MicroBatch> micro_batches);

}  // namespace troupe
