// What new weights do to answers in progress, with a generator that remembers the version of each of its cells.

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
#include "actors/experience/answers/generation_server.h"
#include "actors/experience/answers/token_run.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/actors/experience/answers/decoder_server.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

constexpr int32_t kEnd = CharTokenizer::kEos;

// The token at `index` of the answer with this key, and the length of such an answer.
int32_t token_of(uint64_t key, int64_t index) {
  const auto length = static_cast<int64_t>(2 + key % 9);
  return index + 1 >= length
             ? kEnd
             : CharTokenizer::kFirstCharacter + static_cast<int32_t>((key + static_cast<uint64_t>(index)) % 8);
}

struct Cell {
  int32_t token = 0;
  PolicyVersion version;
};

class CellGenerator final : public Generator {
 public:
  CellGenerator(int64_t prompts, int64_t answers)
      : prompts_(static_cast<size_t>(prompts)), answers_(static_cast<size_t>(answers)) {}

  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot& weights) override { version = weights.version; }
  int64_t prompt_slots() const override { return static_cast<int64_t>(prompts_.size()); }
  int64_t answer_slots() const override { return static_cast<int64_t>(answers_.size()); }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    std::vector<DrawnToken> drawn;
    prompt_tokens = more_tokens = 0;
    for (const GeneratorPart& part : parts) {
      std::vector<Cell>& prompt = prompts_.at(static_cast<size_t>(part.prompt));
      std::vector<Cell>& own = part.answer < 0 ? prompt : answers_.at(static_cast<size_t>(part.answer));
      REQUIRE(part.before <= static_cast<int64_t>(own.size()));
      own.resize(static_cast<size_t>(part.before));
      for (const int32_t token : part.tokens) own.push_back({token, version});
      const auto tokens = static_cast<int64_t>(part.tokens.size());
      if (part.answer < 0)
        prompt_tokens += tokens;
      else
        more_tokens += tokens - (part.draws.empty() ? 0 : 1);
      for (const TokenDraw& draw : part.draws) {
        if (part.answer >= 0) check_answer(own, draw);
        drawn.push_back({token_of(draw.key, draw.index), -0.5f, cells_of(prompt, part.answer < 0 ? prompt : own)});
      }
    }
    return drawn;
  }

  PolicyVersion version;
  int64_t prompt_tokens = 0, more_tokens = 0;  // of the last step: of prompts; of answers, but those drawn from

 private:
  void check_answer(const std::vector<Cell>& own, const TokenDraw& draw) const {
    REQUIRE(draw.index == static_cast<int64_t>(own.size()));
    for (size_t i = 0; i < own.size(); ++i) REQUIRE(own[i].token == token_of(draw.key, static_cast<int64_t>(i)));
  }
  CellVersions cells_of(const std::vector<Cell>& prompt, const std::vector<Cell>& own) const {
    CellVersions result{version, version};
    for (const auto* cells : {&prompt, &own})
      for (const Cell& cell : *cells) result.oldest = std::min(result.oldest, cell.version);
    return result;
  }

  std::vector<std::vector<Cell>> prompts_, answers_;
};

GenerationOptions options(OnNewWeights on_new_weights, int64_t prefill = 4) {
  return {.prefill_tokens = prefill, .end_tokens = {kEnd}, .on_new_weights = on_new_weights};
}

GenerationRequest request(uint64_t ticket, size_t prompt, std::vector<uint64_t> keys) {
  return {.ticket = ticket, .prompt = std::vector<int32_t>(prompt, 5), .max_tokens = 20, .keys = std::move(keys)};
}

constexpr uint64_t kLong = 8 * 9 + 8;  // the key of an answer of 10 tokens

}  // namespace

