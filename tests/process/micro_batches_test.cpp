// How a run divides its minibatches, as its figures tell it.

#include <fstream>
#include <string>

#include "runtime/base/file.h"
#include "tests/process/train_process.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Prompts of these numbers of letters for training, and one to hold out.
Words with_prompts(const TempFolder& folder, const std::vector<int64_t>& lengths) {
  std::ofstream train(folder / "train.jsonl");
  for (const int64_t length : lengths)
    train << Json{{"prompt", std::string(static_cast<size_t>(length), 'a')}, {"truth", "b"}} << '\n';
  std::ofstream(folder / "held_out.jsonl") << R"({"prompt": "ab", "truth": "b"})" << '\n';
  const Json params = {{"path", folder / "train.jsonl"}, {"held_out_path", folder / "held_out.jsonl"}};
  return set({"task.name=dataset", "task.params=" + params.dump(), "tokenizer.alphabet=ab", "generation.max_tokens=2",
              "evaluation.episodes=1"});
}

}  // namespace

// The example of verl (github.com/volcengine/verl, get_seqlen_balanced_partitions): 100, 900, 50, 950, 400 and 600
// tokens and a limit of 2000 make two micro-batches of 1500. The answers add at most 2 tokens to each prompt.
TEST_CASE("micro_batches: a run divides six answers into two even micro-batches") {
  const TempFolder folder;
  const Words more = with_prompts(folder, {98, 898, 48, 948, 398, 598}) +
                     set({"generation.answers=1", "algorithm.advantage=reinforce_plus_plus", "trainer.super_batch=6",
                          "trainer.micro_batch_tokens=2000", "algorithm.entropy_coef=0.01", "stop.updates=1",
                          "deterministic=true", "workers.groups=1", "workers.count=1"});
  const CommandLine run(token_train_line(folder.path(), more));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const Json learner = metrics_of(folder / "run").at("learner");
  CHECK(learner.at("micro_batches") == 2);
  CHECK(learner.at("balance_min") >= 1496);
  CHECK(learner.at("balance_max") <= 1500);
  CHECK(learner.at("balance_max_by_answers") > 1500);
}

TEST_CASE("micro_batches: a limit that the longest answer exceeds is refused before anything is written") {
  const TempFolder folder;
  const CommandLine run(
      token_train_line(folder.path(), with_prompts(folder, {98, 898}) + set({"trainer.micro_batch_tokens=899"})));
  CHECK(run.exit_code == 2);
  CHECK(run.err ==
        "troupe: --set: trainer.micro_batch_tokens: 899 is less than the longest answer with its prompt, which may "
        "have 900 "
        "tokens (898 of the prompt and 2 of the answer); use at least 900, or 0\n");
  CHECK(!posix_disk().exists(folder / "run"));
}
