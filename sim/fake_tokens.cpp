#include "sim/fake_tokens.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "actors/experience/answers/conversation.h"
#include "models/slot_versions.h"
#include "sim/fakes.h"
#include "text/char_tokenizer.h"

namespace troupe::sim {

namespace {

constexpr std::string_view kAlphabet = "abcdefgh";
constexpr size_t kMostPrompt = 6, kMostMessage = 3;

const std::shared_ptr<const CharTokenizer>& fake_tokenizer() {
  static const auto tokenizer = std::make_shared<const CharTokenizer>(kAlphabet);
  return tokenizer;
}

// A prompt is a few random characters.
class FakeTask final : public Task {
 public:
  explicit FakeTask(World& world) : world_(world) {}
  Prompt propose(Rng& rng) const override {
    Prompt prompt;
    for (uint64_t i = 2 + rng.below(kMostPrompt - 1); i-- > 0;) prompt.text += kAlphabet[rng.below(kAlphabet.size())];
    return prompt;
  }
  Score score(const Prompt& prompt, std::string_view answer) const override {
    if (world_.running_kind != "grader") return score_of(prompt.text, answer);
    if (world_.fault(world_.scenario.score_fails)) throw std::runtime_error("a score failed on purpose");
    return training_score(world_.scenario, prompt.text, answer);
  }
  bool replies() const override { return true; }
  std::optional<std::string> reply(const Prompt& prompt, std::span<const Turn> turns) const override {
    if (world_.running_kind == "grader" && world_.fault(world_.scenario.score_fails))
      throw std::runtime_error("a reply failed on purpose");
    return message_after(prompt.text, turns);
  }
  size_t max_message_length() const override { return kMostMessage; }
  std::string alphabet() const override { return std::string(kAlphabet); }
  size_t max_prompt_length() const override { return kMostPrompt; }
  size_t max_answer_length() const override { return 1; }

 private:
  bool is_right(const Prompt& prompt, std::string_view answer) const override {
    return score_of(prompt.text, answer).right;
  }
  World& world_;
};

// An answer has at least one character before its end. One of four answers is long.
int32_t token_of(uint64_t key, int64_t index, PolicyVersion version) {
  const uint64_t bits = mix(mix(key, static_cast<uint64_t>(index)), mix(version.epoch, version.number));
  if (index > 0 && bits % (key % 4 == 0 ? 30 : 3) == 0) return CharTokenizer::kEos;
  return CharTokenizer::kFirstCharacter + static_cast<int32_t>((bits >> 8) % kAlphabet.size());
}

class FakeGenerator final : public Generator {
 public:
  explicit FakeGenerator(World& world)
      : world_(world),
        number_(world.tokens.generators++),
        prompts_(static_cast<size_t>(world.scenario.config.generation.prompt_slots)),
        answers_(static_cast<size_t>(world.scenario.config.generation.answer_slots)),
        versions_(prompt_slots(), answer_slots()) {}

  std::shared_ptr<const Signature> signature() const override { return fake_signature(); }
  int64_t prompt_slots() const override { return static_cast<int64_t>(prompts_.size()); }
  int64_t answer_slots() const override { return static_cast<int64_t>(answers_.size()); }

  void load(const WeightSnapshot& weights) override {
    if (!evaluates() && world_.fault(world_.scenario.load_fails)) throw std::runtime_error("no memory for the weights");
    check_weights(world_, weights);
    version_ = weights.version;
  }

  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    if (evaluates()) world_.last_evaluated = version_;
    if (!evaluates()) world_.trouble_forward();
    std::set<std::pair<bool, size_t>> used;
    std::vector<DrawnToken> drawn;
    for (const GeneratorPart& part : parts) {
      const bool answers = part.answer >= 0;
      const size_t slot = answers ? slot_of(part) : static_cast<size_t>(part.prompt);
      if (!used.emplace(answers, slot).second) world_.violate("two parts of a step use the same slot");
      if (answers)
        continue_answer(part, slot);
      else
        continue_prompt(part);
      const CellVersions cells = versions_.note(part, version_);
      for (const TokenDraw& draw : part.draws) drawn.push_back(sample(part, draw, cells));
    }
    return drawn;
  }

 private:
  struct AnswerSlot {
    std::optional<uint64_t> key;  // known once a token is drawn
    std::vector<int32_t> tokens;
    size_t checked = 0;  // of them, as those of the answer with this key
  };

  // The key of the first turn.
  uint64_t first_key(uint64_t key) const {
    const auto found = world_.tokens.first_key.find(key);
    return found == world_.tokens.first_key.end() ? key : found->second;
  }
  // Whether the answer with this key is the greedy one of its group.
  bool is_baseline(const AskedGroup& group, uint64_t key) const {
    return needs_greedy_answer(world_.scenario.config) && group.keys.back() == first_key(key);
  }
  // What follows the prompt before the turn with this key.
  std::span<const int32_t> history(uint64_t key) const {
    const auto found = world_.tokens.histories.find(key);
    return found == world_.tokens.histories.end() ? std::span<const int32_t>() : found->second;
  }

