// Answers that a decoder samples while its weights change: the log-probability of a token has the bits of a training
// forward with the weights that sampled it.

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "actors/experience/answers/generation_server.h"
#include "actors/experience/answers/token_run.h"
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

constexpr uint64_t kVersions = 40;

struct Case {
  const char* on_new_weights = "keep";
  bool lora = false;
  int64_t prompt_slots = 2, answer_slots = 4, prefill = 5;
  int threads = 1;
  int64_t turns = 1;
};

RunConfig config_of(const Case& c) {
  RunConfig config = token_config();
  config.generation.answers = 3;
  config.generation.max_tokens = 12;
  config.generation.prefill_tokens = c.prefill;
  config.generation.on_new_weights = c.on_new_weights;
  config.task.turns = c.turns;
  if (c.turns > 1) {
    config.task.name = "countdown";
    config.task.params = R"({"numbers": 2, "max_number": 9, "max_target": 9})";
  }
  return config;
}

struct Fixture {
  explicit Fixture(const Case& of)
      : c(of), run{config_of(of), make_token_run(config_of(of)), {}, {}}, model(decoder_for(*run.tokens, of.lora)) {
    for (uint64_t ticket = 0; ticket < 6; ++ticket) {
      std::vector<int32_t> prompt;
      for (int64_t i = run.tokens->prompt_tokens - static_cast<int64_t>(ticket % 3); i-- > 0;)
        prompt.push_back(
            static_cast<int32_t>(CharTokenizer::kFirstCharacter + (3 * i + static_cast<int64_t>(ticket)) % 10));
      prompts.push_back(prompt);
    }
  }
  RunFactories factories() const {
    return decoder_factories(model, *run.tokens, {c.prompt_slots, c.answer_slots, c.threads});
  }
  // Answers all prompts, with new weights after every second step, and then what follows their first turns.
  void serve() {
    GenerationServer server(run, factories());
    server.load(random_weights(model, {0, 1}), {});
    for (uint64_t ticket = 0; ticket < prompts.size(); ++ticket) accept(server, ticket, {});
    serve(server);
    if (c.turns > 1)
      for (uint64_t ticket = 0; ticket < prompts.size(); ++ticket)
        accept(server, ticket + prompts.size(), with_messages(port.replies.at(ticket)));
    serve(server);
    REQUIRE(port.replies.size() == prompts.size() * static_cast<size_t>(c.turns));
  }
  // What follows the prompt in the next turn, for each answer: its tokens and a message of two.
  static std::vector<std::vector<int32_t>> with_messages(const AnswerReply& reply) {
    std::vector<std::vector<int32_t>> histories;
    const auto tokens = reply.tokens.view<int32_t>();
    const auto offsets = reply.offsets.view<int64_t>();
    for (size_t a = 0; a + 1 < offsets.size(); ++a) {
      std::vector<int32_t>& history =
          histories.emplace_back(tokens.begin() + offsets[a], tokens.begin() + offsets[a + 1]);
      history.insert(history.end(), {CharTokenizer::kFirstCharacter, CharTokenizer::kFirstCharacter + 1});
    }
    return histories;
  }
  void accept(GenerationServer& server, uint64_t ticket, const std::vector<std::vector<int32_t>>& histories) {
    const uint64_t client = ticket % prompts.size();
    AnswerRequest request;
    request.prompt = Array::of(prompts[client]);
    request.keys =
        Array::of(std::vector<int64_t>{static_cast<int64_t>(7 * ticket), 40, 50 + static_cast<int64_t>(ticket)});
    std::vector<int32_t> all;
    std::vector<int64_t> offsets{0};
    for (const std::vector<int32_t>& history : histories) {
      all.insert(all.end(), history.begin(), history.end());
      offsets.push_back(static_cast<int64_t>(all.size()));
    }
    if (!histories.empty()) {
      request.history = Array::of(all);
      request.history_offsets = Array::of(offsets);
    }
    histories_[ticket] = histories.empty() ? std::vector<std::vector<int32_t>>(3) : histories;
    server.accept(ticket, {client, 0}, request, {});
  }
  void serve(GenerationServer& server) {
    for (int steps = 0; server.due(); ++steps) {
      REQUIRE(steps < 1000);
      server.run_due(port);
      if (++step_ % 2 == 0 && step_ / 2 < kVersions) server.load(random_weights(model, {0, 1 + step_ / 2}), {});
    }
  }
  // Tokens whose log-probability is not that of a forward with the weights of their version.
  int64_t wrong_tokens() const {
    int64_t wrong = 0;
    const auto forward = make_lm_reference(model, {.temperature = run.config.generation.temperature});
    for (uint64_t version = 1; version <= kVersions; ++version) {
      forward->load(*random_weights(model, {0, version}));
      for (const auto& [ticket, reply] : port.replies) {
        const auto offsets = reply.offsets.view<int64_t>(), versions = reply.version.view<int64_t>();
        for (size_t a = 0; a + 1 < offsets.size(); ++a) {
          std::vector<int32_t> tokens = histories_.at(ticket)[a];
          const size_t before = tokens.size();
          const auto own = reply.tokens.view<int32_t>();
          tokens.insert(tokens.end(), own.begin() + offsets[a], own.begin() + offsets[a + 1]);
          const std::vector<int64_t> whole{0, static_cast<int64_t>(tokens.size())};
          const auto expected =
              forward->log_probs(std::vector{PromptAnswers{prompts[ticket % prompts.size()], tokens, whole}});
          for (auto t = static_cast<size_t>(offsets[a]); t < static_cast<size_t>(offsets[a + 1]); ++t)
            if (versions[t] == static_cast<int64_t>(version))
              wrong += std::memcmp(&reply.log_probs.view<float>()[t],
                                   &expected[before + t - static_cast<size_t>(offsets[a])], 4) != 0;
        }
      }
    }
    return wrong;
  }
  int64_t answers_of_several_versions() const {
    int64_t several = 0;
    for (const auto& [ticket, reply] : port.replies) {
      const auto offsets = reply.offsets.view<int64_t>(), versions = reply.version.view<int64_t>();
      for (size_t a = 0; a + 1 < offsets.size(); ++a)
        several += versions[static_cast<size_t>(offsets[a])] != versions[static_cast<size_t>(offsets[a + 1] - 1)];
    }
    return several;
  }

