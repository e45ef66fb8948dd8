#include "actors/resume.h"

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

Checkpoint checkpoint_of(uint64_t updates, uint64_t env_steps, uint64_t produced) {
  Checkpoint checkpoint;
  checkpoint.version.number = checkpoint.updates = updates;
  checkpoint.env_steps = env_steps;
  checkpoint.scalars = {{"updates", static_cast<double>(updates)}, {"ledger.produced", static_cast<double>(produced)}};
  return checkpoint;
}

std::string refusal(const Checkpoint& checkpoint, uint64_t steps_per_sample = 1) {
  try {
    check_counts(checkpoint, steps_per_sample);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("resume: a checkpoint with environment steps that do not fit its samples is refused with both numbers") {
  CHECK(refusal(checkpoint_of(0, 0, 0)) == "");
  CHECK(refusal(checkpoint_of(3, 6144, 6144)) == "");
  CHECK(refusal(checkpoint_of(3, 10'000, 6144), 4) == "");
  const std::string end = " for the samples of its scalar ledger.produced";
  CHECK(refusal(checkpoint_of(3, 6145, 6144)) == "its state.env_steps is 6145, expected 6144" + end);
  CHECK(refusal(checkpoint_of(3, 0, 6144)) == "its state.env_steps is 0, expected 6144" + end);
  CHECK(refusal(checkpoint_of(3, 7, 0), 4) == "its state.env_steps is 7, expected 0" + end);
  CHECK(refusal(checkpoint_of(3, 24'577, 6144), 4) == "its state.env_steps is 24577, expected 6144 to 24576" + end);
  CHECK(refusal(checkpoint_of(3, UINT64_MAX, 6144), 4) != "");
}

TEST_CASE("resume: a checkpoint is refused if the learner's number of updates is missing or another") {
  Checkpoint checkpoint = checkpoint_of(3, 6144, 6144);
  checkpoint.scalars["updates"] = 4;
  CHECK(refusal(checkpoint) == "its scalar updates is 4, expected 3 like state.updates");
  checkpoint.scalars["updates"] = -1;
  CHECK(refusal(checkpoint) == "its scalar updates is missing or not a count");
  checkpoint.scalars.erase("updates");
  CHECK(refusal(checkpoint) == "its scalar updates is missing or not a count");
}

TEST_CASE("resume: a checkpoint of an older version without a ledger is accepted") {
  Checkpoint checkpoint = checkpoint_of(3, 6144, 6144);
  checkpoint.scalars.erase("ledger.produced");
  CHECK(refusal(checkpoint) == "");
}

TEST_CASE("resume: a checkpoint holds the newest failed evaluation, if there is one") {
  CheckpointMessage message;
  Checkpoint checkpoint;
  put_counts(checkpoint, message);
  CHECK(!checkpoint.extras.contains("stats.failed_evaluations"));
  message.totals.failed_evaluations = {.count = 2, .updates = 4, .episodes = 3, .error = "no row"};
  put_counts(checkpoint, message);
  const FailedEvaluations saved = failed_evaluations_of(checkpoint.extras.at("stats.failed_evaluations"));
  CHECK(to_json(saved) == to_json(message.totals.failed_evaluations));
}
