#include "models/learning/sequences.h"

#include "runtime/base/errors.h"

namespace troupe {

Sequences cut_sequences(const StagedRows& batch, bool cut_is_end) {
  TROUPE_CHECK(!batch.segments.empty() || batch.rows == 0, batch.rows);
  const auto terminated = batch.terminated.view<uint8_t>(), truncated = batch.truncated.view<uint8_t>();
  const auto valid = batch.valid.view<uint8_t>();
  Sequences result;
  result.offsets = {0};
  const auto close = [&](bool complete) {
    if (result.offsets.back() == static_cast<int64_t>(result.rows.size())) return;
    result.offsets.push_back(static_cast<int64_t>(result.rows.size()));
    result.complete.push_back(complete);
  };
  for (const StagedSegment& segment : batch.segments) {
    for (int64_t column = 0; column < segment.columns; ++column) {
      for (int64_t t = 0; t < segment.steps; ++t) {
        const int64_t row = segment.first_row + t * segment.columns + column;
        if (!valid[row]) {
          close(false);
          continue;
        }
        result.rows.push_back(row);
        if (terminated[row] || truncated[row]) close(terminated[row] || cut_is_end);
      }
      close(false);
    }
  }
  return result;
}

Sequences complete_sequences(const Sequences& all) {
  Sequences result;
  result.offsets = {0};
  for (int64_t i = 0; i < all.count(); ++i) {
    if (!all.complete[i]) continue;
    const auto rows = all.rows_of(i);
    result.rows.insert(result.rows.end(), rows.begin(), rows.end());
    result.offsets.push_back(static_cast<int64_t>(result.rows.size()));
    result.complete.push_back(1);
  }
  return result;
}

}  // namespace troupe
