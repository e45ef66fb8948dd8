// Answers of several turns, in the scheduler and in the demonstrations of a warm-up.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "actors/experience/answers/demonstrations.h"
#include "actors/experience/answers/generation_scheduler.h"
#include "actors/experience/answers/token_run.h"
#include "models/learning/answers/answer_batch.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig config_of() {
  RunConfig config = token_config();
  config.task.name = "countdown";
  config.task.params = R"({"numbers": 2, "max_number": 30, "max_target": 99})";
  config.task.turns = 3;
  return config;
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

TEST_CASE("demonstrations: those of later turns follow wrong answers and their messages, which are not trained on") {
  RunConfig config = config_of();
  const auto tokens = make_token_run(config);
  const RunSpec run{.config = config, .tokens = tokens};
  const auto staged = draw_demonstrations(run, 5, 60);
  const auto& batch = dynamic_cast<const AnswerBatch&>(*staged);
  REQUIRE(batch.answers() == 60);
  std::array<int, 3> turns{};
  for (size_t i = 0; i < 60; ++i) {
    const std::string prompt =
        tokens->tokenizer->decode(std::span(batch.prompts)
                                      .subspan(static_cast<size_t>(batch.prompt_offsets[i]),
                                               static_cast<size_t>(batch.prompt_tokens(static_cast<int64_t>(i)))));
    const auto ends = static_cast<size_t>(std::ranges::count(prompt, ':'));  // of the prompt and of each message
    REQUIRE(ends >= 1);
    REQUIRE(ends <= 1 + i % 3);
    ++turns[ends - 1];
    const std::string answer =
        tokens->decode(std::span(batch.tokens)
                           .subspan(static_cast<size_t>(batch.offsets[i]),
                                    static_cast<size_t>(batch.offsets[i + 1] - batch.offsets[i])));
    CHECK(answer.find(':') == std::string::npos);
  }
  CHECK(turns[0] >= 20);
  CHECK(turns[1] >= 15);
  CHECK(turns[2] >= 5);
  config.task.turns = 1;
  const RunSpec single{.config = config, .tokens = make_token_run(config)};
  const auto first = draw_demonstrations(single, 5, 60);
  CHECK(dynamic_cast<const AnswerBatch&>(*first).tokens == batch.tokens);
}

namespace {

// A generator whose tokens are known functions of all that is before them.
class SumGenerator final : public Generator {
 public:
  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot&) override {}
  int64_t prompt_slots() const override { return 2; }
  int64_t answer_slots() const override { return 3; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    std::vector<DrawnToken> drawn;
    for (const GeneratorPart& part : parts) {
      std::vector<int32_t>& slot = part.answer < 0 ? prompts[part.prompt] : answers[part.answer];
      slot.resize(static_cast<size_t>(part.before));
      slot.insert(slot.end(), part.tokens.begin(), part.tokens.end());
      int32_t sum = std::accumulate(prompts[part.prompt].begin(), prompts[part.prompt].end(), 0);
      if (part.answer >= 0) sum = std::accumulate(slot.begin(), slot.end(), sum);
      for (const TokenDraw& draw : part.draws)
        drawn.push_back({static_cast<int32_t>((static_cast<uint64_t>(sum) * 7 + draw.key) % 50 + 2),
                         -static_cast<float>(draw.index)});
      rows += static_cast<int64_t>(part.tokens.size());
    }
    return drawn;
  }
  std::map<int32_t, std::vector<int32_t>> prompts, answers;
  int64_t rows = 0;
};

}  // namespace

