#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "actors/experience/answers/token_run.h"
#include "actors/experience/kinds.h"
#include "actors/run_context.h"
#include "envs/make/make_env.h"
#include "models/generator.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Every answer is one character: the first one, or when it is sampled, one that its key chooses. Throws when it gets
// weights of version 1.
class OneCharacter final : public Generator {
 public:
  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot& weights) override {
    if (weights.version.number == 1) throw std::runtime_error("no memory for the weights");
  }
  int64_t prompt_slots() const override { return 4; }
  int64_t answer_slots() const override { return 4; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    std::vector<DrawnToken> drawn;
    for (const GeneratorPart& part : parts)
      for (const TokenDraw& draw : part.draws)
        drawn.push_back({draw.index > 0 ? CharTokenizer::kEos : first_of(draw), -0.5f});
    return drawn;
  }

 private:
  static int32_t first_of(const TokenDraw& draw) {
    return CharTokenizer::kFirstCharacter + (draw.greedy ? 0 : static_cast<int32_t>(draw.key % 10));
  }
};

// Every token has the log-probability -1 / temperature.
struct FakeReference final : ReferenceModel {
  explicit FakeReference(double temperature) : log_prob(static_cast<float>(-1 / temperature)) {}
  void load(const WeightSnapshot& weights) override { CHECK(weights.version.number == 7); }
  std::vector<float> log_probs(std::span<const PromptAnswers> prompts) override {
    std::vector<float> result;
    for (const PromptAnswers& each : prompts) {
      CHECK(each.offsets.back() == static_cast<int64_t>(each.tokens.size()));
      result.insert(result.end(), each.tokens.size(), log_prob);
    }
    return result;
  }
  float log_prob;
};

std::vector<nlohmann::json> parsed(const std::string& lines) {
  std::vector<nlohmann::json> result;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) result.push_back(nlohmann::json::parse(line));
  return result;
}

std::shared_ptr<RunContext> token_context() {
  auto context = std::make_shared<RunContext>();
  context->config = token_config();
  context->tokens = make_token_run(context->config);
  context->make_generator = [](double) { return std::make_unique<OneCharacter>(); };
  return context;
}

// The second environment cannot be made.
RunContextPtr environment_context() {
  auto context = std::make_shared<RunContext>();
  context->config.env.id = "Synthetic";
  context->config.env.params = R"({"image_height": 1, "image_width": 1, "episode_length": 5})";
  context->make_policy = [env = context->config.env] {
    return std::make_unique<FirstAction>(make_evaluation_env(env, "{}", 1)->spec());
  };
  context->make_evaluation_env = [env = context->config.env, made = 0](int64_t rows) mutable {
    if (++made == 2) throw std::runtime_error("no such environment");
    return make_evaluation_env(env, "{}", rows);
  };
  return context;
}

WeightSnapshot weights_of(uint64_t number) {
  WeightSnapshot weights;
  weights.version.number = number;
  return weights;
}

}  // namespace

TEST_CASE("evaluation_player: one that cannot begin is complete and has nothing of the one before") {
  for (const RunContextPtr& context : {environment_context(), RunContextPtr(token_context())}) {
    const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
    CHECK(player->complete());
    player->begin(weights_of(0), {.seed = 1, .episodes = 5});
    while (!player->complete()) player->step();
    CHECK(player->summary().episodes == 5);
    CHECK_THROWS_AS(player->begin(weights_of(1), {.seed = 1, .episodes = 5}), std::runtime_error);
    CHECK(player->complete());
    CHECK(player->summary().episodes == 0);
  }
}

TEST_CASE("evaluation_player: several answers to each prompt are sampled, and each has a line") {
  const RunContextPtr context = token_context();
  const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
  const EvaluationPlan plan{.seed = 1, .episodes = 5, .answers = 4, .temperature = 0.7};
  const auto play = [&] {
    std::string lines;
    player->begin(weights_of(3), plan);
    CHECK(player->planned() == 20);
    while (!player->complete()) {
      player->step();
      lines += player->take_answers();
    }
    return lines;
  };
  const std::string lines = play();
  const EpisodeSummary summary = player->summary();
  CHECK(summary.episodes == 20);
  REQUIRE(summary.pass_at.size() == 3);
  CHECK(summary.pass_at.front().second == summary.success_rate);
  std::map<std::string, std::set<std::string>> answers;  // by prompt
  const std::vector<nlohmann::json> all = parsed(lines);
  CHECK(all.size() == 20);
  for (const nlohmann::json& line : all) {
    CHECK(line.at("updates") == 3);
    CHECK(line.at("tokens") == 2);
    answers[line.at("prompt")].insert(line.at("answer"));
  }
  CHECK(answers.size() == 5);
  CHECK(std::ranges::any_of(answers, [](const auto& each) { return each.second.size() > 1; }));
  CHECK(play() == lines);
}

TEST_CASE(
    "evaluation_player: with a reference, each line has the mean of log p - log q, at the temperature of the answers") {
  const std::shared_ptr<RunContext> context = token_context();
  context->make_reference = [](double temperature, int64_t) { return std::make_unique<FakeReference>(temperature); };
  const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
  EvaluationPlan plan{.seed = 1, .episodes = 5, .answers = 2, .temperature = 0.5};
  plan.reference = std::make_shared<const WeightSnapshot>(weights_of(7));
  const auto kls = [&] {
    player->begin(weights_of(3), plan);
    std::set<double> result;
    while (!player->complete()) {
      player->step();
      for (const nlohmann::json& line : parsed(player->take_answers())) result.insert(line.value("kl", NAN));
    }
    return result;
  };
  CHECK(kls() == std::set<double>{-0.5 + 2});
  plan.temperature = 4;
  CHECK(kls() == std::set<double>{-0.5 + 0.25});
  plan.reference = nullptr;
  player->begin(weights_of(3), plan);
  player->step();
  while (!player->complete()) player->step();
  const std::string lines = player->take_answers();
  CHECK(lines.find("\"updates\":3") != std::string::npos);
  CHECK(lines.find("kl") == std::string::npos);
}

TEST_CASE("evaluation_player: the plan of a run without other settings is one most likely answer to each prompt") {
  const RunContextPtr context = token_context();
  const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
  player->begin(weights_of(0), evaluation_plan(context->config));
  std::string lines;
  while (!player->complete()) {
    player->step();
    lines += player->take_answers();
  }
  CHECK(player->summary().pass_at == PassAtK{{1, player->summary().success_rate}});
  std::set<std::string> answers;
  for (const nlohmann::json& line : parsed(lines)) answers.insert(line.at("answer"));
  CHECK(answers.size() == 1);
}
