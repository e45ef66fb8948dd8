#include "models/learning/sequences.h"

#include "runtime/base/errors.h"

namespace troupe {

Sequences cut_sequences(const StagedSamples& batch, bool cut_is_end) {
  TROUPE_CHECK(!batch.rollouts.empty() || batch.count == 0, batch.count);
  const auto terminated = batch.terminated.view<uint8_t>(), truncated = batch.truncated.view<uint8_t>();
  const auto valid = batch.valid.view<uint8_t>();
  Sequences result;
  result.offsets = {0};
  const auto close = [&](bool complete) {
    if (result.offsets.back() == static_cast<int64_t>(result.samples.size())) return;
    result.offsets.push_back(static_cast<int64_t>(result.samples.size()));
    result.complete.push_back(complete);
  };
  for (const StagedRollout& rollout : batch.rollouts) {
    for (int64_t column = 0; column < rollout.columns; ++column) {
      for (int64_t t = 0; t < rollout.steps; ++t) {
        const int64_t sample = rollout.first_sample + t * rollout.columns + column;
        if (!valid[sample]) {
          close(false);
          continue;
        }
        result.samples.push_back(sample);
        if (terminated[sample] || truncated[sample]) close(terminated[sample] || cut_is_end);
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
    const auto samples = all.samples_of(i);
    result.samples.insert(result.samples.end(), samples.begin(), samples.end());
    result.offsets.push_back(static_cast<int64_t>(result.samples.size()));
    result.complete.push_back(1);
  }
  return result;
}

}  // namespace troupe