TEST_CASE("generation_scheduler: a history is computed in parts before the first token of a turn") {
  const std::vector<std::vector<int32_t>> history{{5, 6, 7, 8, 9}, {4}, {3, 2}, {9, 9, 9}};
  std::map<int64_t, std::vector<std::vector<int32_t>>> by_prefill;
  for (const int64_t prefill : {1, 2, 100}) {
    SumGenerator generator;
    GenerationScheduler scheduler(generator, {.prefill_tokens = prefill});
    scheduler.add({.ticket = 1, .prompt = {1, 2, 3}, .max_tokens = 3, .keys = {10, 20, 30, 40}, .history = history});
    std::vector<Generation> done;
    int64_t steps = 0;
    for (; done.empty(); ++steps) {
      REQUIRE(steps < 50);
      done = scheduler.step(generator, 3);
      CHECK(scheduler.last_rows() <= prefill + 3);
    }
    CHECK(scheduler.idle());
    CHECK(scheduler.slots_in_use() == 0);
    for (size_t a = 0; a < history.size(); ++a) {
      std::vector<int32_t> all{1, 2, 3};
      all.insert(all.end(), history[a].begin(), history[a].end());
      std::vector<int32_t> expected;
      for (int index = 0; index < 3; ++index) {
        const int32_t sum = std::accumulate(all.begin(), all.end(), 0);
        expected.push_back(static_cast<int32_t>((static_cast<uint64_t>(sum) * 7 + (a + 1) * 10) % 50 + 2));
        all.push_back(expected.back());
      }
      CHECK(done[0].answers[a].tokens == expected);
      CHECK(done[0].answers[a].log_probs == std::vector<float>{0, -1, -2});
      CHECK(done[0].answers[a].finish == Finish::length);
    }
  }
}

TEST_CASE("generation_scheduler: the next turn takes over the slots of the one before, until these are needed") {
  const auto run = [](bool turns, bool disturbed) {
    SumGenerator generator;
    GenerationScheduler scheduler(generator, {.prefill_tokens = 100, .turns = turns});
    const auto finish = [&] {
      std::vector<Generation> done;
      while (!scheduler.idle())
        for (Generation& each : scheduler.step(generator, 3)) done.push_back(std::move(each));
      CHECK(scheduler.slots_in_use() == 0);
      return done;
    };
    scheduler.add({.ticket = 1, .prompt = {1, 2, 3}, .max_tokens = 3, .keys = {10, 20}});
    std::vector<std::vector<int32_t>> history;
    const std::vector<Generation> first = finish();
    for (const GeneratedAnswer& answer : first.at(0).answers) history.push_back(joined(answer.tokens, {4, 5}));
    if (disturbed) {
      scheduler.add({.ticket = 7, .prompt = {9}, .max_tokens = 2, .keys = {1, 2, 3}});
      finish();
    }
    scheduler.add(
        {.ticket = 2, .prompt = {1, 2, 3}, .max_tokens = 3, .keys = {30, 40}, .history = history, .before = 1});
    const std::vector<int32_t> tokens = finish().at(0).answers.at(1).tokens;
    return std::pair(tokens, scheduler.take_reused());
  };
  const auto [computed, none] = run(false, false);
  const auto [kept, reused] = run(true, false);
  const auto [disturbed, few] = run(true, true);
  CHECK(kept == computed);
  CHECK(disturbed == computed);
  CHECK(none == 0);
  CHECK(reused == 4);  // of three tokens of each answer the last one was not computed
  CHECK(few < reused);
}

TEST_CASE("generation_scheduler: what is kept of a request that nobody continues costs no slot") {
  SumGenerator generator;
  GenerationScheduler scheduler(generator, {.prefill_tokens = 100, .turns = true});
  for (uint64_t ticket = 1; ticket <= 50; ++ticket) {
    scheduler.add({.ticket = ticket, .prompt = {1, 2, 3}, .max_tokens = 3, .keys = {10, 20}});
    int steps = 0;
    while (!scheduler.idle()) {
      REQUIRE(++steps < 20);
      scheduler.step(generator, 3);
    }
    if (ticket % 7 == 0) scheduler.forget(ticket);
    if (ticket % 11 == 0) scheduler.forget_done();
  }
  CHECK(scheduler.slots_in_use() == 0);
}
