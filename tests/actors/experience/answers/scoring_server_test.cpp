#include "actors/experience/answers/scoring_server.h"

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

constexpr int32_t kFirst = CharTokenizer::kFirstCharacter;

// The log-probability of a token is -(its id) - version / 4.
class FakeReference final : public ReferenceModel {
 public:
  void load(const WeightSnapshot& weights) override { version = static_cast<float>(weights.version.number); }
  std::vector<float> log_probs(std::span<const PromptAnswers> prompts) override {
    batches.push_back(prompts.size());
    std::vector<float> result;
    for (const PromptAnswers& each : prompts) {
      if (each.prompt.front() == bad_prompt) throw std::runtime_error("planned");
      for (const int32_t token : each.tokens) result.push_back(-static_cast<float>(token) - version / 4);
    }
    return result;
  }

  float version = -1;
  int32_t bad_prompt = -1;
  std::vector<size_t> batches;
};

struct KeptResults final : ServerPort {
  void reply(uint64_t ticket, ReplyBody body) override {
    REQUIRE(replies.emplace(ticket, std::get<ScoringReply>(std::move(body))).second);
  }
  void fail(uint64_t ticket, const std::string& error) override { REQUIRE(errors.emplace(ticket, error).second); }
  Server::Clock::time_point now() const override { return {}; }

  std::map<uint64_t, ScoringReply> replies;
  std::map<uint64_t, std::string> errors;
};

RunConfig with_scorers() {
  RunConfig config = token_config();
  config.generation.answers = 2;
  config.reference.model = "start";
  config.reference.computed_by = "scorers";
  config.scorers.batch_tokens = 12;
  return config;
}

// Two answers of three tokens together, to a prompt of two.
ScoringRequest request_of(int32_t first) {
  return {.prompt = Array::of(std::vector<int32_t>{first, kFirst}),
          .tokens = Array::of(std::vector<int32_t>{first, first + 1, CharTokenizer::kEos}),
          .offsets = Array::of(std::vector<int64_t>{0, 2, 3})};
}

struct Fixture {
  Fixture() {
    WeightSnapshot weights;
    weights.version = {1, 2};
    server.load(std::make_shared<const WeightSnapshot>(weights), {});
  }
  RunFactories factories() {
    RunFactories result;
    result.make_reference = [this](double /*temperature*/, int64_t /*threads*/) {
      auto made = std::make_unique<FakeReference>();
      reference = made.get();
      return made;
    };
    return result;
  }
  void accept(uint64_t ticket, int32_t first) {
    requests[ticket] = request_of(first);
    REQUIRE_FALSE(server.misfit(requests[ticket]).has_value());
    server.accept(ticket, {ticket, 0}, requests[ticket], {});
  }
  void check_reply(uint64_t ticket) {
    CAPTURE(ticket);
    const ScoringRequest& request = requests.at(ticket);
    const ScoringReply& reply = port.replies.at(ticket);
    CHECK_FALSE(misfit(run.config, request, reply).has_value());
    std::vector<float> wanted;
    for (const int32_t token : request.tokens.view<int32_t>()) wanted.push_back(-static_cast<float>(token) - 0.5f);
    CHECK(reply.reference == Array::of(wanted));
    CHECK(reply.scores.empty());
  }

  RunSpec run{with_scorers(), make_token_run(with_scorers()), {}, {}};
  FakeReference* reference = nullptr;  // of the server
  ScoringServer server{run, factories()};
  KeptResults port;
  std::map<uint64_t, ScoringRequest> requests;  // by ticket
};

}  // namespace

TEST_CASE("scoring_server: what waits is computed together, up to batch_tokens, and each gets its own") {
  Fixture f;
  CHECK_FALSE(f.server.due().has_value());
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) f.accept(ticket, kFirst + static_cast<int32_t>(ticket));
  CHECK(f.server.due() == Server::Clock::time_point::min());
  CHECK(f.server.requests() == 5);
  while (f.server.due()) f.server.run_due(f.port);
  CHECK(f.reference->batches == std::vector<size_t>{2, 2, 1});  // of 5 tokens each
  for (uint64_t ticket = 1; ticket <= 5; ++ticket) f.check_reply(ticket);
  CHECK(f.server.requests() == 0);
  const InferenceReport report = f.server.take_report();
  CHECK(report.batches == 3);
  CHECK(report.rows == 10);  // answers
  CHECK(report.failed == 0);
}

TEST_CASE("scoring_server: a request that cannot be computed does not fail the others of its batch") {
  Fixture f;
  f.reference->bad_prompt = kFirst + 2;
  for (uint64_t ticket = 1; ticket <= 2; ++ticket) f.accept(ticket, kFirst + static_cast<int32_t>(ticket));
  f.server.run_due(f.port);
  f.check_reply(1);
  CHECK(f.port.errors == std::map<uint64_t, std::string>{{2, "planned"}});
  CHECK(f.server.requests() == 0);
  CHECK(f.server.take_report().failed == 2);
}

TEST_CASE("scoring_server: requests that were withdrawn, or whose worker is gone, are not computed") {
  Fixture f;
  for (uint64_t ticket = 1; ticket <= 3; ++ticket) f.accept(ticket, kFirst + static_cast<int32_t>(ticket));
  f.server.forget(1);
  f.server.forget_worker(2);
  f.server.run_due(f.port);
  CHECK(f.port.replies.size() == 1);
  f.check_reply(3);
  CHECK_FALSE(f.server.due().has_value());
}

TEST_CASE("scoring_server: requests and replies that do not fit are refused") {
  Fixture f;
  CHECK(f.server.misfit(AnswerRequest()) == "the request is not one for scores");
  ScoringRequest request = request_of(kFirst);
  const auto refused = [&] { return f.server.misfit(request).value_or("accepted"); };
  request.tokens = Array::of(std::vector<int32_t>{kFirst, kFirst, 1000});
  CHECK_MESSAGE(refused().starts_with("tokens: token 1000, expected 0 to "), refused());
  request = request_of(kFirst);
  request.offsets = Array::of(std::vector<int64_t>{0, 3});
  CHECK_MESSAGE(refused().starts_with("offsets is int64"), refused());
  request.offsets = Array::of(std::vector<int64_t>{0, 3, 3});
  CHECK_MESSAGE(refused().starts_with("offsets: a part is empty"), refused());
  request = request_of(kFirst);
  request.prompt = Array::of(std::vector<int32_t>{});
  CHECK_MESSAGE(refused().starts_with("the prompt has 0 tokens"), refused());
  request = request_of(kFirst);
  for (const float bad : {0.5f, std::nanf("")})
    CHECK(misfit(f.run.config, request, {.reference = Array::of(std::vector<float>{-1, bad, -1}), .scores = {}}) ==
          "reference: a log-probability is not finite, or above 0");
  CHECK(misfit(f.run.config, request, ScoringReply()).has_value());
  CHECK(misfit(f.run.config, request,
               {.reference = Array::of(std::vector<float>{-1, -1, -1}), .scores = Array::of(std::vector<float>{1, 2})})
            .has_value());
}
