#include "sim/fake_tokens.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>

#include "sim/fakes.h"
#include "text/char_tokenizer.h"

namespace troupe::sim {

namespace {

constexpr std::string_view kAlphabet = "abcdefgh";
constexpr size_t kMostPrompt = 6;

bool is_right_answer(std::string_view prompt, std::string_view answer) {
  return derive_key(derive_key(0, prompt), answer) % 2 == 0;
}

bool failed_on(std::string_view prompt, std::string_view answer) {
  return derive_key(derive_key(1, prompt), answer) % 5 == 0;
}
bool left_out(std::string_view prompt, std::string_view answer) {
  return derive_key(derive_key(2, prompt), answer) % 5 == 0;
}

// A prompt is a few random characters; about half of all answers are right.
class FakeTask final : public Task {
 public:
  explicit FakeTask(World& world) : world_(world) {}
  Prompt propose(Rng& rng) const override {
    Prompt prompt;
    for (uint64_t i = 2 + rng.below(kMostPrompt - 1); i-- > 0;) prompt.text += kAlphabet[rng.below(kAlphabet.size())];
    return prompt;
  }
  Score score(const Prompt& prompt, std::string_view answer) const override {
    if (world_.running_kind == "scorer" && world_.scenario.unscored) {
      if (failed_on(prompt.text, answer)) return {.scored = Scored::failed, .problem = "failed on purpose"};
      if (left_out(prompt.text, answer)) return {.scored = Scored::none};
    }
    return Task::score(prompt, answer);
  }
  std::string alphabet() const override { return std::string(kAlphabet); }
  size_t max_prompt_length() const override { return kMostPrompt; }
  size_t max_answer_length() const override { return 1; }

 private:
  bool is_right(const Prompt& prompt, std::string_view answer) const override {
    if (world_.running_kind == "scorer" && world_.fault(world_.scenario.score_fails))
      throw std::runtime_error("a score failed on purpose");
    return is_right_answer(prompt.text, answer);
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
        answers_(static_cast<size_t>(world.scenario.config.generation.answer_slots)) {}

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
    if (!evaluates()) trouble();
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
      for (const TokenDraw& draw : part.draws) drawn.push_back(sample(part, draw));
    }
    return drawn;
  }

 private:
  struct AnswerSlot {
    uint64_t key = 0;
    std::vector<int32_t> tokens;
  };

  // Whether the answer with this key is the greedy one of its group.
  bool is_baseline(const AskedGroup& group, uint64_t key) const {
    return needs_greedy_answer(world_.scenario.config) && group.keys.back() == key;
  }

  bool evaluates() const { return world_.running_kind == "evaluation"; }

  void trouble() {
    if (world_.fault(world_.scenario.forward_slow)) world_.seconds_to_pass += world_.rng.uniform_double() * 3;
    if (world_.fault(world_.scenario.forward_fails)) throw std::runtime_error("a forward failed on purpose");
  }

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
    const uint64_t key = part.draws.front().key;
    if (part.before == 0) slot = {.key = key, .tokens = {}};
    if (slot.key != key || static_cast<int64_t>(slot.tokens.size()) != part.before)
      return world_.violate("an answer continues in a slot that holds the keys and values of another one");
    for (const int32_t token : part.tokens) {
      const auto drawn = drawn_.find({key, static_cast<int64_t>(slot.tokens.size())});
      if (!evaluates() && (drawn == drawn_.end() || !drawn->second.contains(token)))
        return world_.violate("an answer continues with a token that was not drawn for it");
      slot.tokens.push_back(token);
    }
    if (part.prompt_tokens != static_cast<int64_t>(prompts_.at(static_cast<size_t>(part.prompt)).size()))
      world_.violate("an answer continues after a prompt of another length");
  }

  DrawnToken sample(const GeneratorPart& part, const TokenDraw& draw) {
    const auto asked = world_.tokens.asked.find(draw.key);
    const bool baseline = !evaluates() && asked != world_.tokens.asked.end() && is_baseline(*asked->second, draw.key);
    if (draw.greedy != (evaluates() || baseline))
      world_.violate("the kind of token requested is not the one that its client needs");
    const int64_t expected = part.answer < 0 ? 0 : part.before + static_cast<int64_t>(part.tokens.size());
    if (draw.index != expected) world_.violate("a token is drawn for another place of its answer");
    const int32_t token = token_of(draw.key, draw.index, version_);
    if (evaluates()) return {token, -1.0f};
    if (asked == world_.tokens.asked.end() || asked->second->prompt != prompts_.at(static_cast<size_t>(part.prompt)))
      world_.violate("an answer is drawn after the keys and values of another prompt");
    const size_t number = world_.tokens.drawn.size();
    world_.tokens.drawn.push_back({draw.key, draw.index, version_, token, number_});
    drawn_[{draw.key, draw.index}].insert(token);
    return {token, -static_cast<float>(number)};
  }

  World& world_;
  uint64_t number_;
  PolicyVersion version_;
  std::vector<std::vector<int32_t>> prompts_;  // what each slot holds
  std::vector<AnswerSlot> answers_;
  // The tokens drawn for (key, index): several if a request comes over two connections, and the weights change between.
  std::map<std::pair<uint64_t, int64_t>, std::set<int32_t>> drawn_;
};

}  // namespace

DrawnRecord* TokenWorld::find(float log_prob) {
  const auto number = static_cast<int64_t>(-log_prob);
  if (number <= 0 || number >= static_cast<int64_t>(drawn.size())) return nullptr;
  return &drawn[static_cast<size_t>(number)];
}

bool is_right_answer(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  static const CharTokenizer tokenizer(kAlphabet);
  return is_right_answer(tokenizer.decode(prompt, SpecialTokens::skip), tokenizer.decode(answer, SpecialTokens::skip));
}

bool has_score(std::span<const int32_t> prompt, std::span<const int32_t> answer) {
  static const CharTokenizer tokenizer(kAlphabet);
  const std::string asked = tokenizer.decode(prompt, SpecialTokens::skip);
  const std::string answered = tokenizer.decode(answer, SpecialTokens::skip);
  return !failed_on(asked, answered) && !left_out(asked, answered);
}

std::shared_ptr<const TokenRun> fake_token_run(World& world) {
  auto run = std::make_shared<TokenRun>();
  run->task = std::make_shared<FakeTask>(world);
  run->data_hash = run->task->data_hash();
  run->tokenizer = std::make_shared<CharTokenizer>(kAlphabet);
  run->prompt_tokens = static_cast<int64_t>(kMostPrompt) + 1;
  run->answer_tokens = world.scenario.config.generation.max_tokens;
  run->end_tokens = {CharTokenizer::kEos};
  return run;
}

std::unique_ptr<Generator> fake_generator(World& world) { return std::make_unique<FakeGenerator>(world); }

}  // namespace troupe::sim
