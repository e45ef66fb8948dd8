#include "actors/experience/answers/generation_server.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

#include "actors/experience/answers/answer_checks.h"
#include "runtime/weights/weights.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kMostTokens = 6;

// An answer has as many tokens as its key says.
int32_t token_of(uint64_t key, int64_t index) {
  if (index + 1 == static_cast<int64_t>(key)) return CharTokenizer::kEos;
  return CharTokenizer::kFirstCharacter + static_cast<int32_t>((key + static_cast<uint64_t>(index)) % 8);
}

class FakeGenerator final : public Generator {
 public:
  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot&) override {
    if (load_fails) throw std::runtime_error("planned");
  }
  int64_t prompt_slots() const override { return 2; }
  int64_t answer_slots() const override { return 3; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    for (const GeneratorPart& part : parts)
      for (const TokenDraw& draw : part.draws)
        if (compute_fails || draw.key == bad_key) throw std::runtime_error("planned");
    std::vector<DrawnToken> drawn;
    for (const GeneratorPart& part : parts)
      for (const TokenDraw& draw : part.draws) drawn.push_back({token_of(draw.key, draw.index), -0.5f});
    return drawn;
  }

  bool load_fails = false, compute_fails = false;
  uint64_t bad_key = 0;  // of an answer that cannot be computed
};

struct KeptResults final : ServerPort {
  void reply(uint64_t ticket, ReplyBody body) override {
    REQUIRE(replies.emplace(ticket, std::get<AnswerReply>(std::move(body))).second);
  }
  void fail(uint64_t ticket, const std::string& error) override { REQUIRE(errors.emplace(ticket, error).second); }
  Server::Clock::time_point now() const override { return {}; }

  std::map<uint64_t, AnswerReply> replies;
  std::map<uint64_t, std::string> errors;
};

RunConfig short_answers() {
  RunConfig config = token_config();
  config.generation.max_tokens = kMostTokens;
  return config;
}

AnswerRequest request_of(const std::vector<int64_t>& keys) {
  AnswerRequest request;
  request.prompt = Array::of(std::vector<int32_t>{CharTokenizer::kFirstCharacter, CharTokenizer::kFirstCharacter + 1});
  request.keys = Array::of(keys);
  return request;
}

struct Fixture {
  Fixture() { load({0, 1}); }
  RunFactories factories() {
    RunFactories result;
    result.make_generator = [this](double) {
      auto made = std::make_unique<FakeGenerator>();
      generator = made.get();
      return made;
    };
    return result;
  }
  void load(PolicyVersion version) {
    WeightSnapshot weights;
    weights.version = version;
    server.load(std::make_shared<const WeightSnapshot>(weights), {});
  }
  void accept(uint64_t ticket, ClientId client, const std::vector<int64_t>& keys) {
    requests[ticket] = request_of(keys);
    server.accept(ticket, client, requests[ticket], {});
  }
  void step() { server.run_due(port); }
  void serve() {
    for (int steps = 0; server.due(); ++steps) {
      REQUIRE(steps < 100);
      step();
    }
  }
  // Whether a reply has the tokens of the request's keys, in their order, and fits it.
  void check_reply(uint64_t ticket) {
    CAPTURE(ticket);
    const AnswerReply& reply = port.replies.at(ticket);
    CHECK_FALSE(misfit(*run.tokens, requests.at(ticket), reply).has_value());
    std::vector<int32_t> tokens;
    for (const int64_t key : requests.at(ticket).keys.view<int64_t>())
      for (int64_t i = 0; i < std::min(key, kMostTokens); ++i)
        tokens.push_back(token_of(static_cast<uint64_t>(key), i));
    CHECK(reply.tokens == Array::of(tokens));
  }

  RunSpec run{short_answers(), make_token_run(short_answers()), {}, {}};
  FakeGenerator* generator = nullptr;  // of the server
  GenerationServer server{run, factories()};
  KeptResults port;
  std::map<uint64_t, AnswerRequest> requests;  // by ticket
};

}  // namespace

TEST_CASE("generation_server: a step is due at once while a request is in progress") {
  Fixture f;
  CHECK_FALSE(f.server.due().has_value());
  f.accept(1, {0, 0}, {3, 2});
  CHECK(f.server.due() == Server::Clock::time_point::min());
  CHECK(f.server.requests() == 1);
  f.serve();
  CHECK(f.server.requests() == 0);
  f.check_reply(1);
  const InferenceReport report = f.server.take_report();
  CHECK(report.batches == 3);
  CHECK(report.rows == 2 + 2 + 1);  // the prompt, then each token but the last one of an answer
}

TEST_CASE("generation_server: several clients get the answers to their own requests") {
  Fixture f;
  f.accept(1, {0, 0}, {3, 2});
  f.accept(2, {1, 0}, {4, 1});
  f.serve();
  REQUIRE(f.port.replies.size() == 2);
  f.check_reply(1);
  f.check_reply(2);
}

TEST_CASE("generation_server: an answer that reaches the most tokens is cut off") {
  Fixture f;
  f.accept(1, {0, 0}, {kMostTokens, kMostTokens + 1});
  f.serve();
  f.check_reply(1);
  const std::vector<uint8_t> expected = {static_cast<uint8_t>(Finish::stop), static_cast<uint8_t>(Finish::length)};
  CHECK(f.port.replies.at(1).finish == Array::of(expected));
}

