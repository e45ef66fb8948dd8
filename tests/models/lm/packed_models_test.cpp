// Packed weights that the replicas of a process share.

#include "models/lm/packed_models.h"

#include "models/decoder/token_log_probs.h"
#include "models/learning/answers/answer_learner.h"
#include "models/learning/answers/lm_reference.h"
#include "models/lm/lm_generator.h"
#include "models/lm/lm_replica.h"
#include "tests/models/learning/answers/sampled.h"
#include "tests/models/lm/lora_models.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

LearnerConfig config_of() {
  LearnerConfig config;
  config.algorithm.advantage = "grpo";
  config.trainer.epochs = config.trainer.minibatches = 1;
  config.trainer.lr_schedule = "constant";
  return config;
}

std::vector<LmModel> models() {
  std::vector<LmModel> result;
  for (const LmFamily family : kFamilies)
    for (const bool tied : {false, true}) {
      LmShape shape = tiny_shape(family, 3);
      shape.tied_embeddings = tied;
      result.push_back(shape);
      result.push_back(lora_model(shape, 4, 8));
    }
  return result;
}

std::vector<float> forward(LmReplica& replica, const LmShape& shape) {
  const std::vector<int32_t> ids = random_ids(shape, 9, 1);
  const std::vector<LmSequence> sequences = {{.tokens = 9}};
  KvStore store(shape, 9);
  std::vector<float> hidden(static_cast<size_t>(9 * shape.hidden)), logits(static_cast<size_t>(9 * shape.vocabulary));
  replica.decoder().forward({ids, sequences}, store, hidden);
  replica.decoder().logits(hidden, logits);
  return logits;
}

}  // namespace

TEST_CASE("packed_models: a form is made once while something has it, and again after that") {
  PackedModels models;
  int made = 0;
  const auto get = [&](uint64_t identity) {
    return models.get(identity, [&] {
      ++made;
      return std::make_shared<const PackedDecoder>();
    });
  };
  PackedPtr first = get(1);
  const PackedPtr second = get(2);
  CHECK(get(1) == first);
  CHECK(first != second);
  CHECK(made == 2);
  first = nullptr;
  CHECK(get(2) == second);
  get(1);
  CHECK(made == 3);
}

TEST_CASE("lm_replica: replicas share the packed form of a snapshot, and need neither its memory nor the learner's") {
  for (const LmModel& model : models()) {
    const auto learner = make_answer_learner(config_of(), model, {.seed = 2, .answer_tokens = 13});
    ParallelFor parallel(1);
    LmReplica first(model, parallel), second(model, parallel), third(model, parallel);
    std::vector<float> expected;
    {
      const WeightsPtr weights = learner->snapshot({1, 0});
      first.load(*weights);
      expected = forward(first, model.shape);
      second.load(*weights);
      CHECK(forward(second, model.shape) == expected);
      const PackedPtr shared =
          model.lora.used() ? packed_frozen(model, parallel) : packed_policy(model, *weights, parallel);
      CHECK(shared.use_count() == 3 + (model.lora.used() ? 1 : 0));
    }
    const auto rollout = random_answers(6, model.shape.vocabulary, 1);
    learner->update(*learner->stager()->stage(whole(rollout)), 0);
    CHECK(forward(first, model.shape) == expected);
    third.load(*learner->snapshot({1, 1}));
    CHECK_FALSE(forward(third, model.shape) == expected);
    CHECK(forward(second, model.shape) == expected);
  }
}

TEST_CASE("answer_learner: snapshots and saved states stay as they are when training goes on") {
  for (const LmModel& model : models()) {
    const auto learner = make_answer_learner(config_of(), model, {.seed = 2, .answer_tokens = 13});
    const auto train = [&](uint64_t seed) {
      const auto rollout = random_answers(6, model.shape.vocabulary, seed);
      CHECK(learner->update(*learner->stager()->stage(whole(rollout)), 0).steps == 1);
    };
    train(1);
    const WeightsPtr weights = learner->snapshot({1, 0});
    const Array flat = weights->flat.clone();
    const LearnerState saved = learner->save();
    LearnerState copy = saved;
    for (auto* tensors : {&copy.model, &copy.optimizer})
      for (auto& [name, tensor] : *tensors) tensor = tensor.clone();
    train(2);
    train(3);
    CHECK(weights->flat == flat);
    CHECK((saved.model == copy.model));
    CHECK((saved.optimizer == copy.optimizer));
    CHECK_FALSE((learner->save().model == copy.model));
  }
}

TEST_CASE("decoder: with packed weights alone, hidden rows and the gradients of adapters have the same bits") {
  for (const LmFamily family : kFamilies)
    for (const bool tied : {false, true}) {
      LmShape shape = tiny_shape(family, 5);
      shape.tied_embeddings = tied;
      const LmModel model = lora_model(shape, 4, 8);
      WeightBlock adapters(lm_signature(model));
      fill_adapters(model, adapters, 1);
      constexpr int64_t kTokens = 33;
      const std::vector<int32_t> ids = random_ids(shape, kTokens, 2);
      const std::vector<LmSequence> sequences = {{.tokens = kTokens}};
      const std::vector<int64_t> rows = {0, 5, 5, 31}, labels = {3, 1, 4, 1};
      const std::vector<float> d_log_probs = {1, -2, 0.5f, 3}, d_entropy = {0, 1, 0, -1};
      const auto results = [&](bool packed_alone) {
        ParallelFor parallel(2);
        Decoder decoder(shape, parallel);
        if (packed_alone) decoder.load(packed_frozen(model, parallel));
        packed_alone ? decoder.load_adapters(adapter_weights(model, adapters))
                     : decoder.load(decoder_weights(model, adapters));
        Activations activations;
        std::vector<float> hidden(static_cast<size_t>(kTokens * shape.hidden)), d_hidden(hidden.size());
        decoder.forward_training({ids, sequences}, activations, hidden);
        std::vector<float> gradients(adapters.trained().size(), 0.0f), log_probs(rows.size());
        const DecoderGradients views = decoder_gradients(model, adapters, gradients);
        TokenLogProbs tokens(decoder, parallel);
        tokens.forward(hidden, {rows, labels, 0.8}, log_probs, {});
        tokens.backward(hidden, {rows, labels, 0.8}, d_log_probs, d_entropy, d_hidden, views);
        decoder.backward({ids, sequences}, activations, d_hidden, views);
        for (const std::vector<float>& part : {log_probs, d_hidden, gradients})
          hidden.insert(hidden.end(), part.begin(), part.end());
        return hidden;
      };
      CHECK(results(true) == results(false));
    }
}

TEST_CASE("answer_learner: a released frozen model trains adapters with the same bits") {
  std::vector<Array> first_weights;
  for (const bool released : {false, true}) {
    const LmModel model = lora_model(tiny_shape(LmFamily::qwen2, 3), 4, 8);
    const auto learner = make_answer_learner(config_of(), model, {.seed = 2, .answer_tokens = 13});
    ParallelFor parallel(1);
    if (released) model.frozen->release(model, parallel);
    CHECK(model.frozen->weights.parameter_count() == (released ? 0 : lm_tensors(model.shape).size()));
    for (const uint64_t seed : {1, 2}) {
      const auto rollout = random_answers(6, model.shape.vocabulary, seed);
      learner->update(*learner->stager()->stage(whole(rollout)), 0);
    }
    first_weights.push_back(learner->snapshot({})->flat);
  }
  CHECK(first_weights[0] == first_weights[1]);
}
