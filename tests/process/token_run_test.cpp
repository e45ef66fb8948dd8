// Runs that train a language model on a task, with real processes: from start to end, killed and resumed, with workers
// and inference in other processes.
#include <signal.h>

#include <cmath>
#include <filesystem>

#include "runtime/base/text_format.h"
#include "tests/process/token_runs.h"
#include "tests/process/train_process.h"
#include "tests/support/sanitized.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

void check_balanced(const TrainProcess& run) {
  const Json summary = run.summary();
  REQUIRE(summary.is_object());
  CHECK_MESSAGE(balances(summary.at("ledger")), summary.at("ledger").dump());
}

// The lines of the warm-up: those before all others, one for each of their steps.
std::vector<Json> warmup_lines(const std::string& folder) {
  std::vector<Json> result;
  for (const Json& line : lines_of(folder)) {
    if (line.at("warmup").is_null()) {
      CHECK(line.at("env_steps") > 0);
      continue;
    }
    CHECK(line.at("env_steps") == 0);
    CHECK(line.at("updates") == 0);
    CHECK(line.at("warmup").at("loss") > 0.0);
    if (!result.empty()) CHECK(line.at("warmup").at("step") > result.back().at("step"));
    result.push_back(line.at("warmup"));
  }
  REQUIRE(!result.empty());
  CHECK(result.front().at("step") == 1);
  return result;
}

}  // namespace

TEST_CASE("token run: its summary has the pass@1 of the warm-up and of the end, and its records the ratio of tokens") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(), set({"warmup.steps=200", "warmup.pass_at_1=0.2", "replay.max_policy_lag=0"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.process().err() == "");
  check_balanced(run);
  const Json summary = run.summary();
  CHECK(summary.at("reason") == "stop.updates reached");
  CHECK(summary.at("ledger").at("trained") == 20 * 64);
  CHECK(summary.at("updates") == 20);
  CHECK(summary.at("warmup").at("steps") > 0);
  CHECK(summary.at("warmup").at("seconds") > 0);
  CHECK(summary.at("warmup").at("pass_at_1") >= 0.2);
  CHECK(summary.at("eval").at("episodes") == 15);  // of 20: the task has no more held-out prompts, and each counts once
  CHECK(summary.at("eval").at("pass_at_1") == summary.at("eval").at("success_rate"));
  CHECK(has(run.process().out(), " answers, 20 updates"));
  CHECK(has(run.process().out(), "evaluation: pass@1 "));
  const std::vector<Json> warmup = warmup_lines(run.folder());
  CHECK(warmup.back().at("step") == summary.at("warmup").at("steps"));
  CHECK(warmup.back().at("pass_at_1") == summary.at("warmup").at("pass_at_1"));
  const std::vector<Json> records = lines_of(run.folder());
  REQUIRE(!records.empty());
  for (const Json& record : records) {
    const Json& answers = record.at("answers");
    if (record.at("updates") > 0) {
      CHECK(answers.at("trained_length") > 0);
      CHECK_FALSE(record.at("learner").contains("value_loss"));  // no critic
      CHECK_FALSE(record.at("learner").contains("explained_variance"));
      CHECK(record.at("learner").at("ratio_max") == 1.0);  // exactly, at lag 0 in the first epoch
      CHECK(record.at("learner").at("ratio_min") == 1.0);
    }
    CHECK(record.at("ledger").at("dropped_stale") == 0);
  }
}

TEST_CASE("token run: a model with a larger vocabulary than the tokenizer's never draws the other ids") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(), set({"model.decoder.vocab_size=200", "warmup.steps=0", "stop.updates=3",
                                            "replay.max_policy_lag=0"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("updates") == 3);
  CHECK_FALSE(log_has(run.folder(), "refused"));
  for (const Json& record : lines_of(run.folder()))
    if (record.at("updates") > 0) {
      CHECK(record.at("learner").at("ratio_max") == 1.0);
      CHECK(record.at("learner").at("ratio_min") == 1.0);
      CHECK(record.at("learner").at("entropy") < std::log(20));
    }
}

