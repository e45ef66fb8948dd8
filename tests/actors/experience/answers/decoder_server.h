#pragma once
// What tests of a GenerationServer share: the replies it gives, and generators that sample with a decoder.

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "actors/experience/answers/generation_server.h"
#include "actors/experience/answers/token_run.h"
#include "models/lm/lm_generator.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

namespace troupe::test {

struct KeptReplies final : ServerPort {
  void reply(uint64_t ticket, ReplyBody body) override { replies[ticket] = std::get<AnswerReply>(std::move(body)); }
  void fail(uint64_t /*ticket*/, const std::string& error) override { FAIL(error); }
  Server::Clock::time_point now() const override { return time; }
  std::map<uint64_t, AnswerReply> replies;
  Server::Clock::time_point time;
};

struct DecoderSlots {
  int64_t prompts, answers;
  int threads;
};

// A small decoder with the vocabulary of the run's tokenizer, with adapters if `lora`.
inline LmModel decoder_for(const TokenRun& tokens, bool lora) {
  LmShape shape = tiny_shape(LmFamily::llama, 3);
  shape.vocabulary = tokens.tokenizer->vocabulary_size();
  return lora ? lora_model(shape, 4, 8) : LmModel(shape);
}

// Generators of `model`, which must outlive them, as `tokens` must.
inline RunFactories decoder_factories(const LmModel& model, const TokenRun& tokens, const DecoderSlots& slots) {
  RunFactories result;
  result.make_generator = [&model, &tokens, slots](double temperature) {
    return make_lm_generator(model, {.prompt_slots = slots.prompts,
                                     .prompt_tokens = tokens.prompt_tokens,
                                     .answer_slots = slots.answers,
                                     .answer_tokens = tokens.conversation_tokens(),
                                     .temperature = temperature,
                                     .threads = slots.threads});
  };
  return result;
}

}  // namespace troupe::test