TEST_CASE("new_weights: with recompute, every token is drawn from keys and values of the weights that draw it") {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Rng rng(derive_key(seed, "recompute"));
    CellGenerator generator(static_cast<int64_t>(1 + rng.below(4)), static_cast<int64_t>(1 + rng.below(8)));
    const auto prefill = static_cast<int64_t>(1 + rng.below(12));
    GenerationScheduler scheduler(generator, options(OnNewWeights::recompute, prefill));
    uint64_t next = 0, several = 0, done = 0;
    for (uint64_t step = 0; next < 20 || !scheduler.idle(); ++step) {
      if (next < 20 && rng.below(2) == 0) {
        std::vector<uint64_t> keys(1 + rng.below(5));
        for (uint64_t& key : keys) key = rng.next_u64();
        scheduler.add(request(next++, 1 + rng.below(9), std::move(keys)));
      }
      if (rng.below(4) == 0 && !scheduler.recomputing()) ++generator.version.number;
      for (const Generation& each : scheduler.step(generator, generator.version.number)) {
        ++done;
        for (const GeneratedAnswer& answer : each.answers) {
          CHECK(answer.tokens.back() == kEnd);
          CHECK(std::ranges::is_sorted(answer.version));
          several += answer.version.front() != answer.version.back();
        }
      }
      CHECK(generator.prompt_tokens + generator.more_tokens <= prefill);
      REQUIRE(step < 10'000);
    }
    CHECK(done == 20);
    CHECK(several > 0);
  }
}

TEST_CASE("new_weights: with recompute, a prompt is computed anew once for all of its answers") {
  CellGenerator generator(1, 4);
  GenerationScheduler scheduler(generator, options(OnNewWeights::recompute, 100));
  scheduler.add(request(1, 6, {kLong, kLong, kLong}));
  for (int i = 0; i < 3; ++i) scheduler.step(generator, 0);  // three tokens of each, two of them with keys and values
  generator.version.number = 1;
  scheduler.step(generator, 1);
  CHECK(scheduler.recomputing());
  CHECK(scheduler.last_recomputed() == 6);
  CHECK(scheduler.last_rows() == 6);
  scheduler.step(generator, 1);
  CHECK_FALSE(scheduler.recomputing());
  CHECK(scheduler.last_recomputed() == 3 * 2);
  CHECK(scheduler.last_rows() == 3 * 2 + 3);
  scheduler.step(generator, 1);
  CHECK(scheduler.last_recomputed() == 0);
  CHECK(scheduler.last_rows() == 3);
}

TEST_CASE("new_weights: with keep, nothing is computed twice") {
  CellGenerator generator(1, 4);
  GenerationScheduler scheduler(generator, options(OnNewWeights::keep, 100));
  scheduler.add(request(1, 6, {kLong}));
  std::vector<Generation> done;
  int64_t rows = 0;
  while (done.empty()) {
    done = scheduler.step(generator, generator.version.number);
    rows += scheduler.last_rows();
    CHECK(scheduler.last_recomputed() == 0);
    ++generator.version.number;
  }
  CHECK(rows == 6 + 9);  // the last token needs no keys and values
  CHECK(done[0].answers[0].version.back() == 9);
}

TEST_CASE("new_weights: tokens that were sampled keep their version and their log-probability") {
  CellGenerator generator(1, 1);
  GenerationScheduler scheduler(generator, options(OnNewWeights::recompute));
  scheduler.add(request(1, 3, {kLong}));
  std::vector<Generation> done;
  for (int step = 0; done.empty(); ++step) {
    if (step == 4) generator.version.number = 7;
    done = scheduler.step(generator, generator.version.number);
  }
  const std::vector<uint64_t> expected = {0, 0, 0, 0, 7, 7, 7, 7, 7, 7};
  CHECK(done[0].answers[0].version == expected);
}