  bool evaluates() const { return world_.running_kind == "evaluation"; }

  size_t slot_of(const GeneratorPart& part) const {
    const bool shared = world_.scenario.mutation == Mutation::slot_shared && !evaluates() && part.answer > 0;
    return static_cast<size_t>(shared ? part.answer - 1 : part.answer);
  }

  void continue_prompt(const GeneratorPart& part) {
    std::vector<int32_t>& slot = prompts_.at(static_cast<size_t>(part.prompt));
    if (part.before == 0) slot.clear();
    if (static_cast<int64_t>(slot.size()) != part.before)
      world_.violate("a prompt continues after " + std::to_string(part.before) + " tokens, but its slot holds " +
                     std::to_string(slot.size()));
    slot.insert(slot.end(), part.tokens.begin(), part.tokens.end());
  }

  void continue_answer(const GeneratorPart& part, size_t index) {
    AnswerSlot& slot = answers_.at(index);
    if (part.before == 0) slot = {};
    const std::optional<uint64_t> key = part.draws.empty() ? std::nullopt : std::optional(part.draws.front().key);
    if (!may_continue(slot, key) || static_cast<int64_t>(slot.tokens.size()) != part.before)
      return world_.violate("an answer continues in a slot that holds the keys and values of another one");
    slot.tokens.insert(slot.tokens.end(), part.tokens.begin(), part.tokens.end());
    if (world_.scenario.config.task.turns == 1) world_.tokens.computed_anew += part.tokens.size() - (key ? 1 : 0);
    if (part.prompt_tokens != static_cast<int64_t>(prompts_.at(static_cast<size_t>(part.prompt)).size()))
      world_.violate("an answer continues after a prompt of another length");
    if (!key) return;
    if (slot.key != key) slot.checked = 0;
    slot.key = key;
    for (; !evaluates() && slot.checked < slot.tokens.size(); ++slot.checked)
      if (!belongs(*key, static_cast<int64_t>(slot.checked), slot.tokens[slot.checked]))
        return world_.violate("an answer continues with a token that was not drawn for it");
  }

  // Whether the answer with this key may continue with what the slot holds: its own turn, or what an earlier turn of an
  // answer with the same tokens has left, which belongs() checks. The key is unknown where nothing is drawn.
  bool may_continue(const AnswerSlot& slot, const std::optional<uint64_t>& key) const {
    const bool later_turn = key && (evaluates() ? world_.scenario.config.task.turns > 1 : !history(*key).empty());
    return !key || !slot.key || later_turn || slot.key == key;
  }

  // Whether it is token `place` after the prompt.
  bool belongs(uint64_t key, int64_t place, int32_t token) const {
    const std::span<const int32_t> before = history(key);
    const auto count = static_cast<int64_t>(before.size());
    if (place < count) return before[static_cast<size_t>(place)] == token;
    return world_.tokens.was_drawn(number_, key, place - count, token);
  }

  // Unless they may be kept, the keys and values are those of the weights that draw.
  void check_cells(const TokenDraw& draw, const CellVersions& cells) const {
    if (world_.scenario.config.generation.on_new_weights == "keep" || cells.oldest == version_) return;
    world_.violate("token " + std::to_string(draw.index) + " of an answer is drawn by version " + version_.text() +
                   " from keys and values of version " + cells.oldest.text());
  }

  DrawnToken sample(const GeneratorPart& part, const TokenDraw& draw, const CellVersions& cells) {
    const auto asked = world_.tokens.asked.find(draw.key);
    const bool baseline = !evaluates() && asked != world_.tokens.asked.end() && is_baseline(*asked->second, draw.key);
    if (draw.greedy != (evaluates() || baseline))
      world_.violate("the kind of token requested is not the one that its client needs");
    const auto before = static_cast<int64_t>(history(draw.key).size());
    const int64_t expected = part.answer < 0 ? 0 : part.before + static_cast<int64_t>(part.tokens.size()) - before;
    const bool unknown = evaluates() && world_.scenario.config.task.turns > 1;
    if (draw.index != expected && !unknown) world_.violate("a token is drawn for another place of its answer");
    const int32_t token = token_of(draw.key, draw.index, version_);
    if (evaluates()) return {token, -1.0f, cells};
    check_cells(draw, cells);
    if (asked == world_.tokens.asked.end() || asked->second->prompt != prompts_.at(static_cast<size_t>(part.prompt)))
      world_.violate("an answer is drawn after the keys and values of another prompt");
    const size_t number = world_.tokens.drawn.size();
    world_.tokens.drawn.push_back({draw.key, draw.index, version_, token, number_});
    world_.tokens.by_key[draw.key].push_back(number);
    return {token, -static_cast<float>(number), cells};
  }

