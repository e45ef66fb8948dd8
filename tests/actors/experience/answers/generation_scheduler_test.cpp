#include "actors/experience/answers/generation_scheduler.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr int32_t kEnd = 0;

// The token at `index` of the answer with this key to this prompt, and the length of such an answer.
int32_t token_of(const std::vector<int32_t>& prompt, uint64_t key, int64_t index) {
  const auto length = static_cast<int64_t>(2 + mix(key, static_cast<uint64_t>(prompt.front())) % 9);
  return index + 1 >= length ? kEnd : static_cast<int32_t>(1 + mix(key, static_cast<uint64_t>(index)) % 50);
}

// Remembers what its slots hold, and checks that a part continues it.
class FakeGenerator final : public Generator {
 public:
  FakeGenerator(int64_t prompts, int64_t answers)
      : prompts_(static_cast<size_t>(prompts)), answers_(static_cast<size_t>(answers)) {}

  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot&) override {}
  int64_t prompt_slots() const override { return static_cast<int64_t>(prompts_.size()); }
  int64_t answer_slots() const override { return static_cast<int64_t>(answers_.size()); }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    ++steps;
    if (fail_next) {
      fail_next = false;
      throw std::runtime_error("planned");
    }
    std::set<std::pair<int32_t, int32_t>> used;
    std::vector<DrawnToken> drawn;
    prompt_tokens = 0;
    for (const GeneratorPart& part : parts) {
      REQUIRE(used.insert({part.answer < 0 ? part.prompt : -1, part.answer}).second);
      std::vector<int32_t>& prompt = prompts_.at(static_cast<size_t>(part.prompt));
      std::vector<int32_t>& slot = part.answer < 0 ? prompt : answers_.at(static_cast<size_t>(part.answer));
      REQUIRE(part.before <= static_cast<int64_t>(slot.size()));
      slot.resize(static_cast<size_t>(part.before));
      slot.insert(slot.end(), part.tokens.begin(), part.tokens.end());
      if (part.answer < 0) prompt_tokens += static_cast<int64_t>(part.tokens.size());
      if (part.answer >= 0) {
        REQUIRE(part.prompt_tokens == static_cast<int64_t>(prompt.size()));
        for (int64_t i = 0; i < static_cast<int64_t>(slot.size()); ++i)
          REQUIRE(slot[static_cast<size_t>(i)] == token_of(prompt, part.draws.front().key, i));
      }
      for (const TokenDraw& draw : part.draws) {
        (draw.greedy ? greedy : sampled).insert(draw.key);
        REQUIRE(draw.index == (part.answer < 0 ? 0 : static_cast<int64_t>(slot.size())));
        drawn.push_back({token_of(prompt, draw.key, draw.index), -0.5f});
      }
    }
    return drawn;
  }

  int steps = 0;
  int64_t prompt_tokens = 0;  // of the last step
  bool fail_next = false;
  std::set<uint64_t> greedy, sampled;  // keys of the draws

 private:
  std::vector<std::vector<int32_t>> prompts_, answers_;
};

GenerationRequest request(uint64_t ticket, Rng& rng) {
  GenerationRequest result{.ticket = ticket, .prompt = {}, .max_tokens = 6, .keys = {}, .greedy = 0};
  for (uint64_t i = 1 + rng.below(20); i-- > 0;) result.prompt.push_back(static_cast<int32_t>(1 + rng.below(30)));
  for (uint64_t i = 1 + rng.below(6); i-- > 0;) result.keys.push_back(rng.next_u64());
  return result;
}

}  // namespace

