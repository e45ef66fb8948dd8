#include "sim/fake_reference.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "runtime/base/rng.h"
#include "sim/fakes.h"

namespace troupe::sim {

namespace {

// The log-probability of each token of an answer.
std::vector<float> reference_of(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  uint64_t hash = prompt.size();
  for (const int32_t id : prompt) hash = mix(hash, static_cast<uint64_t>(id));
  std::vector<float> result;
  for (const int32_t id : answer) {
    hash = mix(hash, static_cast<uint64_t>(id));
    result.push_back(-static_cast<float>((hash >> 40) + 1) / static_cast<float>(1 << 20));
  }
  return result;
}

std::span<const int32_t> answer_of(std::span<const int32_t> tokens, std::span<const int64_t> offsets, size_t index) {
  return tokens.subspan(static_cast<size_t>(offsets[index]), static_cast<size_t>(offsets[index + 1] - offsets[index]));
}

class FakeReference final : public ReferenceModel {
 public:
  explicit FakeReference(World& world) : world_(world) {}

  void load(const WeightSnapshot& weights) override {
    if (!evaluates() && world_.fault(world_.scenario.load_fails)) throw std::runtime_error("no memory for the weights");
    check_reference_weights(world_, weights);
    loaded_ = true;
  }

  std::vector<float> log_probs(std::span<const PromptAnswers> prompts) override {
    if (!loaded_) world_.violate("a reference computes without weights");
    if (!evaluates()) check_batch(prompts);
    if (!evaluates()) world_.trouble_forward();
    std::vector<float> result;
    for (const PromptAnswers& asked : prompts)
      for (size_t a = 0; a + 1 < asked.offsets.size(); ++a)
        std::ranges::copy(reference_of(asked.prompt, answer_of(asked.tokens, asked.offsets, a)),
                          std::back_inserter(result));
    return result;
  }

 private:
  bool evaluates() const { return world_.running_kind == "evaluation"; }

  void check_batch(std::span<const PromptAnswers> prompts) {
    const RunConfig& config = world_.scenario.config;
    const auto group = static_cast<size_t>(answers_asked(config));
    size_t tokens = 0;
    for (const PromptAnswers& asked : prompts) {
      tokens += asked.prompt.size() + asked.tokens.size();
      if (asked.offsets.size() != group + 1)
        world_.violate("a scorer computes " + std::to_string(asked.offsets.size()) +
                       " offsets of the answers to a prompt, expected " + std::to_string(group + 1));
    }
    if (prompts.size() < 2) return;
    ++world_.tokens.shared_scorings;
    if (tokens > static_cast<size_t>(config.scorers.batch_tokens))
      world_.violate("a scorer computes " + std::to_string(tokens) + " tokens at a time, expected at most " +
                     std::to_string(config.scorers.batch_tokens));
  }

  World& world_;
  bool loaded_ = false;
};

// Whether these are the answers of a generator. Unknown if one was asked for twice.
bool may_hold(const World& world, const ScoringRequest& request, const AskedGroup& asked, uint64_t generator) {
  if (request.count() != static_cast<int64_t>(asked.keys.size())) return false;
  for (size_t a = 0; a < asked.keys.size(); ++a) {
    const GeneratedAnswer drawn =
        world.tokens.answer(generator, asked.keys[a], world.scenario.config.generation.max_tokens);
    if (drawn.ambiguous) return true;
    const auto scored = answer_of(request.tokens.view<int32_t>(), request.offsets.view<int64_t>(), a);
    if (!drawn.complete || !std::ranges::equal(scored, drawn.tokens)) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<ReferenceModel> fake_reference(World& world) { return std::make_unique<FakeReference>(world); }

void check_scoring_request(World& world, uint64_t worker, const ScoringRequest& request) {
  for (const auto& [key, asked] : world.tokens.asked) {
    if (asked->worker != worker || asked->keys.front() != key ||
        !std::ranges::equal(request.prompt.view<int32_t>(), asked->prompt))
      continue;
    for (const uint64_t generator : world.tokens.generators_of(key))
      if (may_hold(world, request, *asked, generator)) return;
  }
  world.violate("a scorer is asked for answers that were not drawn for worker " + std::to_string(worker));
}

void check_reference(World& world, const Answers& a, const std::string& who) {
  const int64_t count = world.scenario.config.reference.by_scorers() ? a.sampled.tokens.size() : 0;
  if (a.reference.size() != count)
    return world.violate(who + " has " + std::to_string(a.reference.size()) +
                         " log-probabilities of the reference, expected " + std::to_string(count));
  if (count == 0) return;
  const auto all = a.reference.view<float>();
  const auto offsets = a.sampled.offsets.view<int64_t>();
  for (size_t i = 0; i < static_cast<size_t>(a.count()); ++i) {
    const auto expected =
        reference_of(a.prompts.view<int32_t>(), answer_of(a.sampled.tokens.view<int32_t>(), offsets, i));
    if (!std::ranges::equal(expected, all.subspan(static_cast<size_t>(offsets[i]), expected.size())))
      return world.violate(who + ", answer " + std::to_string(i) +
                           " does not have the log-probabilities of the reference");
  }
}

}  // namespace troupe::sim
