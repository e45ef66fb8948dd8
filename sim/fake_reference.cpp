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

// The log-probability of each token of an answer, with messages of these lengths before the tokens; `message` is the
// first token of these that is not read yet.
std::vector<float> reference_of(std::span<const int32_t> prompt, std::span<const int32_t> answer,
                                std::span<const int32_t> lengths, std::span<const int32_t>& message) {
  uint64_t hash = prompt.size();
  const auto read = [&](int32_t id) { hash = mix(hash, static_cast<uint64_t>(id)); };
  std::ranges::for_each(prompt, read);
  std::vector<float> result;
  for (size_t t = 0; t < answer.size(); ++t) {
    const auto before = lengths.empty() ? 0 : static_cast<size_t>(lengths[t]);
    std::ranges::for_each(message.first(before), read);
    message = message.subspan(before);
    read(answer[t]);
    result.push_back(-static_cast<float>((hash >> 40) + 1) / static_cast<float>(1 << 20));
  }
  return result;
}

// Those of all answers to a prompt.
std::vector<float> reference_of(const PromptAnswers& asked) {
  std::vector<float> result;
  std::span<const int32_t> message = asked.messages;
  for (size_t a = 0; a + 1 < asked.offsets.size(); ++a) {
    const auto begin = static_cast<size_t>(asked.offsets[a]), count = static_cast<size_t>(asked.offsets[a + 1]) - begin;
    const auto lengths =
        asked.message_lengths.empty() ? asked.message_lengths : asked.message_lengths.subspan(begin, count);
    std::ranges::copy(reference_of(asked.prompt, asked.tokens.subspan(begin, count), lengths, message),
                      std::back_inserter(result));
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
    for (const PromptAnswers& asked : prompts) std::ranges::copy(reference_of(asked), std::back_inserter(result));
    return result;
  }

 private:
  bool evaluates() const { return world_.running_kind == "evaluation"; }

  void check_batch(std::span<const PromptAnswers> prompts) {
    const RunConfig& config = world_.scenario.config;
    const auto group = static_cast<size_t>(answers_asked(config));
    size_t tokens = 0;
    for (const PromptAnswers& asked : prompts) {
      tokens += asked.prompt.size() + asked.tokens.size() + asked.messages.size();
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
    const GeneratedTurns drawn = turns_of(world, asked, asked.keys[a], generator);
    if (drawn.ambiguous) return true;
    const auto scored = answer_of(request.tokens.view<int32_t>(), request.offsets.view<int64_t>(), a);
    if (!drawn.complete || !std::ranges::equal(scored, drawn.sampled)) return false;
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
  const std::vector<float> expected =
      reference_of({a.prompts.view<int32_t>(), a.sampled.tokens.view<int32_t>(), a.sampled.offsets.view<int64_t>(),
                    a.messages.ids.view<int32_t>(), a.messages.lengths.view<int32_t>()});
  if (!std::ranges::equal(expected, a.reference.view<float>()))
    world.violate(who + " does not have the log-probabilities of the reference");
}

}  // namespace troupe::sim