TEST_CASE("generation_scheduler: every request gets its answers, whatever the slots and the order") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(derive_key(seed, "scheduler"));
    FakeGenerator generator(static_cast<int64_t>(1 + rng.below(4)), static_cast<int64_t>(1 + rng.below(8)));
    const auto prefill = static_cast<int64_t>(1 + rng.below(12));
    GenerationScheduler scheduler(generator, {.prefill_tokens = prefill, .end_tokens = {kEnd}});
    std::map<uint64_t, GenerationRequest> open;
    uint64_t next = 0;
    for (uint64_t step = 0; next < 20 || !scheduler.idle(); ++step) {
      if (next < 20 && rng.below(2) == 0) {
        const GenerationRequest added = request(next, rng);
        open[next++] = added;
        scheduler.add(added);
      }
      for (const Generation& done : scheduler.step(generator, step)) {
        const GenerationRequest& asked = open.at(done.ticket);
        REQUIRE(done.answers.size() == asked.keys.size());
        for (size_t a = 0; a < done.answers.size(); ++a) {
          const GeneratedAnswer& answer = done.answers[a];
          for (size_t i = 0; i < answer.tokens.size(); ++i)
            CHECK(answer.tokens[i] == token_of(asked.prompt, asked.keys[a], static_cast<int64_t>(i)));
          CHECK(answer.log_probs.size() == answer.tokens.size());
          REQUIRE(answer.version.size() == answer.tokens.size());
          CHECK(std::ranges::is_sorted(answer.version));
          const bool ended = answer.tokens.back() == kEnd;
          CHECK(answer.finish == (ended ? Finish::stop : Finish::length));
          CHECK((ended || answer.tokens.size() == 6));
          CHECK(std::ranges::count(answer.tokens, kEnd) == (ended ? 1 : 0));
        }
        open.erase(done.ticket);
      }
      CHECK(generator.prompt_tokens <= prefill);
      REQUIRE(step < 10'000);
    }
    CHECK(open.empty());
    CHECK(scheduler.slots_in_use() == 0);
  }
}

TEST_CASE("generation_scheduler: the last answers of a request may be the most likely ones") {
  for (const size_t greedy : {0, 1, 3}) {
    CAPTURE(greedy);
    FakeGenerator generator(1, 2);
    GenerationScheduler scheduler(generator, {.prefill_tokens = 4, .end_tokens = {kEnd}});
    scheduler.add({.ticket = 1, .prompt = {5}, .max_tokens = 6, .keys = {11, 12, 13}, .greedy = greedy});
    while (!scheduler.idle()) scheduler.step(generator, 0);
    const std::vector<uint64_t> keys{11, 12, 13};
    CHECK(generator.sampled == std::set<uint64_t>(keys.begin(), keys.end() - static_cast<std::ptrdiff_t>(greedy)));
    CHECK(generator.greedy == std::set<uint64_t>(keys.end() - static_cast<std::ptrdiff_t>(greedy), keys.end()));
  }
}

TEST_CASE("generation_scheduler: an answer ends when it has the stop text, which several tokens may complete") {
  FakeGenerator generator(1, 1);
  const std::vector<int32_t> prompt = {4};
  const auto text_of = [](std::span<const int32_t> ids) {
    std::string text;
    for (const int32_t id : ids) text += '<' + std::to_string(id) + '>';
    return text;
  };
  const uint64_t key = 1;
  std::vector<int32_t> tokens;
  while (tokens.empty() || tokens.back() != kEnd)
    tokens.push_back(token_of(prompt, key, static_cast<int64_t>(tokens.size())));
  REQUIRE(tokens.size() >= 3);
  const std::string stop =
      text_of(std::span(tokens).first(2)).substr(1, text_of(std::span(tokens).first(2)).size() - 2);
  GenerationScheduler scheduler(generator,
                                {.prefill_tokens = 4, .end_tokens = {kEnd}, .stop = stop, .text_of = text_of});
  scheduler.add({.ticket = 1, .prompt = prompt, .max_tokens = 100, .keys = {key}});
  std::vector<Generation> done;
  while (done.empty()) done = scheduler.step(generator, 1);
  CHECK(done[0].answers[0].tokens == std::vector<int32_t>(tokens.begin(), tokens.begin() + 2));
  CHECK(done[0].answers[0].finish == Finish::text);
}

