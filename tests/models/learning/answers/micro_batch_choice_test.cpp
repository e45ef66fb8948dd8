// The size of micro-batches that a config leaves open, and passes that compute layers again.

#include "models/learning/answers/micro_batch_choice.h"

#include <limits>

#include "models/decoder/activation_bytes.h"
#include "models/learning/answers/answer_learner.h"
#include "tests/models/learning/answers/answers.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// The shape of SmolLM2-135M, with other sizes for other models.
LmShape shape_of(int64_t hidden = 576, int64_t layers = 30, int64_t intermediate = 1536) {
  LmShape shape;
  shape.vocabulary = 49'152;
  shape.hidden = hidden;
  shape.layers = layers;
  shape.heads = 9;
  shape.kv_heads = 3;
  shape.head_dim = 64;
  shape.intermediate = intermediate;
  shape.tied_embeddings = true;
  return shape;
}

MicroBatchChoice choice_of(const LmShape& shape, const std::string& recompute = "auto", int64_t tokens = 0,
                           const MicroBatchNeeds& needs = {}) {
  TrainerConfig config;
  config.recompute = recompute;
  config.micro_batch_tokens = tokens;
  return choose_micro_batch(shape, config, needs);
}

int64_t floats(const KvLayer& cells, const LmShape& shape) {
  return cells.cells() * shape.kv_heads * (shape.head_dim + padded(shape.head_dim));
}

}  // namespace

TEST_CASE("activation_bytes: they are those of the buffers of a pass, with and without recomputing") {
  for (const LmFamily family : kFamilies)
    for (const bool recompute : {false, true}) {
      LmShape shape = tiny_shape(family, 3);
      shape.layers = 3;
      const TinyModel tiny(shape, 1);
      ParallelFor parallel(1);
      Decoder decoder(shape, parallel);
      decoder.load(tiny.weights());
      constexpr int64_t kTokens = 64;  // fills the panels of the cells
      const std::vector<int32_t> ids = random_ids(shape, kTokens, 2);
      const std::vector<LmSequence> sequences = {{.tokens = kTokens}};
      Activations activations{.recompute_above = recompute ? 0 : kNever};
      std::vector<float> hidden(static_cast<size_t>(kTokens * shape.hidden));
      decoder.forward_training({ids, sequences}, activations, hidden);
      auto bytes = static_cast<int64_t>(activations.bytes());
      for (const KvLayer& cells : activations.cells) bytes += 4 * floats(cells, shape);
      const int64_t layer = (activation_bytes(shape, false) - activation_bytes(shape, true)) / 2;
      const int64_t inputs = 4 * (shape.hidden * (shape.layers + 1) + 1);
      CHECK(bytes == kTokens * (inputs + (recompute ? 1 : shape.layers) * layer));
      CHECK(kv_bytes(shape) == 4 * shape.layers * floats(activations.cells[0], shape) / kTokens);
    }
}

TEST_CASE("micro_batch_choice: activations take 128 MiB, or half of the size of a larger model") {
  const LmShape small = shape_of(64, 2, 128), large = shape_of();
  CHECK(activation_budget(small) == 128 << 20);
  CHECK(activation_budget(large) == 2 * lm_parameter_count(large));
  for (const LmShape& shape : {small, large}) {
    const MicroBatchChoice choice = choice_of(shape);
    CHECK_FALSE(choice.recompute);
    CHECK(choice.tokens == activation_budget(shape) / activation_bytes(shape, false));
    CHECK(choice.recompute_above == choice.tokens);
    CHECK(choice.bytes <= activation_budget(shape));
  }
}

TEST_CASE("micro_batch_choice: layers are recomputed where fewer than 256 tokens would fit") {
  const LmShape deep = shape_of(64, 800, 2048);
  const int64_t fit = activation_budget(deep) / activation_bytes(deep, false);
  CHECK(fit < 256);
  const MicroBatchChoice choice = choice_of(deep);
  CHECK(choice.recompute);
  CHECK(choice.recompute_above == fit);
  CHECK(choice.tokens == activation_budget(deep) / activation_bytes(deep, true));
}

