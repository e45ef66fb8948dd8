// Warm-ups of real processes that are killed.
#include <signal.h>

#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("warm-up: killed before checkpoint.every_updates steps, it resumes from its last save by time") {
  TempFolder folder;
  const Words line = set({"warmup.pass_at_1=0", "checkpoint.every_updates=1000000000", "stop.updates=1"});
  {
    Process killed(token_train_line(folder.path(), line + set({"warmup.steps=10000000"})));
    REQUIRE(eventually([&] { return checkpoints_of(folder / "run") == std::vector<uint64_t>{0}; }));
    killed.signal(SIGKILL);
    CHECK(killed.wait().value_or(-1) == 128 + SIGKILL);
  }
  TokenTrainProcess run(folder.path(), line + set({"warmup.steps=1"}));  // so that it ends at once
  REQUIRE(run.process().wait().value_or(-1) == 0);
  CHECK(has(run.process().out(), "resuming at update 0, in the warm-up after step "));
  CHECK(run.summary().at("warmup").at("steps") > 1);
}