TEST_CASE("token run: a signal stops the warm-up, which is saved, and the next start goes on with it") {
  TempFolder folder;
  {
    Process run(token_train_line(folder.path(), kEndless + set({"warmup.steps=1000000"})));
    REQUIRE(eventually([&] { return has(run.out(), "warm-up: step "); }));
    const std::string before = run.out().substr(0, run.out().find("warm-up: "));
    CHECK(has(before, "run folder " + (folder / "run") + '\n'));
    CHECK(has(before, "dashboard  http://127.0.0.1:"));
    const Json metrics = metrics_of(folder / "run"), &warmup = metrics.at("warmup");
    CHECK(warmup.at("of") == 1'000'000);
    CHECK(warmup.at("step") > 0);
    CHECK(warmup.at("loss") > 0.0);
    CHECK(metrics.at("updates") == 0);
    CHECK(metrics.at("env_steps") == 0);
    CHECK(metrics.at("inference").at("up") == 0);
    run.signal(SIGINT);
    CHECK(run.wait().value_or(-1) == 130);
    CHECK(has(run.out(), "\nwarm-up: stopped after step "));
    CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
    CHECK_FALSE(std::filesystem::exists(folder / "run/endpoints.json"));
  }
  const Json first = Json::parse(text_of(folder / "run/summary.json"));
  const uint64_t step = first.at("warmup").at("steps");
  CHECK(step > 0);
  CHECK(first.at("updates") == 0);
  const CommandLine evaluated({"troupe", "eval", folder / "run"});
  CHECK_MESSAGE(has(evaluated.out, " after 0 updates and " + format_counted(step, "step") + " of the warm-up, "),
                evaluated.out);
  {
    // Another run would lose the warm-up.
    Process other(token_train_line(folder.path(), set({"warmup.steps=1000000", "seed=77"})));
    CHECK(other.wait().value_or(-1) == 2);
    CHECK(has(other.err(), "cannot resume: seed was "));
    CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
  }
  // A setting that the warm-up does not depend on may change.
  TokenTrainProcess run(
      folder.path(), set({"warmup.steps=" + std::to_string(step + 2), "stop.updates=1", "trainer.policy_lr=0.00123"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(has(run.process().out(), "resuming at update 0, in the warm-up after step " + format_count(step) + '\n'));
  CHECK(run.summary().at("warmup").at("steps") == step + 2);
  CHECK(run.summary().at("updates") == 1);
  CHECK(has(run.process().out(), "-> 0.00123"));
  CHECK(json_of(run.folder() + "/config.json").at("trainer").at("policy_lr") == 0.00123);
  check_refused(token_train_line(folder.path(), set({"warmup.steps=" + std::to_string(step + 2), "stop.updates=2"})),
                "cannot resume: trainer.policy_lr was 0.00123 and is now ");
  check_balanced(run);
  CHECK(warmup_lines(run.folder()).back().at("step") == step + 2);
}

TEST_CASE("token run: killed and interrupted, it resumes where its last checkpoint was") {
  TempFolder folder;
  uint64_t updates = 0;
  {
    TokenTrainProcess run(folder.path(), kEndless + set({"warmup.steps=20"}));
    const auto saved = [&] { return checkpoints_of(run.folder()); };
    REQUIRE(eventually([&] { return !saved().empty() && saved().back() > 0; }));
    run.process().signal(SIGKILL);
    CHECK(run.process().wait().value_or(-1) == 128 + SIGKILL);
    updates = checkpoints_of(run.folder()).back();
  }
  {
    TokenTrainProcess run(folder.path(), kEndless + set({"warmup.steps=20"}));
    REQUIRE(run.makes_updates(3));
    CHECK(run.interrupt().value_or(-1) == 130);
    CHECK(has(run.process().out(), "resuming at update " + std::to_string(updates)));
    CHECK_FALSE(has(run.process().out(), "warm-up"));
    check_balanced(run);
    CHECK(run.summary().at("warmup").at("steps") == 20);
    updates = checkpoints_of(run.folder()).back();
    CHECK(run.summary().at("updates") == updates);
  }
  TokenTrainProcess run(folder.path(), set({"warmup.steps=20", "stop.updates=" + std::to_string(updates + 10),
                                            "checkpoint.every_updates=5"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("updates") == updates + 10);
  check_balanced(run);
}

TEST_CASE("token run: killed in its warm-up, it begins again with the same warm-up") {
  TempFolder folder;
  const Words line = set({"warmup.steps=2000", "warmup.pass_at_1=0"});
  Process killed(token_train_line(folder.path(), line));
  REQUIRE(eventually([&] { return log_has(folder / "run", "process "); }));
  killed.signal(SIGKILL);
  CHECK(killed.wait().value_or(-1) == 128 + SIGKILL);
  CHECK(checkpoints_of(folder / "run").empty());
  TokenTrainProcess run(folder.path(), line + set({"warmup.steps=30"}));
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(run.summary().at("warmup").at("steps") == 30);
  CHECK(run.summary().at("warmup").at("pass_at_1").is_null());
  check_balanced(run);
}

TEST_CASE("token run: workers and inference in other processes are killed and replaced, and the ledger balances") {
  TempFolder folder;
  TokenTrainProcess run(folder.path(),
                        kEndless + set({"workers.count=0", "inference.count=0", "replay.max_policy_lag=4"}));
  const auto start_inference = [&] {
    return std::make_unique<Process>(Words{"troupe", "inference", "--connect", run.workers_at()});
  };
  auto worker = start_worker(run.workers_at());
  auto inference = start_inference();
  REQUIRE(run.makes_updates(3));
  const double megabytes = static_cast<double>(worker->peak_resident_bytes()) / 1e6;
  MESSAGE("a worker of a token run needs " << megabytes << " MB (target 25)");
  if (!test::kSanitized) CHECK(megabytes < 2 * 25);
  for (int round = 0; round < 2; ++round) {
    worker->signal(SIGKILL);
    CHECK(worker->wait().value_or(-1) == 128 + SIGKILL);
    worker = start_worker(run.workers_at());
    REQUIRE(run.makes_updates(2));
    inference->signal(SIGKILL);
    CHECK(inference->wait().value_or(-1) == 128 + SIGKILL);
    inference = start_inference();
    REQUIRE(run.makes_updates(2));
  }
  CHECK(run.interrupt().value_or(-1) == 130);
  check_balanced(run);
  // The last one may still be joining when the run ends, and is then refused.
  CHECK(worker->wait().has_value());
  CHECK(inference->wait().has_value());
}

TEST_CASE("token run: a new run begins with the weights of another one, and with a folder of transformers") {
  const TempFolder former, folders[4];
  const std::string first = former / "run", exported = former / "hf";
  REQUIRE(CommandLine(token_train_line(former.path(), set({"stop.updates=2"}))).exit_code == 0);
  REQUIRE(CommandLine({"troupe", "export", first, "--hf", exported}).exit_code == 0);
  for (const size_t i : {0, 1}) {
    const std::string source = i == 0 ? first : exported;
    const Words line = token_train_line(folders[i].path(), set({"stop.updates=1"}));
    const CommandLine begun(line + Words{"--init-from", source});
    CHECK_MESSAGE(begun.exit_code == 0, begun.err);
    CHECK(has(begun.out, "beginning with the weights of " + source));
    CHECK(CommandLine(line).exit_code == 0);  // the run is finished
  }
  const CommandLine with_critic(
      token_train_line(folders[3].path(), set({"algorithm.advantage=gae", "model.critic=shared", "stop.updates=1"})) +
      Words{"--init-from", first});
  CHECK_MESSAGE(with_critic.exit_code == 0, with_critic.err);
  CHECK(has(with_critic.out, "; they have no critic like that of this run, which begins anew"));
  check_refused(token_train_line(folders[2].path(), set({"model.decoder.hidden_size=16", "stop.updates=1"})) +
                    Words{"--init-from", first},
                "--init-from: " + first);
}

TEST_CASE("token run: warmup ends with the warm-up, and train goes on with the run") {
  const TempFolder folder;
  Words line = token_train_line(folder.path(), set({"warmup.steps=3", "warmup.pass_at_1=0", "stop.updates=1"}));
  const Words train = line;
  line[1] = "warmup";
  const CommandLine first(line);
  CHECK_MESSAGE(first.exit_code == 0, first.err);
  CHECK(has(first.out, "stop.after_warmup reached"));
  CHECK(Json::parse(text_of(folder / "run/summary.json")).at("updates") == 0);
  CHECK(has(CommandLine(line).out, "the warm-up of this run is over"));
  const CommandLine more(train);
  CHECK_MESSAGE(more.exit_code == 0, more.err);
  CHECK(Json::parse(text_of(folder / "run/summary.json")).at("updates") == 1);
}

TEST_CASE("token run: with remax, the greedy answers are counted on their own and never trained on") {
  const TempFolder folder;
  const CommandLine run(token_train_line(folder.path(), set({"algorithm.advantage=remax", "stop.updates=6"})));
  REQUIRE_MESSAGE(run.exit_code == 0, run.err);
  const Json summary = Json::parse(text_of(folder / "run/summary.json")), &ledger = summary.at("ledger");
  CHECK_MESSAGE(balances(ledger), ledger.dump());
  CHECK(ledger.at("trained") == 6 * 64);
  // There are four sampled answers to each prompt.
  CHECK(ledger.at("baselines").get<uint64_t>() * 5 == ledger.at("produced").get<uint64_t>());
  CHECK(summary.at("env_steps") == ledger.at("produced"));
}