TEST_CASE("generation_scheduler: a forgotten request frees its slots and gets no answer") {
  FakeGenerator generator(1, 2);
  GenerationScheduler scheduler(generator, {.prefill_tokens = 4, .end_tokens = {}});
  scheduler.add({.ticket = 1, .prompt = {1, 2, 3}, .max_tokens = 100, .keys = {1, 2, 3}});
  scheduler.add({.ticket = 2, .prompt = {4}, .max_tokens = 2, .keys = {7}});
  scheduler.step(generator, 1);
  scheduler.step(generator, 1);
  CHECK(scheduler.slots_in_use() == 2);
  scheduler.forget(1);
  CHECK(scheduler.slots_in_use() == 0);
  CHECK(scheduler.requests() == 1);
  std::vector<Generation> done;
  while (!scheduler.idle())
    for (Generation& generation : scheduler.step(generator, 1)) done.push_back(std::move(generation));
  REQUIRE(done.size() == 1);
  CHECK(done[0].ticket == 2);
  scheduler.forget(2);
  CHECK(scheduler.step(generator, 1).empty());
}

TEST_CASE("generation_scheduler: a step that fails can be repeated") {
  FakeGenerator generator(2, 4);
  GenerationScheduler scheduler(generator, {.prefill_tokens = 8, .end_tokens = {kEnd}});
  Rng rng(1);
  const GenerationRequest asked = request(5, rng);
  scheduler.add(asked);
  std::vector<Generation> done;
  while (!scheduler.idle()) {
    generator.fail_next = true;
    CHECK_THROWS_AS(scheduler.step(generator, 1), std::runtime_error);
    for (Generation& generation : scheduler.step(generator, 2)) done.push_back(std::move(generation));
  }
  REQUIRE(done.size() == 1);
  CHECK(done[0].answers.size() == asked.keys.size());
  for (const GeneratedAnswer& answer : done[0].answers)
    for (const uint64_t version : answer.version) CHECK(version == 2);
}

TEST_CASE("generation_scheduler: a step of some requests leaves the others as they are") {
  FakeGenerator generator(2, 4);
  GenerationScheduler scheduler(generator, {.prefill_tokens = 8, .end_tokens = {}});
  scheduler.add({.ticket = 1, .prompt = {1, 2}, .max_tokens = 3, .keys = {1}});
  scheduler.add({.ticket = 2, .prompt = {3, 4}, .max_tokens = 3, .keys = {2}});
  scheduler.step(generator, 1);
  CHECK(scheduler.tickets() == std::vector<uint64_t>{1, 2});
  const std::vector<uint64_t> second = {2};
  CHECK(scheduler.step(generator, 2, second).empty());
  const std::vector<Generation> done = scheduler.step(generator, 3);
  REQUIRE(done.size() == 1);
  CHECK(done[0].ticket == 2);
  CHECK(done[0].answers[0].version == std::vector<uint64_t>{1, 2, 3});
  const std::vector<Generation> later = scheduler.step(generator, 4);
  REQUIRE(later.size() == 1);
  CHECK(later[0].answers[0].version == std::vector<uint64_t>{1, 3, 4});
}

TEST_CASE("generation_scheduler: an answer of one token needs no slot, and a request without slots waits") {
  FakeGenerator generator(1, 1);
  GenerationScheduler scheduler(generator, {.prefill_tokens = 8, .end_tokens = {}});
  scheduler.add({.ticket = 1, .prompt = {9}, .max_tokens = 1, .keys = {1, 2, 3, 4}});
  const std::vector<Generation> done = scheduler.step(generator, 1);
  REQUIRE(done.size() == 1);
  CHECK(done[0].answers.size() == 4);
  CHECK(scheduler.idle());
  CHECK(generator.steps == 1);
}
