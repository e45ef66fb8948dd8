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

// The parts of answers that every rollout has, as lists that grow.
struct AnswerLists {
  std::vector<int32_t> prompts, tokens, group;
  std::vector<int64_t> prompt_offsets{0}, offsets{0}, version;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> finish, right;

  // What was added to `prompts` is one prompt.
  void end_prompt() { prompt_offsets.push_back(static_cast<int64_t>(prompts.size())); }
  void add_token(int32_t id, float log_prob, int64_t of_version) {
    tokens.push_back(id);
    log_probs.push_back(log_prob);
    version.push_back(of_version);
  }
  // What was added to `tokens` is one answer to the last prompt.
  void end_answer(float reward, bool is_right, bool is_finished) {
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    group.push_back(static_cast<int32_t>(prompt_offsets.size()) - 2);
    rewards.push_back(reward);
    right.push_back(is_right ? 1 : 0);
    finish.push_back(is_finished ? 1 : 0);
  }
  Answers answers() const {
    return {.prompts = array_of(prompts),
            .prompt_offsets = array_of(prompt_offsets),
            .sampled = {.tokens = array_of(tokens),
                        .offsets = array_of(offsets),
                        .log_probs = array_of(log_probs),
                        .version = array_of(version),
                        .finish = array_of(finish)},
            .group = array_of(group),
            .rewards = array_of(rewards),
            .right = array_of(right)};
  }
};

// `groups` prompts of 1 to 6 tokens, each with 1 to 4 answers of 1 to 5 tokens, with ids below `vocabulary`.
inline std::shared_ptr<Rollout> random_answers(int64_t groups, int64_t vocabulary, uint64_t seed) {
  Rng rng(derive_key(seed, "answers"));
  const auto up_to = [&](uint64_t most) { return 1 + static_cast<int64_t>(rng.below(most)); };
  const auto id = [&] { return static_cast<int32_t>(rng.below(static_cast<uint64_t>(vocabulary))); };
  AnswerLists lists;
  for (int64_t g = 0; g < groups; ++g) {
    for (int64_t i = up_to(6); i-- > 0;) lists.prompts.push_back(id());
    lists.end_prompt();
    for (int64_t a = up_to(4); a-- > 0;) {
      for (int64_t i = up_to(5); i-- > 0;) {
        const int32_t token = id();
        const float log_prob = -3 * rng.uniform();
        lists.add_token(token, log_prob, up_to(9));
      }
      const bool right = rng.below(2) == 1;
      const bool finished = rng.below(2) == 1;
      lists.end_answer(right ? 1 : 0, right, finished);
    }
  }
  auto rollout = std::make_shared<Rollout>();
  rollout->body = lists.answers();
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
