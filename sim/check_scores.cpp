// The checks of the scores of answers, when they arrive at replay.

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "algorithms/choice/algorithm_choice.h"
#include "sim/fakes.h"

namespace troupe::sim {

namespace {

// The value that episode `index` has of a part of the returns; NaN if it has none.
float part_of(const Episodes& episodes, const std::string& name, size_t index) {
  const auto part = std::ranges::find(episodes.parts, name, &ReturnPart::name);
  return part == episodes.parts.end() ? std::nanf("") : part->values.view<float>()[index];
}

void check_parts(World& world, const Episodes& episodes, size_t index, const Score& score, const std::string& who) {
  for (const auto& [name, value] : score.parts)
    if (part_of(episodes, name, index) != static_cast<float>(value))
      return world.violate(who + " does not have the part \"" + name + "\" of its score");
  const auto present = std::ranges::count_if(
      episodes.parts, [&](const ReturnPart& part) { return !std::isnan(part.values.view<float>()[index]); });
  if (static_cast<size_t>(present) != score.parts.size())
    world.violate(who + " has " + std::to_string(present) + " parts of a score, expected " +
                  std::to_string(score.parts.size()));
}

// The texts of all answers to a prompt, as a generator has answered it.
struct AnsweredPrompt {
  std::string prompt;
  std::vector<std::string> answers;
  bool complete = true, ambiguous = false;
};

AnsweredPrompt answered_prompt(const World& world, const AskedGroup& asked, uint64_t generator) {
  AnsweredPrompt result{.prompt = text_of(asked.prompt), .answers = {}};
  for (const uint64_t key : asked.keys) {
    const GeneratedTurns answer = turns_of(world, asked, key, generator);
    result.complete &= answer.complete;
    result.ambiguous |= answer.ambiguous;
    result.answers.push_back(answer.turns.empty() ? "" : answer.turns.back().answer);
  }
  return result;
}

// What a rollout has of a prompt, and counts.
struct Outline {
  uint64_t samples = 0, unscored = 0, failed = 0, baselines = 0;
  std::optional<float> baseline = {};

  friend bool operator==(const Outline&, const Outline&) = default;
  std::string text() const {
    return std::to_string(samples) + " answers, " + std::to_string(unscored) + " without a score, " +
           std::to_string(failed) + " on which the verifier failed and " + std::to_string(baselines) + " baselines" +
           (baseline ? " of " + std::to_string(*baseline) : "");
  }
};

Outline outline_of(const Rollout& r) {
  Outline result{r.samples, r.unscored, r.verifier_failed, r.baselines, {}};
  if (r.baselines > 0) result.baseline = r.answers().baselines.view<float>()[0];
  return result;
}

Outline expected_outline(const World& world, const AnsweredPrompt& answered) {
  const RunConfig& config = world.scenario.config;
  const auto sampled = static_cast<uint64_t>(config.generation.answers), asked = answered.answers.size();
  Outline result;
  Score last;
  for (uint64_t i = 0; i < asked; ++i) {
    last = training_score(world.scenario, answered.prompt, answered.answers[i]);
    result.failed += last.scored == Scored::failed;
    result.samples += i < sampled && last.scored == Scored::yes;
  }
  const bool has_baseline = asked > sampled;
  if (has_baseline && last.scored != Scored::yes) result.samples = 0;
  if (has_baseline && last.scored == Scored::yes) {
    result.baselines = 1;
    result.baseline = static_cast<float>(last.reward);
  }
  const uint64_t fewest = needs_groups(choose_algorithm(config.algorithm)) ? 2 : 1;
  if (result.samples < std::min(fewest, sampled)) result.samples = 0;
  result.unscored = asked - result.samples - result.failed - result.baselines;
  return result;
}

// Whether the rollout is what the scores of these answers lead to. A verifier dies on all of them, or on none.
bool fits(const World& world, const Rollout& r, const AnsweredPrompt& answered) {
  const Outline outline = outline_of(r);
  if (outline == expected_outline(world, answered)) return true;
  return outline == Outline{.failed = answered.answers.size()} &&
         world.scores.lost.contains(group_key(answered.prompt, answered.answers));
}

}  // namespace

void check_scores(World& world, const Rollout& r, const std::string& who) {
  const Answers& a = r.answers();
  const std::string prompt = text_of(a.prompts.view<int32_t>());
  const auto tokens = a.sampled.tokens.view<int32_t>();
  const auto offsets = a.sampled.offsets.view<int64_t>();
  for (size_t i = 0; i < r.samples && !world.violation; ++i) {
    const auto begin = static_cast<size_t>(offsets[i]), end = static_cast<size_t>(offsets[i + 1]);
    size_t last_turn = begin;
    for (size_t t = begin; t < end && !a.messages.lengths.empty(); ++t)
      if (a.messages.lengths.view<int32_t>()[t] > 0) last_turn = t;
    const std::string answer = text_of(tokens.subspan(last_turn, end - last_turn));
    const std::string its = who + ", answer " + std::to_string(i);
    const Score score = training_score(world.scenario, prompt, answer);
    if (score.scored != Scored::yes) return world.violate(its + " has a reward, but no score");
    if (a.rewards.view<float>()[i] != static_cast<float>(score.reward) ||
        a.right.view<uint8_t>()[i] != static_cast<uint8_t>(score.right) ||
        r.episodes.returns.view<float>()[i] != a.rewards.view<float>()[i])
      return world.violate(its + " does not have the score that its task gives it");
    check_parts(world, r.episodes, i, score, its);
    if (DrawnRecord* record = world.tokens.find(a.sampled.log_probs.view<float>()[begin])) {
      record->reward = a.rewards.view<float>()[i];
      if (!a.baselines.empty()) record->baseline = a.baselines.view<float>()[0];
    }
  }
}

void check_missing(World& world, const Rollout& r, const AskedGroup& asked, uint64_t generator,
                   const std::string& who) {
  if (r.samples == asked.keys.size()) return;
  const AnsweredPrompt answered = answered_prompt(world, asked, generator);
  if (answered.ambiguous || fits(world, r, answered)) return;
  world.violate(who + " has " + outline_of(r).text() + "; its scores lead to " +
                expected_outline(world, answered).text());
}

void check_all_missing(World& world, const Rollout& r, const std::string& who) {
  if (!may_lack_scores(world.scenario)) return world.violate(who + " holds no answers");
  for (const auto& [key, asked] : world.tokens.asked) {
    if (asked->worker != r.worker || asked->keys.front() != key ||
        !std::ranges::equal(r.answers().prompts.view<int32_t>(), asked->prompt))
      continue;
    for (const uint64_t generator : world.tokens.generators_of(key)) {
      const AnsweredPrompt answered = answered_prompt(world, *asked, generator);
      if (answered.ambiguous || (answered.complete && fits(world, r, answered))) return;
    }
  }
  world.violate(who + " has " + outline_of(r).text() + ", which follows from no answers of its worker");
}

}  // namespace troupe::sim
