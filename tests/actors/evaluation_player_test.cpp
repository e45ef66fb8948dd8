#include "actors/evaluation_player.h"

#include <stdexcept>

#include "actors/experience/answers/token_run.h"
#include "envs/make/make_env.h"
#include "models/generator.h"
#include "tests/support/first_action.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Every answer is one character. Throws when it gets weights of version 1.
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
        drawn.push_back({draw.index == 0 ? CharTokenizer::kFirstCharacter : CharTokenizer::kEos, -0.5f});
    return drawn;
  }
};

RunContextPtr token_context() {
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
  for (const RunContextPtr& context : {environment_context(), token_context()}) {
    const std::unique_ptr<EvaluationPlayer> player = make_evaluation_player(context);
    CHECK(player->complete());
    player->begin(weights_of(0), {.seed = 1, .episodes = 5});
    while (!player->complete()) player->step();
    CHECK(player->summary().episodes == 5);
    CHECK_THROWS_AS(player->begin(weights_of(1), {.seed = 1, .episodes = 5}), std::runtime_error);
    CHECK(player->complete());
    CHECK(player->summary().episodes == 0);
  }
}
