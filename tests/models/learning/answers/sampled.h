#pragma once
// Answers that a generator samples, for tests.

#include <cstdint>
#include <vector>

#include "models/lm/lm_generator.h"
#include "tests/models/decoder/tiny_models.h"
#include "tests/models/learning/answers/answers.h"

namespace troupe::test {

// `count` answers of `tokens` tokens to a prompt, sampled one step after the other.
inline void sample(Generator& generator, const std::vector<int32_t>& prompt, int32_t prompt_slot,
                   std::vector<std::vector<int32_t>>& answers, std::vector<std::vector<float>>& log_probs,
                   int64_t tokens) {
  std::vector<TokenDraw> first;
  for (size_t a = 0; a < answers.size(); ++a) first.push_back({derive_key(5, "answer", a), 0, false});
  const GeneratorPart whole{.prompt = prompt_slot, .tokens = prompt, .draws = first};
  std::vector<DrawnToken> drawn = generator.compute({&whole, 1});
  for (int64_t step = 0;; ++step) {
    for (size_t a = 0; a < answers.size(); ++a) {
      answers[a].push_back(drawn[a].token);
      log_probs[a].push_back(drawn[a].log_prob);
    }
    if (step + 1 == tokens) return;
    std::vector<std::vector<TokenDraw>> draws;
    std::vector<GeneratorPart> parts;
    for (size_t a = 0; a < answers.size(); ++a) draws.push_back({{derive_key(5, "answer", a), step + 1, false}});
    for (size_t a = 0; a < answers.size(); ++a)
      parts.push_back({.prompt = prompt_slot,
                       .answer = static_cast<int32_t>(answers.size() - 1 - a),
                       .tokens = std::span(answers[a]).last(1),
                       .before = step,
                       .prompt_tokens = static_cast<int64_t>(prompt.size()),
                       .draws = draws[a]});
    drawn = generator.compute(parts);
  }
}

// `version`: of the policy that the generator has.
inline RolloutPtr sampled_rollout(const LmShape& shape, Generator& generator, int64_t prompts, int64_t version = 1) {
  std::vector<int32_t> ids, tokens, group;
  std::vector<int64_t> prompt_offsets{0}, offsets{0}, versions;
  std::vector<float> log_probs, rewards;
  std::vector<uint8_t> flags;
  for (int64_t g = 0; g < prompts; ++g) {
    const std::vector<int32_t> prompt = random_ids(shape, 3 + g, static_cast<uint64_t>(g));
    std::vector<std::vector<int32_t>> answers(3);
    std::vector<std::vector<float>> probs(3);
    sample(generator, prompt, static_cast<int32_t>(g % 2), answers, probs, 1 + 2 * g);
    ids.insert(ids.end(), prompt.begin(), prompt.end());
    prompt_offsets.push_back(static_cast<int64_t>(ids.size()));
    for (size_t a = 0; a < answers.size(); ++a) {
      tokens.insert(tokens.end(), answers[a].begin(), answers[a].end());
      log_probs.insert(log_probs.end(), probs[a].begin(), probs[a].end());
      versions.resize(tokens.size(), version);
      offsets.push_back(static_cast<int64_t>(tokens.size()));
      group.push_back(static_cast<int32_t>(g));
      rewards.push_back(static_cast<float>(a));
      flags.push_back(1);
    }
  }
  auto rollout = std::make_shared<Rollout>();
  rollout->body = Answers{.prompts = array_of(ids),
                          .prompt_offsets = array_of(prompt_offsets),
                          .sampled = {.tokens = array_of(tokens),
                                      .offsets = array_of(offsets),
                                      .log_probs = array_of(log_probs),
                                      .version = array_of(versions),
                                      .finish = array_of(flags)},
                          .group = array_of(group),
                          .rewards = array_of(rewards),
                          .right = array_of(flags)};
  return rollout;
}

inline LmGeneratorOptions slots(double temperature, int threads) {
  return {.prompt_slots = 2,
          .prompt_tokens = 11,
          .answer_slots = 3,
          .answer_tokens = 13,
          .temperature = temperature,
          .threads = threads};
}

}  // namespace troupe::test
