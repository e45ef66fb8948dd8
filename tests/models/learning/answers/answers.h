#pragma once
// Random answers for tests.

#include <cstdint>
#include <memory>
#include <vector>

#include "models/experience/rollout.h"
#include "runtime/base/rng.h"

namespace troupe::test {

template <class T>
Array array_of(const std::vector<T>& values) {
  return Array::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
}

// `groups` prompts of 1 to 6 tokens, each with 1 to 4 answers of 1 to 5 tokens, with ids below `vocabulary`.
inline std::shared_ptr<Rollout> random_answers(int64_t groups, int64_t vocabulary, uint64_t seed) {
  Rng rng(derive_key(seed, "answers"));
  const auto up_to = [&](uint64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const auto id = [&] { return static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary))); };
  std::vector<int32_t> prompts, tokens, group;
  std::vector<int64_t> prompt_offsets{0}, offsets{0}, version;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> right, finish;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = up_to(6); i-- > 0;) prompts.push_back(id());
    prompt_offsets.push_back(static_cast<int64_t>(prompts.size()));
    for (int64_t a = up_to(4); a-- > 0;) {
      for (int64_t i = up_to(5); i-- > 0;) {
        tokens.push_back(id());
        log_probs.push_back(-3 * rng.uniform());
        version.push_back(up_to(9));
      }
      offsets.push_back(static_cast<int64_t>(tokens.size()));
      group.push_back(static_cast<int32_t>(g));
      right.push_back(static_cast<uint8_t>(rng.below(2)));
      rewards.push_back(right.back());
      finish.push_back(static_cast<uint8_t>(rng.below(2)));
    }
  }
  auto rollout = std::make_shared<Rollout>();
  rollout->body = Answers{.prompts = array_of(prompts),
                          .prompt_offsets = array_of(prompt_offsets),
                          .sampled = {.tokens = array_of(tokens),
                                      .offsets = array_of(offsets),
                                      .log_probs = array_of(log_probs),
                                      .version = array_of(version),
                                      .finish = array_of(finish)},
                          .group = array_of(group),
                          .rewards = array_of(rewards),
                          .right = array_of(right)};
  return rollout;
}

// All groups of the rollout.
inline SuperBatch whole(const RolloutPtr& rollout) {
  SuperBatch batch;
  RolloutUnits units{rollout, {}, UnitKind::group};
  for (int64_t g = 0; g < rollout->answers().groups(); ++g) units.indices.push_back(static_cast<int32_t>(g));
  batch.parts.push_back(std::move(units));
  return batch;
}

}  // namespace troupe::test