TEST_CASE("micro_batch_choice: trainer.recompute and trainer.micro_batch_tokens count where they are set") {
  const LmShape shape = shape_of();
  const int64_t budget = activation_budget(shape), fit = budget / activation_bytes(shape, false);
  CHECK(choice_of(shape, "on").recompute_above == 0);
  CHECK(choice_of(shape, "on").tokens == budget / activation_bytes(shape, true));
  CHECK(choice_of(shape, "off").recompute_above == kNever);
  CHECK(choice_of(shape, "off").tokens == fit);
  const MicroBatchChoice few = choice_of(shape, "auto", fit), many = choice_of(shape, "auto", fit + 1);
  CHECK(few.tokens == fit);
  CHECK_FALSE(few.recompute);
  CHECK(many.recompute);
  CHECK(many.bytes == (fit + 1) * activation_bytes(shape, true));
  CHECK(choice_of(shape, "off", 100'000).bytes == 100'000 * activation_bytes(shape, false));
}

TEST_CASE("micro_batch_choice: the text has the largest micro-batch of the run, and the limit where that is larger") {
  const MicroBatchChoice choice{.tokens = 3841};
  CHECK(text_of(choice, 3396, false) == "micro-batches of up to 3,396 tokens, of 3,841 that are allowed");
  CHECK(text_of(choice, 3841, false) == "micro-batches of up to 3,841 tokens");
  CHECK(text_of(choice, 3841, true) ==
        "micro-batches of up to 3,841 tokens, whose activations are recomputed in the backward pass");
  CHECK(text_of({.tokens = 0}, 3396, false) == "no micro-batches: the loss compares all tokens of a minibatch");
}

TEST_CASE("micro_batch_choice: the longest answer with its prompt fits, and is recomputed where it is too large") {
  const LmShape shape = shape_of();
  const MicroBatchChoice choice = choice_of(shape, "auto", 0, {.longest = 5000});
  CHECK(choice.tokens == 5000);
  CHECK(choice.recompute);
  CHECK(choice.bytes == 5000 * activation_bytes(shape, true));
}

TEST_CASE("micro_batch_choice: activations of more bytes than an integer holds are as many as are reported at most") {
  const LmShape shape = shape_of(1 << 20, 10'000);
  const MicroBatchChoice choice = choice_of(shape, "off", 1'000'000'000);
  CHECK(static_cast<double>(activation_bytes(shape, false)) * 1e9 > 1e19);
  CHECK(choice.bytes == 1'000'000'000'000'000'000);
}

TEST_CASE("micro_batch_choice: a loss that compares all tokens of a minibatch has no micro-batches") {
  const LmShape shape = shape_of();
  const MicroBatchChoice choice = choice_of(shape, "auto", 0, {.whole_minibatch = true});
  CHECK(choice.tokens == 0);
  CHECK(choice.recompute_above == choice_of(shape).recompute_above);
}

namespace {

struct Trained {
  std::string what;
  LmModel model;
  std::string advantage = "grpo";
};

std::vector<Trained> trained_models() {
  std::vector<Trained> result;
  for (const LmFamily family : kFamilies)
    for (const bool tied : {false, true}) {
      LmShape shape = tiny_shape(family, 3);
      shape.layers = 3;
      shape.tied_embeddings = tied;
      const std::string name = std::string(name_of(family)) + (tied ? ", tied" : ", untied");
      result.push_back({name, LmModel(shape)});
      result.push_back({name + ", adapters", lora_model(shape, 4, 8)});
      for (const CriticKind critic : {CriticKind::shared, CriticKind::separate})
        for (const bool adapters : {false, true}) {
          LmModel model = adapters ? lora_model(shape, 4, 8) : LmModel(shape);
          model.critic = critic;
          result.push_back({name + (adapters ? ", adapters" : "") +
                                (critic == CriticKind::shared ? ", shared critic" : ", separate critic"),
                            model, "gae"});
        }
    }
  return result;
}

// What is saved after two updates, whose moments hold the gradients.
LearnerState state_after(const Trained& trained, int64_t recompute_above) {
  LearnerConfig config;
  config.algorithm.advantage = trained.advantage;
  config.trainer.epochs = 1;
  config.trainer.minibatches = 1;
  const auto learner = make_answer_learner(
      config, trained.model,
      {.seed = 5, .answer_tokens = 13, .micro_batch_tokens = 20, .recompute_above = recompute_above, .threads = 2});
  for (const uint64_t seed : {1, 2}) {
    const auto rollout = random_answers(6, trained.model.shape.vocabulary, seed);
    const UpdateReport report = learner->update(*learner->stager()->stage(whole(rollout)), 0);
    CHECK(report.steps == 1);
  }
  return learner->save();
}

}  // namespace

TEST_CASE("micro_batch_choice: learners that recompute all, some or no micro-batches have the same bits") {
  for (const Trained& trained : trained_models()) {
    CAPTURE(trained.what);
    const LearnerState kept = state_after(trained, kNever);
    for (const int64_t above : {0, 16}) {
      const LearnerState recomputed = state_after(trained, above);
      CHECK(recomputed.model == kept.model);
      CHECK(recomputed.optimizer == kept.optimizer);
    }
  }
}
