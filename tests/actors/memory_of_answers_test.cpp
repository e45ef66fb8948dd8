#include "actors/memory_of_answers.h"

#include <algorithm>

#include "actors/experience/answers/shared_token_run.h"
#include "actors/token_sizes.h"
#include "models/decoder/activation_bytes.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const std::string kLearner = "weights, gradients and moments", kPacked = "packed weights",
                  kSlots = "keys and values of prompts", kAnswers = "answers in replay", kReplay = "samples in replay",
                  kCheckpoint = "a checkpoint", kEvaluation = "an evaluation", kActivations = "activations";

// One layer of 16 numbers with two heads of 8, one key head, and 32 numbers inside the MLP.
RunConfig tiny_run() {
  RunConfig config = token_config();
  config.model.decoder = R"({"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                             "num_key_value_heads": 1, "intermediate_size": 32})";
  config.trainer.minibatches = config.trainer.epochs = 1;
  config.inference.count = 1;
  return config;
}

double vocabulary(const RunConfig& config) {
  return static_cast<double>(shared_token_run(config)->tokenizer->vocabulary_size());
}

// Bytes of the weights of tiny_run(): embedding, query, key and value, output, gate and up, down, and three norms.
double weights(const RunConfig& config) {
  return 4 * (vocabulary(config) * 16 + 32 * 16 + 16 * 16 + 64 * 16 + 16 * 32 + 3 * 16);
}

MemoryNeed need_in(const std::vector<MemoryNeed>& needs, const std::string& what) {
  for (const MemoryNeed& need : needs)
    if (need.what.starts_with(what)) return need;
  return {};
}

double bytes_of(const RunConfig& config, const std::string& what) {
  return need_in(memory_of_answers(config), what).bytes;
}

MemoryNeed possible(const RunConfig& config, const std::string& what) {
  return need_in(possible_memory_of_answers(config), what);
}

}  // namespace

TEST_CASE("memory: the trainer has the weights four times, and once more if an update has several steps") {
  RunConfig config = tiny_run();
  CHECK(bytes_of(config, kLearner) == 4 * weights(config));
  config.trainer.epochs = 2;
  CHECK(bytes_of(config, kLearner) == 5 * weights(config));
  config.trainer.shards = 4;  // two sums of shards, and one of micro-batches
  CHECK(bytes_of(config, kLearner) == 8 * weights(config));
}

TEST_CASE("memory: a critic that shares the policy's layers makes snapshots copies, a separate one has four more") {
  RunConfig config = tiny_run();
  config.algorithm.advantage = "gae";
  config.model.critic = "shared";
  CHECK(bytes_of(config, kLearner) == 6 * weights(config));
  config.model.critic = "separate";
  CHECK(bytes_of(config, kLearner) == 10 * weights(config));
}

TEST_CASE("memory: evaluations during training that wait may hold weights, and no others") {
  RunConfig config = tiny_run();
  const std::string waiting = "weights of evaluations that wait";
  config.evaluation.every_updates = 0;
  config.checkpoint.keep_best = 0;
  CHECK(possible(config, waiting).bytes == 0);
  config.evaluation.every_updates = 1;
  CHECK(possible(config, waiting).bytes == 31 * weights(config));  // 32 may be open, so small are they
  config.deterministic = true;
  CHECK(possible(config, waiting).bytes == 0);
}

TEST_CASE("memory: each version of the weights that can be in use at the same time is packed once") {
  RunConfig config = tiny_run();
  // The output layer is padded to 16 tokens.
  const double packed = weights(config) + 4 * (16 - vocabulary(config)) * 16;
  const double one = bytes_of(config, kPacked);
  config.inference.count = 5;
  CHECK(bytes_of(config, kPacked) == one + packed);
  config.evaluation.every_updates = 10;
  CHECK(bytes_of(config, kPacked) == one + 2 * packed);
  config.stop.updates = 10;  // the last evaluation is made when training is over
  CHECK(bytes_of(config, kPacked) == one + packed);
  config.reference.model = "start";
  config.reference.computed_by = "scorers";
  CHECK(bytes_of(config, kPacked) == one + 2 * packed);
  config.reference.computed_by = "trainer";  // which reads the weights of the reference, but an evaluation packs them
  CHECK(bytes_of(config, kPacked) == one + packed);
  const double with = bytes_of(config, kEvaluation);
  config.reference.computed_by = "scorers";
  CHECK(with - bytes_of(config, kEvaluation) == packed);
}

TEST_CASE("memory: each inference actor and an evaluation have the keys and values of all slots") {
  RunConfig config = tiny_run();
  const auto tokens = static_cast<double>(shared_token_run(config)->conversation_tokens());
  const double slot = tokens * 4 * (8 + 16);  // keys of 8 numbers, and values padded to 16
  for (const int64_t actors : {1, 4}) {
    config.inference.count = actors;
    config.generation.answer_slots = 1000;
    const double few = bytes_of(config, kSlots), evaluation = bytes_of(config, kEvaluation);
    config.generation.answer_slots = 2000;
    CHECK(bytes_of(config, kSlots) - few == static_cast<double>(actors) * 1000 * slot);
    CHECK(bytes_of(config, kEvaluation) - evaluation == 1000 * slot);
  }
}

