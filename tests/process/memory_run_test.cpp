// The estimate of the memory of a run (actors/memory_estimate.h) against the largest resident memory of real runs.

#include <chrono>
#include <iostream>

#include "actors/memory_estimate.h"
#include "actors/memory_of_answers.h"
#include "models/lm/lm_config.h"
#include "runtime/base/text_format.h"
#include "tests/process/random_reward.h"
#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "text/char_tokenizer.h"
#include "tools/cli/config_lookup.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// 11, 27 and 135 million parameters; the last is the shape of SmolLM2-135M.
const std::string kMedium = R"(model.decoder={"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6,
    "num_key_value_heads": 6, "intermediate_size": 1024})";
const std::string kLarge = R"(model.decoder={"hidden_size": 512, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 4, "intermediate_size": 1536})";
const std::string kSmolLm2 = R"(model.decoder={"vocab_size": 49152, "hidden_size": 576, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536})";
// Its layers, 106 million parameters, with as many tokens as there are characters.
const std::string kSmolLm2Layers = R"(model.decoder={"hidden_size": 576, "num_hidden_layers": 30,
    "num_attention_heads": 9, "num_key_value_heads": 3, "intermediate_size": 1536})";

const std::string kCharacters = "0123456789>abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// Of a token run of three updates. Eight digits among many other characters, so that few answers end early; with a
// loss of entropy, every answer has a gradient.
const Words kShort = set({"task.params.digits=8", "stop.updates=3", "checkpoint.every_updates=0",
                          "tokenizer.alphabet=" + kCharacters, "algorithm.entropy_coef=0.01"});
const Words kValues = set({"algorithm.advantage=gae"});

void must_end(const Words& line) {
  constexpr std::chrono::minutes kMost{20};
  Process process(line);
  REQUIRE_MESSAGE(process.wait(kMost).value_or(-1) == 0, process.err());
}

// What the weights of evaluations that wait may take; 0 where none waits.
double waiting_evaluations(const RunConfig& config) {
  double bytes = 0;
  if (is_token_run(config))
    for (const MemoryNeed& need : possible_memory_of_answers(config))
      if (need.setting == "evaluation.every_updates") bytes += need.bytes;
  return bytes;
}

// The run with this command line must end well, and need about as much memory as estimated. How many evaluations wait
// depends on the speed of the machine.
void check_run(const std::string& name, const std::string& run, const Words& line) {
  CAPTURE(name);
  must_end(line);
  const RunConfig config = load_stored_config(run + "/config.json");
  const std::vector<MemoryNeed> needs = memory_needs(config, is_token_run(config) ? EnvSpec() : environment_of(config));
  double estimate = 0;
  std::string text;
  for (const MemoryNeed& need : needs) {
    estimate += need.bytes;
    text += "  " + format_bytes(static_cast<uint64_t>(need.bytes)) + "  " + need.what + '\n';
  }
  const double peak = json_of(run + "/summary.json").at("last_start").at("peak_rss_bytes");
  const std::string figures = name + ": " + format_bytes(static_cast<uint64_t>(peak)) + ", estimated " +
                              format_bytes(static_cast<uint64_t>(estimate)) + " (" +
                              format_number(100 * (estimate / peak - 1), 1) + " %)";
  std::cout << figures << std::endl;
  CHECK_MESSAGE(estimate - peak <= 0.1 * peak, (figures + "\n" + text));
  CHECK_MESSAGE(peak - estimate - waiting_evaluations(config) <= 0.1 * peak, (figures + "\n" + text));
}

void check_tokens(const std::string& name, const Words& settings) {
  const TempFolder folder;
  check_run(name, folder / "run", token_train_line(folder.path(), kShort + settings));
}

}  // namespace

TEST_CASE("memory: the estimate of a run that trains all weights is within a tenth of its peak") {
  check_tokens("small", {});
  check_tokens("large", set({kLarge}));
  check_tokens("large, several steps and inference actors",
               set({kLarge, "trainer.minibatches=2", "inference.count=2"}));
  check_tokens("medium, many slots", set({kMedium, "generation.answer_slots=4096", "generation.prompt_slots=512"}));
  // So many episodes that an evaluation still uses the weights of its update when the next ones are published.
  check_tokens("large, evaluations during training",
               set({kLarge, "evaluation.every_updates=1", "evaluation.episodes=500"}));
  check_tokens("SmolLM2", set({kSmolLm2, "stop.updates=2", "trainer.super_batch=32"}));
}

TEST_CASE("memory: the same with micro-batches that are set") {
  const Words many = set({kMedium, "trainer.super_batch=512", "workers.groups=32", "generation.answer_slots=256"});
  check_tokens("4,096 tokens, all activations",
               many + set({"trainer.micro_batch_tokens=4096", "trainer.recompute=off"}));
  check_tokens("4,096 tokens, recomputed", many + set({"trainer.micro_batch_tokens=4096", "trainer.recompute=on"}));
  check_tokens("many answers", set({"trainer.super_batch=16384", "workers.groups=64", "generation.answer_slots=1024"}));
}

TEST_CASE("memory: the same with a critic") {
  check_tokens("large, shared critic", kValues + set({kLarge, "model.critic=shared"}));
  check_tokens("large, separate critic", kValues + set({kLarge, "model.critic=separate"}));
}

TEST_CASE("memory: the same with frozen models") {
  const Words reference = set({kLarge, "reference.model=start"});
  check_tokens("reference by the trainer", reference);
  check_tokens("reference by two scorers", reference + set({"reference.computed_by=scorers", "scorers.count=2"}));
  const TempFolder folder;
  const CharTokenizer characters(kCharacters);
  LmShape shape = lm_shape_of({.decoder = kLarge.substr(kLarge.find('{'))}, characters.vocabulary_size(), 64);
  const RandomReward reward(folder.path(), shape, characters);
  check_run("reward model", folder / "run", token_train_line(folder.path(), kShort + set(reward.settings())));
}

TEST_CASE("memory: the same with adapters") {
  const TempFolder folder;
  for (const auto& [name, decoder] :
       {std::pair{"large, adapters", kLarge}, std::pair{"layers of SmolLM2, adapters", kSmolLm2Layers}}) {
    const TempFolder base;
    const Words first =
        token_train_line(base.path(), kShort + set({decoder, "stop.updates=1", "trainer.super_batch=8"}));
    must_end(first);
    must_end({"troupe", "export", base / "run", "--hf", base / "hf"});
    const Words adapters = set({"model.decoder={}", "model.path=" + (base / "hf"), R"(model.lora={"rank": 8})"});
    check_tokens(name, adapters);
  }
}

TEST_CASE("memory: the same of a run on an environment") {
  const TempFolder folder;
  const Words line = set({"stop.updates=5", "checkpoint.every_updates=0", "trainer.super_batch=2048"});
  check_run("CartPole", folder / "small", train_line(folder / "small", line));
  check_run("CartPole, large", folder / "large",
            train_line(folder / "large", line + set({"model.hidden=[2048,2048]"})));
  check_run(
      "token_transformer", folder / "transformer",
      train_line(folder / "transformer",
                 line + set({"model.kind=token_transformer", "model.hidden=[64]",
                             R"(model.decoder={"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 6,
                                                     "num_key_value_heads": 6, "intermediate_size": 1024})"})));
}
