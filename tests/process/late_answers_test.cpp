// Token runs with answers of very different lengths, which a policy that has learned nothing gives, and replay.late.

#include <string>

#include "tests/process/results.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// The summary of a run in which most answers are short and some have 64 tokens. The policy hardly changes.
Json summary_of(const std::string& late, int lag) {
  TempFolder folder;
  TokenTrainProcess run(folder.path(), set({"replay.late=" + late, "replay.max_policy_lag=" + std::to_string(lag),
                                            "generation.max_tokens=64", "generation.answer_slots=64",
                                            "workers.groups=32", "trainer.super_batch=16", "trainer.policy_lr=1e-9",
                                            "stop.updates=200", "evaluation.episodes=1"}));
  CHECK(run.process().wait().value_or(-1) == 0);
  Json summary = run.summary();
  CHECK(balances(summary.at("ledger")));
  CHECK(summary.at("last_start").at("lag").at("max") <= lag);
  MESSAGE(late << " at lag " << lag << ": " << summary.at("last_start").at("answers").dump() << " "
               << summary.at("ledger").dump());
  return summary;
}

}  // namespace

TEST_CASE("late answers: with \"wait\" none is dropped, and those trained on are as long as all") {
  for (const int lag : {1, 4}) {
    const Json summary = summary_of("wait", lag);
    const Json& answers = summary.at("last_start").at("answers");
    CHECK(summary.at("ledger").at("dropped_stale") == 0);
    CHECK(answers.at("dropped_length").is_null());
    CHECK(answers.at("masked_tokens") == 0);
    CHECK(answers.at("late_wait_seconds") > 0.0);
    // All but the answers that are left over at the end.
    CHECK(answers.at("trained_length").get<double>() ==
          doctest::Approx(answers.at("produced_length").get<double>()).epsilon(0.02));
  }
}

TEST_CASE("late answers: with \"drop\" the ones that are trained on are shorter than others") {
  const Json summary = summary_of("drop", 1);
  const Json& answers = summary.at("last_start").at("answers");
  CHECK(summary.at("ledger").at("dropped_stale") > 0);
  CHECK(answers.at("trained_length") < answers.at("produced_length"));
  CHECK(answers.at("dropped_length") > answers.at("produced_length"));
  CHECK(answers.at("late_wait_seconds") == 0.0);
}

TEST_CASE("late answers: with \"mask\" their old tokens are not trained on, and counted") {
  const Json summary = summary_of("mask", 1);
  const Json& answers = summary.at("last_start").at("answers");
  CHECK(answers.at("masked_tokens") > 0);
  CHECK(answers.at("late_wait_seconds") == 0.0);
}
