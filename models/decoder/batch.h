#pragma once
// LmBatch: the tokens of one forward pass, packed without padding, and what each of them attends to. Views: the caller
// owns the arrays. Any thread.

#include <cstdint>
#include <span>
#include <vector>

#include "models/decoder/lm_shape.h"

namespace troupe {

// Tokens that follow each other in the batch. Token i of a sequence has cell own_begin + own_before + i, position
// prefix_size() + own_before + i, and attends to the cells of the prefix, then to its own range up to itself. A prefix
// that several sequences share, such as the prompt of a group of answers, is computed once: its cells were written in
// an earlier pass, or belong to a sequence of this batch.
struct LmSequence {
  int64_t tokens = 0;                        // at least 1
  int64_t prefix_begin = 0, prefix_end = 0;  // cells; empty = no prefix
  int64_t own_begin = 0;                     // cell
  int64_t own_before = 0;                    // tokens of the own range that are in its cells already

  int64_t prefix_size() const { return prefix_end - prefix_begin; }
  int64_t first_cell() const { return own_begin + own_before; }
  // Cells that token i attends to.
  int64_t keys_of(int64_t i) const { return prefix_size() + own_before + i + 1; }
};

// The id of a token whose input vector is given.
inline constexpr int32_t kGivenInput = -1;

struct LmBatch {
  std::span<const int32_t> ids;           // [P]
  std::span<const LmSequence> sequences;  // their tokens together are P
  std::span<const float> given = {};      // [tokens with id kGivenInput, hidden] their input vectors, in order

  int64_t tokens() const { return static_cast<int64_t>(ids.size()); }
};

// Where a token is.
struct TokenPlace {
  int64_t position;  // cells that it attends to, less 1
  int64_t cell;
};

// The place of every token of the batch, [P].
std::vector<TokenPlace> token_places(const LmBatch& batch);

// Throws InvariantError unless every id is in the vocabulary or its input is given, the sequences hold the tokens, and
// every cell is below `cells`. Returns the largest position + 1.
int64_t check_batch(const LmBatch& batch, const LmShape& shape, int64_t cells);

}  // namespace troupe