TEST_CASE("memory: an evaluation after training can have the memory of the activations of a large model") {
  RunConfig config = tiny_run();
  config.model.decoder = R"({"hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 16,
                             "num_key_value_heads": 4, "intermediate_size": 4096})";
  config.evaluation.every_updates = 1;
  config.stop.updates = 0;
  const double during = bytes_of(config, kEvaluation), activations = bytes_of(config, kActivations);
  CHECK(activations > 0);
  config.evaluation.every_updates = 0;
  CHECK(bytes_of(config, kEvaluation) == std::max(0.0, during - activations));
}

TEST_CASE("memory: a step of a generator has as many tokens and logits as workers ask for at the same time") {
  RunConfig config = tiny_run();
  const auto prompt = static_cast<double>(shared_token_run(config)->prompt_tokens);
  const double few = bytes_of(config, kSlots);
  config.workers.groups = 5;  // 4 more prompts with two answers each
  const double token = 4 * (33 + 134 + 48);
  CHECK(bytes_of(config, kSlots) - few == 4 * (prompt + 2) * token + 8 * 4 * vocabulary(config));
}

TEST_CASE("memory: a checkpoint that is written during an update may hold the weights and moments before it") {
  RunConfig config = tiny_run();
  CHECK(possible(config, kCheckpoint).bytes == 3 * weights(config));
  config.deterministic = true;
  CHECK(possible(config, kCheckpoint).bytes == 0);
}

TEST_CASE("memory: a run without regular checkpoints writes them during updates if it keeps the best evaluated ones") {
  RunConfig config = tiny_run();
  config.checkpoint.every_updates = 0;
  config.checkpoint.keep_best = 1;
  CHECK(possible(config, kCheckpoint).bytes == 0);
  config.evaluation.every_updates = 10;
  const MemoryNeed evaluated = possible(config, kCheckpoint);
  CHECK(evaluated.bytes == 3 * weights(config));
  CHECK(evaluated.setting == "checkpoint.keep_best");
  CHECK(evaluated.value == "1");
  config.checkpoint.keep_best = 0;
  CHECK(possible(config, kCheckpoint).bytes == 0);
}

TEST_CASE("memory: replay holds two super-batches by the first update, and later what its capacity allows") {
  RunConfig config = tiny_run();
  config.stop.env_steps = 0;
  config.replay.capacity = 2 * config.trainer.super_batch;
  const double two = bytes_of(config, kAnswers);
  const MemoryNeed small = possible(config, kReplay);
  config.replay.capacity = 100'000'000;
  CHECK(bytes_of(config, kAnswers) == two);
  const MemoryNeed large = possible(config, kReplay);
  CHECK(large.setting == "replay.capacity");
  CHECK(large.value == "100000000");
  CHECK(large.bytes / small.bytes == doctest::Approx(5e7 / static_cast<double>(config.trainer.super_batch)));
  config.replay.capacity = config.trainer.super_batch;
  CHECK(two - bytes_of(config, kAnswers) == doctest::Approx(small.bytes / 2));
}

TEST_CASE("memory: a super-batch of more bytes than an integer holds is not taken for a small one") {
  RunConfig config = tiny_run();
  config.model.decoder = R"({"hidden_size": 1024, "num_hidden_layers": 8, "num_attention_heads": 8,
                             "num_key_value_heads": 8, "intermediate_size": 4096})";
  config.algorithm.surrogate = "kl_cov";  // compares all tokens of a minibatch, which is one pass
  config.trainer.recompute = "off";
  config.trainer.super_batch = 1'000'000'000;
  config.generation.max_tokens = 65'536;
  const TokenSizes sizes = token_sizes(config);
  const double bytes =
      5e8 * static_cast<double>(sizes.group) * static_cast<double>(activation_bytes(sizes.shape, false));
  CHECK(bytes > 1e19);
  CHECK(bytes_of(config, "activations") == doctest::Approx(bytes).epsilon(1e-6));
}

TEST_CASE("memory: with several ranks, rank 0 keeps more of a language model") {
  RunConfig config = tiny_run();
  const std::string ranks = "what rank 0 keeps for the other ranks";
  config.trainer.shards = 4;
  CHECK(bytes_of(config, ranks) == 0);
  config.trainer.ranks = 2;
  const double two = bytes_of(config, ranks);
  CHECK(two > 6 * weights(config));
  config.trainer.ranks = 3;
  CHECK(bytes_of(config, ranks) - two == doctest::Approx(3 * weights(config)));  // the state that another one gets
  config.trainer.ranks = 2;
  config.trainer.zero = 1;
  CHECK(bytes_of(config, ranks) - two == doctest::Approx(-weights(config)));
}
