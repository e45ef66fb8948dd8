// A generator whose weights change in the middle of an answer.

#include <cstring>
#include <memory>
#include <vector>

#include "models/learning/answers/lm_reference.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kPrompt = 9;

// An answer to a prompt, sampled in slots of its own.
struct Sampling {
  std::vector<int32_t> prompt, answer;
  int32_t prompt_slot = 0, answer_slot = 0;
  int64_t computed = 0;  // tokens of the answer

  // Computes `count` tokens of the prompt from `before` on, and draws the first token of the answer if there is none.
  DrawnToken read_prompt(Generator& generator, int64_t before, int64_t count) {
    const std::vector<TokenDraw> draws = {{7, 0, false}};
    const bool first = answer.empty() && before + count == kPrompt;
    const GeneratorPart part{
        .prompt = prompt_slot,
        .tokens = std::span(prompt).subspan(static_cast<size_t>(before), static_cast<size_t>(count)),
        .before = before,
        .draws = first ? std::span<const TokenDraw>(draws) : std::span<const TokenDraw>()};
    const std::vector<DrawnToken> drawn = generator.compute({&part, 1});
    if (!first) return {};
    answer.push_back(drawn.front().token);
    return drawn.front();
  }
  // Computes the next `count` tokens of the answer, and draws a token after the last one.
  DrawnToken read_answer(Generator& generator, int64_t count) {
    const auto known = static_cast<int64_t>(answer.size());
    const std::vector<TokenDraw> draws = {{7, known, false}};
    const bool draw = computed + count == known;
    const GeneratorPart part{
        .prompt = prompt_slot,
        .answer = answer_slot,
        .tokens = std::span(answer).subspan(static_cast<size_t>(computed), static_cast<size_t>(count)),
        .before = computed,
        .prompt_tokens = kPrompt,
        .draws = draw ? std::span<const TokenDraw>(draws) : std::span<const TokenDraw>()};
    const std::vector<DrawnToken> drawn = generator.compute({&part, 1});
    computed += count;
    if (!draw) return {};
    answer.push_back(drawn.front().token);
    return drawn.front();
  }
};

}  // namespace

TEST_CASE("lm_generator: a token says which weights made the keys and values from which it was drawn") {
  const LmModel model(tiny_shape(LmFamily::llama, 3));
  const auto generator = make_lm_generator(model, slots(1.0, 1));
  const auto is_from = [](const DrawnToken& drawn, uint64_t oldest, uint64_t newest) {
    return drawn.cells.oldest == PolicyVersion{1, oldest} && drawn.cells.newest == PolicyVersion{1, newest};
  };
  Sampling s{random_ids(model.shape, kPrompt, 1), {}};
  generator->load(*random_weights(model, {1, 4}));
  CHECK(is_from(s.read_prompt(*generator, 0, kPrompt), 4, 4));
  CHECK(is_from(s.read_answer(*generator, 1), 4, 4));
  generator->load(*random_weights(model, {1, 6}));
  CHECK(is_from(s.read_answer(*generator, 1), 4, 6));
  s.read_prompt(*generator, 0, kPrompt);
  CHECK(is_from(s.read_answer(*generator, 1), 4, 6));  // its own cells are older
  s.computed = 0;
  s.read_answer(*generator, 2);
  CHECK(is_from(s.read_answer(*generator, 2), 6, 6));
  Sampling other{random_ids(model.shape, kPrompt, 1), {}, 1, 1};
  CHECK(is_from(other.read_prompt(*generator, 0, kPrompt), 6, 6));
}

TEST_CASE("lm_generator: with keys and values computed anew, a log-probability has the bits of a training forward") {
  for (const LmFamily family : kFamilies)
    for (const bool lora : {false, true})
      for (const int threads : {1, 2})
        for (const int64_t chunk : {1, 4, 9}) {
          CAPTURE(name_of(family));
          CAPTURE(lora);
          CAPTURE(threads);
          CAPTURE(chunk);
          const LmShape shape = tiny_shape(family, 3);
          const LmModel model = lora ? lora_model(shape, 4, 8) : LmModel(shape);
          const auto generator = make_lm_generator(model, slots(0.8, threads));
          generator->load(*random_weights(model, {1, 1}));
          Sampling s{random_ids(shape, kPrompt, 1), {}, 1, 2};
          s.read_prompt(*generator, 0, kPrompt);
          for (int i = 0; i < 6; ++i) s.read_answer(*generator, 1);
          generator->load(*random_weights(model, {1, 2}));
          for (int64_t at = 0; at < kPrompt; at += chunk) s.read_prompt(*generator, at, std::min(chunk, kPrompt - at));
          s.computed = 0;
          while (s.computed + chunk < 7) s.read_answer(*generator, chunk);
          std::vector<float> sampled = {s.read_answer(*generator, 7 - s.computed).log_prob};
          while (sampled.size() < 4) sampled.push_back(s.read_answer(*generator, 1).log_prob);
          const auto forward = make_lm_reference(model, {.temperature = 0.8});
          forward->load(*random_weights(model, {1, 2}));
          const std::vector<int64_t> offsets = {0, static_cast<int64_t>(s.answer.size())};
          const auto expected = forward->log_probs(std::vector{PromptAnswers{s.prompt, s.answer, offsets}});
          REQUIRE(expected.size() == 7 + sampled.size());
          CHECK(std::memcmp(expected.data() + 7, sampled.data(), sampled.size() * sizeof(float)) == 0);
        }
}
