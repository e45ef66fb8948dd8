#include "models/decoder/batch.h"

#include <algorithm>

#include "runtime/base/errors.h"

namespace troupe {

std::vector<TokenPlace> token_places(const LmBatch& batch) {
  std::vector<TokenPlace> result;
  result.reserve(batch.ids.size());
  for (const LmSequence& s : batch.sequences)
    for (int64_t i = 0; i < s.tokens; ++i) result.push_back({s.keys_of(i) - 1, s.first_cell() + i});
  return result;
}

int64_t check_batch(const LmBatch& batch, const LmShape& shape, int64_t cells) {
  int64_t given = 0;
  for (const int32_t id : batch.ids) {
    given += id == kGivenInput;
    TROUPE_CHECK(id == kGivenInput || (id >= 0 && id < shape.vocabulary), "token id", id, "vocabulary",
                 shape.vocabulary);
  }
  TROUPE_CHECK(static_cast<int64_t>(batch.given.size()) == given * shape.hidden, "given", batch.given.size(), given);
  int64_t tokens = 0, positions = 0;
  for (const LmSequence& s : batch.sequences) {
    TROUPE_CHECK(s.tokens >= 1 && s.own_begin >= 0 && s.own_before >= 0, s.tokens, s.own_begin, s.own_before);
    TROUPE_CHECK(s.prefix_begin >= 0 && s.prefix_begin <= s.prefix_end && s.prefix_end <= cells, "prefix",
                 s.prefix_begin, s.prefix_end, "cells", cells);
    TROUPE_CHECK(s.first_cell() + s.tokens <= cells, "last cell", s.first_cell() + s.tokens, "cells", cells);
    tokens += s.tokens;
    positions = std::max(positions, s.keys_of(s.tokens - 1));
  }
  TROUPE_CHECK(tokens == batch.tokens(), "tokens of the sequences", tokens, "ids", batch.tokens());
  return positions;
}

}  // namespace troupe