  Case c;
  RunSpec run;
  LmModel model;
  std::vector<std::vector<int32_t>> prompts;
  KeptReplies port;
  std::map<uint64_t, std::vector<std::vector<int32_t>>> histories_;  // of each answer, by ticket
  uint64_t step_ = 0;
};

}  // namespace

TEST_CASE("new_weights: with recompute, a log-probability is that of a training forward with the token's version") {
  for (const bool lora : {false, true})
    for (const auto& [prompts, answers] : {std::pair<int64_t, int64_t>{1, 1}, {2, 4}, {6, 18}})
      for (const int64_t prefill : {1, 5, 1000})
        for (const int threads : {1, 3}) {
          CAPTURE(lora);
          CAPTURE(answers);
          CAPTURE(prefill);
          CAPTURE(threads);
          Fixture f({"recompute", lora, prompts, answers, prefill, threads});
          f.serve();
          CHECK(f.wrong_tokens() == 0);
          CHECK(f.answers_of_several_versions() > 0);
        }
}

TEST_CASE("new_weights: with finish, an answer has one version, and its log-probabilities are exact too") {
  for (const bool lora : {false, true})
    for (const auto& [prompts, answers] : {std::pair<int64_t, int64_t>{1, 1}, {2, 4}, {6, 18}}) {
      Fixture f({"finish", lora, prompts, answers, 5, 2});
      f.serve();
      CHECK(f.wrong_tokens() == 0);
      CHECK(f.answers_of_several_versions() == 0);
    }
}

TEST_CASE("new_weights: with recompute and finish, log-probabilities of a later turn are exact too") {
  for (const char* on_new_weights : {"recompute", "finish"})
    for (const auto& [prompts, answers] : {std::pair<int64_t, int64_t>{1, 1}, {2, 4}, {6, 18}})
      for (const int64_t prefill : {1, 5, 1000}) {
        CAPTURE(on_new_weights);
        CAPTURE(answers);
        CAPTURE(prefill);
        Fixture f({on_new_weights, false, prompts, answers, prefill, 1, 2});
        f.serve();
        CHECK(f.wrong_tokens() == 0);
      }
}

TEST_CASE("new_weights: with keep, log-probabilities are those of the older weights' keys and values") {
  Fixture f({"keep"});
  f.serve();
  CHECK(f.answers_of_several_versions() > 0);
  CHECK(f.wrong_tokens() > 0);
}