TEST_CASE("generation_server: every token has the version of the weights that computed it") {
  Fixture f;
  f.accept(1, {0, 0}, {3, 2});
  f.step();
  f.load({0, 2});
  f.step();
  f.load({0, 5});
  f.serve();
  CHECK(f.port.replies.at(1).version == Array::of(std::vector<int64_t>{1, 2, 5, 1, 2}));
}

TEST_CASE("generation_server: with weights of another epoch an answer begins anew") {
  Fixture f;
  f.load({0, 7});
  f.accept(1, {0, 0}, {3, 2});
  f.step();
  f.load({1, 4});
  f.serve();
  f.check_reply(1);
  CHECK(f.port.replies.at(1).version == Array::of(std::vector<int64_t>{4, 4, 4, 4, 4}));
}

TEST_CASE("generation_server: weights that cannot be loaded leave the older ones") {
  Fixture f;
  f.accept(1, {0, 0}, {2, 2});
  f.generator->load_fails = true;
  CHECK_THROWS_WITH(f.load({0, 2}), "planned");
  f.serve();
  CHECK(f.port.replies.at(1).version == Array::of(std::vector<int64_t>{1, 1, 1, 1}));
}

TEST_CASE("generation_server: requests for which no slot is free wait for one") {
  Fixture f;
  for (uint64_t ticket = 1; ticket <= 10; ++ticket) f.accept(ticket, {ticket, 0}, {5, 6});
  f.serve();
  REQUIRE(f.port.replies.size() == 10);
  for (uint64_t ticket = 1; ticket <= 10; ++ticket) f.check_reply(ticket);
}

TEST_CASE("generation_server: the slots of a worker that is gone are free for others") {
  Fixture f;
  f.accept(1, {0, 0}, {5, 6});
  f.accept(2, {0, 1}, {5, 6});
  f.accept(3, {1, 0}, {3, 2});
  f.step();
  f.step();
  f.server.forget_worker(0);
  CHECK(f.server.requests() == 1);
  f.serve();
  CHECK(f.port.replies.size() == 1);
  f.check_reply(3);
}

TEST_CASE("generation_server: a request that is dropped gets no reply") {
  Fixture f;
  f.accept(1, {0, 0}, {5, 6});
  f.step();
  f.server.forget(1);
  CHECK_FALSE(f.server.due().has_value());
  f.accept(2, {0, 0}, {3, 2});
  f.serve();
  CHECK(f.port.replies.size() == 1);
  f.check_reply(2);
}

TEST_CASE("generation_server: requests that do not fit the run") {
  Fixture f;
  CHECK_FALSE(f.server.misfit(request_of({3, 2})).has_value());
  CHECK(f.server.misfit(StepRequest()) == "the request is not one for answers");
  CHECK(f.server.misfit(request_of({3, 2, 1})).has_value());
  AnswerRequest request = request_of({3, 2});
  const int64_t most = f.run.tokens->prompt_tokens;
  request.prompt = Array::of(std::vector<int32_t>(static_cast<size_t>(most + 1), CharTokenizer::kFirstCharacter));
  CHECK(f.server.misfit(request) ==
        "the prompt has " + std::to_string(most + 1) + " tokens, expected 1 to " + std::to_string(most));
  const int32_t vocabulary = f.run.tokens->tokenizer->vocabulary_size();
  request.prompt = Array::of(std::vector<int32_t>{vocabulary});
  CHECK(f.server.misfit(request) ==
        "prompt: token " + std::to_string(vocabulary) + ", expected 0 to " + std::to_string(vocabulary - 1));
}

TEST_CASE("generation_server: a request that cannot be computed fails alone, whenever it does") {
  for (const bool begun : {false, true}) {
    CAPTURE(begun);
    Fixture f;
    for (uint64_t ticket = 1; ticket <= 4; ++ticket) f.accept(ticket, {ticket, 0}, {3, ticket == 2 ? 5 : 4});
    if (begun) f.step();
    f.generator->bad_key = 5;
    f.serve();
    CHECK(f.port.errors == std::map<uint64_t, std::string>{{2, "planned"}});
    REQUIRE(f.port.replies.size() == 3);
    for (const uint64_t ticket : {1u, 3u, 4u}) f.check_reply(ticket);
    CHECK(f.server.requests() == 0);
    CHECK(f.server.take_report().failed == 2);  // with another request, then alone
  }
}

TEST_CASE("generation_server: when no request can be computed all fail, and later ones are served") {
  Fixture f;
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) f.accept(ticket, {ticket, 0}, {3, 2});
  f.step();
  f.generator->compute_fails = true;
  f.serve();
  const std::map<uint64_t, std::string> failed = {{1, "planned"}, {2, "planned"}, {3, "planned"}};
  CHECK(f.port.errors == failed);
  CHECK(f.port.replies.empty());
  CHECK(f.server.requests() == 0);
  CHECK(f.server.take_report().failed == 4);  // two together, then each alone
  f.generator->compute_fails = false;
  f.accept(4, {1, 0}, {3, 2});
  f.serve();
  f.check_reply(4);
}