TEST_CASE("new_weights: a token from keys and values of other weights is refused, unless they are kept") {
  for (const OnNewWeights policy : {OnNewWeights::keep, OnNewWeights::recompute, OnNewWeights::finish}) {
    CellGenerator generator(1, 1);
    GenerationScheduler scheduler(generator, options(policy));
    scheduler.add(request(1, 3, {kLong}));
    scheduler.step(generator, 0);
    generator.version.number = 1;  // the scheduler is not told
    if (policy == OnNewWeights::keep)
      CHECK_NOTHROW(scheduler.step(generator, 0));
    else
      CHECK_THROWS_AS(scheduler.step(generator, 0), InvariantError);
  }
}

TEST_CASE("new_weights: while requests are held none begins, and those that have begun are finished") {
  CellGenerator generator(4, 4);
  GenerationScheduler scheduler(generator, options(OnNewWeights::finish, 3));
  scheduler.add(request(1, 4, {kLong}));
  scheduler.add(request(2, 4, {kLong}));
  scheduler.step(generator, 0);
  CHECK(scheduler.any_begun());  // the first one has three tokens of its prompt
  scheduler.hold(true);
  scheduler.add(request(3, 1, {kLong}));
  std::vector<uint64_t> done;
  for (int step = 0; scheduler.any_begun(); ++step) {
    for (const Generation& each : scheduler.step(generator, 0)) done.push_back(each.ticket);
    REQUIRE(step < 100);
  }
  CHECK(done == std::vector<uint64_t>{1});
  CHECK(scheduler.step(generator, 0).empty());
  scheduler.hold(false);
  generator.version.number = 1;
  while (!scheduler.idle())
    for (const Generation& each : scheduler.step(generator, 1)) {
      done.push_back(each.ticket);
      CHECK(each.answers[0].version == std::vector<uint64_t>(10, 1));
    }
  CHECK(done == std::vector<uint64_t>{1, 2, 3});
}

namespace {

RunConfig config_with(const char* on_new_weights) {
  RunConfig config = token_config();
  config.generation.max_tokens = 12;
  config.generation.prefill_tokens = 4;
  config.generation.on_new_weights = on_new_weights;
  return config;
}

struct Fixture {
  explicit Fixture(const char* on_new_weights)
      : run{config_with(on_new_weights), make_token_run(config_with(on_new_weights)), {}, {}} {
    load({0, 1});
  }
  RunFactories factories() {
    RunFactories result;
    result.make_generator = [](double) { return std::make_unique<CellGenerator>(2, 3); };
    return result;
  }
  void load(PolicyVersion version) {
    auto weights = std::make_shared<WeightSnapshot>();
    weights->version = version;
    server.load(weights, port.now());
  }
  void accept(uint64_t ticket, const std::vector<int64_t>& keys) {
    AnswerRequest request;
    request.prompt = Array::of(std::vector<int32_t>(3, CharTokenizer::kFirstCharacter));
    request.keys = Array::of(keys);
    server.accept(ticket, {ticket, 0}, request, {});
  }
  void steps(int count) {
    while (count-- > 0) server.run_due(port);
  }
  void serve() {
    for (int count = 0; server.due(); ++count) {
      REQUIRE(count < 200);
      steps(1);
    }
  }
  std::set<int64_t> versions(uint64_t ticket) {
    const auto versions = port.replies.at(ticket).version.view<int64_t>();
    return {versions.begin(), versions.end()};
  }

  RunSpec run;
  GenerationServer server{run, factories()};
  KeptReplies port;
};

constexpr auto kTen = static_cast<int64_t>(kLong);

}  // namespace

TEST_CASE("new_weights: with keep and recompute, they are used from the next token on") {
  for (const char* on_new_weights : {"keep", "recompute"}) {
    Fixture f(on_new_weights);
    f.accept(1, {kTen, kTen});
    f.steps(3);
    f.load({0, 2});
    CHECK(f.server.version() == PolicyVersion{0, 2});
    f.serve();
    CHECK(f.versions(1) == std::set<int64_t>{1, 2});
  }
}