  World& world_;
  uint64_t number_;
  PolicyVersion version_;
  std::vector<std::vector<int32_t>> prompts_;  // what each slot holds
  std::vector<AnswerSlot> answers_;
  SlotVersions versions_;
};

}  // namespace

DrawnRecord* TokenWorld::find(float log_prob) {
  const auto number = static_cast<int64_t>(-log_prob);
  if (number <= 0 || number >= static_cast<int64_t>(drawn.size())) return nullptr;
  return &drawn[static_cast<size_t>(number)];
}

bool TokenWorld::was_drawn(uint64_t generator, uint64_t key, int64_t index, int32_t token) const {
  const auto it = by_key.find(key);
  return it != by_key.end() && std::ranges::any_of(it->second, [&](size_t number) {
           const DrawnRecord& record = drawn[number];
           return record.generator == generator && record.index == index && record.token == token;
         });
}

std::set<uint64_t> TokenWorld::generators_of(uint64_t key) const {
  std::set<uint64_t> result;
  if (const auto it = by_key.find(key); it != by_key.end())
    for (const size_t number : it->second) result.insert(drawn[number].generator);
  return result;
}

GeneratedAnswer TokenWorld::answer(uint64_t generator, uint64_t key, int64_t most_tokens) const {
  GeneratedAnswer result;
  const auto it = by_key.find(key);
  if (it == by_key.end()) return result;
  for (const size_t number : it->second) {
    const DrawnRecord& record = drawn[number];
    if (record.generator != generator) continue;
    const auto index = static_cast<size_t>(record.index);
    if (index == result.tokens.size())
      result.tokens.push_back(record.token);
    else
      result.ambiguous |= index > result.tokens.size() || result.tokens[index] != record.token;
  }
  result.complete = !result.tokens.empty() && (result.tokens.back() == CharTokenizer::kEos ||
                                               static_cast<int64_t>(result.tokens.size()) == most_tokens);
  return result;
}

GeneratedAnswer TokenWorld::answer(uint64_t key, int64_t most_tokens) const {
  GeneratedAnswer result;
  for (const uint64_t generator : generators_of(key)) {
    const GeneratedAnswer own = answer(generator, key, most_tokens);
    result.ambiguous |= own.ambiguous || (own.complete && result.complete && own.tokens != result.tokens);
    if (own.complete) result.tokens = own.tokens, result.complete = true;
  }
  return result;
}

std::optional<std::string> message_after(std::string_view prompt, std::span<const Turn> turns) {
  uint64_t hash = derive_key(9, prompt);
  for (const Turn& turn : turns) hash = derive_key(hash, turn.answer);
  if (hash % 3 == 0) return std::nullopt;
  std::string message;
  for (size_t i = 0; i <= hash / 3 % kMostMessage; ++i) message += kAlphabet[mix(hash, i) % kAlphabet.size()];
  return message;
}

GeneratedTurns turns_of(const World& world, const AskedGroup& asked, uint64_t key, uint64_t generator) {
  const RunConfig& config = world.scenario.config;
  GeneratedTurns result;
  for (size_t turn = 0;; ++turn) {
    const GeneratedAnswer drawn = turn == 0 ? world.tokens.answer(generator, key, config.generation.max_tokens)
                                            : world.tokens.answer(turn_key(key, turn), config.generation.max_tokens);
    result.ambiguous |= drawn.ambiguous;
    if (!drawn.complete) return result;
    result.turns.push_back({text_of(drawn.tokens)});
    result.sampled.insert(result.sampled.end(), drawn.tokens.begin(), drawn.tokens.end());
    const auto message = message_after(text_of(asked.prompt), result.turns);
    result.complete = static_cast<int64_t>(turn) + 1 == config.task.turns || !message;
    if (result.complete) return result;
    result.turns.back().message = *message;
  }
}

std::vector<int32_t> ids_of(std::string_view text) { return fake_tokenizer()->encode(text); }

std::string text_of(std::span<const int32_t> ids) { return fake_tokenizer()->decode(ids, SpecialTokens::skip); }

std::shared_ptr<const TokenRun> fake_token_run(World& world) {
  auto run = std::make_shared<TokenRun>();
  run->task = std::make_shared<FakeTask>(world);
  run->data_hash = run->task->data_hash();
  run->tokenizer = fake_tokenizer();
  run->prompt_tokens = static_cast<int64_t>(kMostPrompt) + 1;
  run->answer_tokens = world.scenario.config.generation.max_tokens;
  run->turns = world.scenario.config.task.turns;
  run->message_text = run->message_tokens = static_cast<int64_t>(kMostMessage);
  run->end_tokens = {CharTokenizer::kEos};
  return run;
}

std::unique_ptr<Generator> fake_generator(World& world) { return std::make_unique<FakeGenerator>(world); }

}  // namespace troupe::sim
