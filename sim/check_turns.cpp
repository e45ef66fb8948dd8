// The checks of requests for later turns of answers, when they arrive at an inference actor.

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "actors/experience/answers/conversation.h"
#include "sim/fakes.h"

namespace troupe::sim {

namespace {

// Whether an answer of this group, with this key, may be followed by its turn number `turn` after this history.
bool took_place(const World& world, const AskedGroup& asked, uint64_t key, size_t turn,
                std::span<const int32_t> history) {
  const std::string prompt = text_of(asked.prompt);
  std::vector<Turn> turns;
  for (size_t i = 0; i < turn; ++i) {
    const uint64_t own = turn_key(key, i);
    bool found = false;
    for (const uint64_t generator : world.tokens.generators_of(own)) {
      const GeneratedAnswer drawn = world.tokens.answer(generator, own, world.scenario.config.generation.max_tokens);
      if (drawn.ambiguous) return true;
      if (!drawn.complete || drawn.tokens.size() > history.size() ||
          !std::ranges::equal(drawn.tokens, history.first(drawn.tokens.size())))
        continue;
      history = history.subspan(drawn.tokens.size());
      turns.push_back({text_of(drawn.tokens)});
      found = true;
      break;
    }
    const auto message = found ? message_after(prompt, turns) : std::nullopt;
    const std::vector<int32_t> ids = message ? ids_of(*message) : std::vector<int32_t>();
    if (!message || ids.size() > history.size() || !std::ranges::equal(ids, history.first(ids.size()))) return false;
    turns.back().message = *message;
    history = history.subspan(ids.size());
  }
  return history.empty();
}

// The number of the turn with this key, and its answer's first key; nothing if there is none in the group.
std::optional<std::pair<uint64_t, size_t>> find_turn(const World& world, const AskedGroup& asked, uint64_t key) {
  for (const uint64_t first : asked.keys)
    for (size_t turn = 1; turn < static_cast<size_t>(world.scenario.config.task.turns); ++turn)
      if (turn_key(first, turn) == key) return std::pair(first, turn);
  return std::nullopt;
}

// The group of a worker with one of these keys in a later turn.
std::shared_ptr<const AskedGroup> group_of_turn(const World& world, const InferenceRequest& request) {
  const auto key = static_cast<uint64_t>(request.answers().keys.view<int64_t>()[0]);
  for (const auto& [first, asked] : world.tokens.asked)
    if (asked->worker == request.worker && asked->keys.front() == first && find_turn(world, *asked, key)) return asked;
  return nullptr;
}

}  // namespace

void note_turn(World& world, const InferenceRequest& request) {
  const AnswerRequest& answers = request.answers();
  const std::shared_ptr<const AskedGroup> asked = group_of_turn(world, request);
  if (!asked || !std::ranges::equal(answers.prompt.view<int32_t>(), asked->prompt))
    return world.violate("a turn is asked for that continues no answer of its worker");
  const auto keys = answers.keys.view<int64_t>(), offsets = answers.history_offsets.view<int64_t>();
  const auto all = answers.history.view<int32_t>();
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto key = static_cast<uint64_t>(keys[i]);
    const auto turn = find_turn(world, *asked, key);
    const auto history = all.subspan(static_cast<size_t>(offsets[i]), static_cast<size_t>(offsets[i + 1] - offsets[i]));
    if (!turn || !took_place(world, *asked, turn->first, turn->second, history))
      return world.violate("a turn continues a conversation that did not take place");
    world.tokens.asked[key] = asked;
    world.tokens.first_key[key] = turn->first;
    world.tokens.histories[key].assign(history.begin(), history.end());
    ++world.tokens.turns;
  }
}

}  // namespace troupe::sim