TEST_CASE("new_weights: with recompute, newer ones wait until all answers in progress have a token of the older ones") {
  Fixture f("recompute");
  f.accept(1, {kTen, kTen});
  f.steps(4);
  for (uint64_t version = 2; version < 100; ++version) {
    f.load({0, version});
    f.steps(1);
  }
  REQUIRE(f.port.replies.contains(1));
  const std::set<int64_t> versions = f.versions(1);
  CHECK(versions.size() >= 4);
  CHECK(f.server.version() == PolicyVersion{0, 99});
}

TEST_CASE("new_weights: with finish, the newest ones wait for the requests that have begun") {
  Fixture f("finish");
  f.accept(1, {kTen, kTen});
  f.accept(2, {kTen, 1});
  f.steps(3);
  f.load({0, 2});
  f.accept(3, {kTen, kTen});
  f.load({0, 5});
  f.load({0, 4});  // it is older
  CHECK(f.server.version() == PolicyVersion{0, 1});
  f.serve();
  CHECK(f.server.version() == PolicyVersion{0, 5});
  CHECK(f.versions(1) == std::set<int64_t>{1});
  CHECK(f.versions(2) == std::set<int64_t>{1});
  CHECK(f.versions(3) == std::set<int64_t>{5});
}

TEST_CASE("new_weights: with finish, they are used at once while no request has begun, or when those are gone") {
  Fixture f("finish");
  f.accept(1, {kTen, kTen});
  f.load({0, 2});
  CHECK(f.server.version() == PolicyVersion{0, 2});
  f.steps(2);
  f.load({0, 3});
  CHECK(f.server.version() == PolicyVersion{0, 2});
  f.server.forget(1);
  f.server.run_ready(f.port);
  CHECK(f.server.version() == PolicyVersion{0, 3});
  f.accept(2, {kTen, kTen});
  f.serve();
  CHECK(f.versions(2) == std::set<int64_t>{3});
}

TEST_CASE("new_weights: the server counts mixed answers, tokens computed anew, and steps during which weights waited") {
  for (const std::string on_new_weights : {"keep", "recompute", "finish"}) {
    CAPTURE(on_new_weights);
    Fixture f(on_new_weights.c_str());
    f.accept(1, {kTen, 1});  // of ten tokens, and of three
    f.steps(3);
    f.load({0, 2});
    f.load({0, 3});
    f.steps(1);
    f.load({0, 4});
    f.serve();
    const InferenceReport report = f.server.take_report();
    const bool finish = on_new_weights == "finish", recompute = on_new_weights == "recompute";
    CHECK(report.mixed_answers == (finish ? 0 : 1));
    CHECK((report.recomputed > 0) == recompute);
    CHECK((report.waited_steps > 0) == (finish || recompute));
  }
}

TEST_CASE("new_weights: the server counts the time that the first weights waited, by the clock of its port") {
  Fixture f("finish");
  f.accept(1, {kTen});
  f.steps(2);
  f.port.time += 1s;
  f.load({0, 2});
  f.port.time += 5s;
  f.load({0, 3});
  f.port.time += 2s;
  f.serve();
  f.port.time += 4s;
  f.load({0, 4});  // nothing needs the old ones
  const InferenceReport report = f.server.take_report();
  CHECK(f.server.version() == PolicyVersion{0, 4});
  CHECK(report.weights_wait_us == 7'000'000);
  for (const float latency : report.latency_us.view<float>()) CHECK(latency == 0);
}

TEST_CASE("new_weights: weights of another epoch never wait, and answers begin anew with them") {
  for (const char* on_new_weights : {"keep", "recompute", "finish"}) {
    Fixture f(on_new_weights);
    f.accept(1, {kTen, kTen});
    f.steps(4);
    f.load({0, 2});
    f.steps(1);
    f.load({0, 3});
    f.load({1, 1});
    CHECK(f.server.version() == PolicyVersion{1, 1});
    f.serve();
    CHECK(f.versions(1) == std::set<int64_t>{1});
    CHECK(f.port.replies.at(1).tokens.size() == 20);
  }
}
