// Answers of several turns that a decoder samples: whether keys and values are kept between turns or computed again,
// the log-probability of a token has the bits of a training forward with the weights that sampled it.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/conversation.h"
#include "actors/experience/answers/generation_server.h"
#include "models/learning/answers/lm_reference.h"
#include "models/lm/lm_weights.h"
#include "runtime/base/rng.h"
#include "tests/actors/experience/answers/decoder_server.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kClients = 4;
constexpr int64_t kAnswers = 3, kTurns = 3;

struct Case {
  const char* on_new_weights = "keep";
  bool new_weights = false;  // in every third step
  bool lora = false;
  int64_t prompt_slots = 4, answer_slots = 12, prefill = 5;
  int threads = 1;
};

RunConfig config_of(const Case& c) {
  RunConfig config = token_config();
  config.task.name = "countdown";
  config.task.params = R"({"numbers": 2})";
  config.task.turns = kTurns;
  config.generation.answers = kAnswers;
  config.generation.max_tokens = 6;
  config.generation.prefill_tokens = c.prefill;
  config.generation.on_new_weights = c.on_new_weights;
  return config;
}

struct Fixture {
  explicit Fixture(const Case& of)
      : c(of), run{config_of(of), make_token_run(config_of(of)), {}, {}}, model(decoder_for(*run.tokens, of.lora)) {
    for (uint64_t client = 0; client < kClients; ++client) {
      conversations.emplace_back(kAnswers);
      prompts.push_back(run.tokens->tokenizer->encode("1" + std::to_string(client) + ",7=9:"));
    }
  }
  RunFactories factories() const {
    return decoder_factories(model, *run.tokens, {c.prompt_slots, c.answer_slots, c.threads});
  }
  // The numbers of the answers that have a turn with this number: one fewer each time.
  static std::vector<size_t> open(size_t turn) {
    std::vector<size_t> result;
    for (size_t a = turn; a < kAnswers; ++a) result.push_back(a);
    return result;
  }
  AnswerRequest request_of(uint64_t client, size_t turn) const {
    std::vector<int64_t> keys, offsets{0};
    std::vector<int32_t> history;
    for (const size_t a : open(turn)) {
      keys.push_back(static_cast<int64_t>(turn_key(10 * client + a, turn)));
      const std::vector<int32_t>& tokens = conversations[client][a].tokens();
      history.insert(history.end(), tokens.begin(), tokens.end());
      offsets.push_back(static_cast<int64_t>(history.size()));
    }
    AnswerRequest request{.prompt = Array::of(prompts[client]), .keys = Array::of(keys)};
    if (turn > 0) request.history = Array::of(history), request.history_offsets = Array::of(offsets);
    return request;
  }
  void take(uint64_t client, size_t turn, const AnswerReply& reply) {
    const std::vector<GeneratedAnswer> answers = unpacked(reply);
    const std::vector<size_t> numbers = open(turn);
    for (size_t i = 0; i < answers.size(); ++i) {
      Conversation& conversation = conversations[client][numbers[i]];
      conversation.add_answer(answers[i], "");
      if (numbers[i] > turn && turn + 1 < kTurns)
        conversation.add_message(
            {.message = ""},
            run.tokens->encode_message("=" + std::to_string(11 * turn + client) + ":", answers[i].finish));
    }
  }
  // Has all conversations, each client at its own pace.
  void serve() {
    GenerationServer server(run, factories());
    server.load(random_weights(model, {0, version}), {});
    std::vector<size_t> turns(kClients, 0);
    const auto ask = [&](uint64_t client) {
      const AnswerRequest request = request_of(client, turns[client]);
      REQUIRE_FALSE(misfit(run.config, *run.tokens, request).has_value());
      server.accept(10 * client + turns[client], {client, 0}, request, {});
    };
    for (uint64_t client = 0; client < kClients; ++client) ask(client);
    for (int step = 1; server.due(); ++step) {
      REQUIRE(step < 2000);
      KeptReplies port;
      server.run_due(port);
      for (const auto& [ticket, reply] : port.replies) {
        const uint64_t client = ticket / 10;
        take(client, turns[client], reply);
        if (++turns[client] < kTurns) ask(client);
      }
      if (c.new_weights && step % 3 == 0) server.load(random_weights(model, {0, ++version}), {});
    }
    for (const size_t turn : turns) REQUIRE(turn == kTurns);
    report = server.take_report();
  }
  // Tokens whose log-probability is not that of a forward with the weights of their version.
  int64_t wrong_tokens() const {
    int64_t wrong = 0;
    const auto forward = make_lm_reference(model, {.temperature = run.config.generation.temperature});
    for (uint64_t number = 1; number <= version; ++number) {
      forward->load(*random_weights(model, {0, number}));
      for (uint64_t client = 0; client < kClients; ++client) {
        const AnswerReply all = packed(conversations[client]);
        const MessageTokens messages = messages_of(conversations[client]);
        const PromptAnswers asked{prompts[client], all.tokens.view<int32_t>(), all.offsets.view<int64_t>(),
                                  messages.ids.view<int32_t>(), messages.lengths.view<int32_t>()};
        const std::vector<float> expected = forward->log_probs({&asked, 1});
        const auto sampled = all.log_probs.view<float>();
        const auto versions = all.version.view<int64_t>();
        for (size_t t = 0; t < sampled.size(); ++t)
          if (versions[t] == static_cast<int64_t>(number)) wrong += std::memcmp(&sampled[t], &expected[t], 4) != 0;
      }
    }
    return wrong;
  }
  std::vector<std::vector<int32_t>> all_tokens() const {
    std::vector<std::vector<int32_t>> result;
    for (const auto& of_client : conversations)
      for (const Conversation& conversation : of_client) result.push_back(conversation.tokens());
    return result;
  }

  Case c;
  RunSpec run;
  LmModel model;
  uint64_t version = 1;
  InferenceReport report;
  std::vector<std::vector<int32_t>> prompts;
  std::vector<std::vector<Conversation>> conversations;  // by client
};

}  // namespace

TEST_CASE("generation_server: turns have the same bits in every slot, whether keys and values are kept or not") {
  for (const bool lora : {false, true}) {
    std::vector<std::vector<int32_t>> first;
    for (const Case& c : {Case{}, Case{.prompt_slots = 1, .answer_slots = 1}, Case{.prefill = 1},
                          Case{.prompt_slots = 2, .answer_slots = 3, .prefill = 100, .threads = 2}}) {
      Case own = c;
      own.lora = lora;
      Fixture f(own);
      f.serve();
      CHECK(f.wrong_tokens() == 0);
      CHECK(f.report.histories > 0);
      if (c.answer_slots == 12 && c.prompt_slots == 4) CHECK(f.report.reused > 0);  // a slot for each answer
      if (first.empty()) first = f.all_tokens();
      CHECK(f.all_tokens() == first);
    }
  }
}

TEST_CASE("generation_server: with recompute and finish, turns have the bits of the weights of each token") {
  for (const char* on_new_weights : {"recompute", "finish"})
    for (const int64_t slots : {2, 12}) {
      CAPTURE(on_new_weights);
      Fixture f({.on_new_weights = on_new_weights, .new_weights = true, .answer_slots = slots});
      f.serve();
      CHECK(f.version > 3);
      CHECK(f.wrong_tokens() == 0);
    }
}
