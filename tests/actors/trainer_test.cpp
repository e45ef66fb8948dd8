#include "actors/trainer.h"

#include <algorithm>

#include "actors/evaluator.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST_CASE("trainer: with stop.seconds as the only limit the schedules follow the time") {
  OneTrainer f(limited(8));
  f.update();
  f.pass(2s);
  f.update();
  f.pass(4s);
  f.update();
  CHECK(f.learner->seen == std::vector<double>{0, 0.25, 0.75});
}

TEST_CASE("trainer: schedules follow updates or time, whichever has progressed further") {
  OneTrainer f(limited(8, 5));
  f.update();
  f.update();
  f.pass(4s);
  f.update();
  CHECK(f.learner->seen == std::vector<double>{0, 0.2, 0.5});
}

TEST_CASE("trainer: the schedules of a resumed run continue from the progress of the interrupted one") {
  ReplayStart start;
  start.totals.elapsed_seconds = 4;
  start.time_progress = 0.5;
  OneTrainer f(limited(8), start);
  f.update();
  f.pass(4s);
  f.update();
  CHECK(f.learner->seen == std::vector<double>{0.5, 0.75});
}

TEST_CASE("trainer: only the first update with skipped optimizer steps logs a warning") {
  OneTrainer f(limited(0, 100));
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.update();
  CHECK(disk.read("log") == "");
  f.learner->report = {.steps = 3, .skipped = 13};
  f.update();
  f.learner->report = {.steps = 0, .skipped = 16};
  f.update();
  const std::string log = disk.read("log");
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  CHECK(log.find("warning trainer: update 2: 13 of 16 optimizer steps were skipped") != std::string::npos);
  CHECK(log.find("env.reward_scale") != std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer: the warning of skipped steps names settings that the run has") {
  const auto log_of = [](const std::string& critic) {
    RunConfig config = limited(0, 100);
    config.model.kind = "decoder";
    config.model.critic = critic;
    OneTrainer f(config);
    MemoryDisk disk;
    open_log(disk.open_append("log"), {.to_stderr = false});
    f.learner->report = {.steps = 3, .skipped = 13};
    f.update();
    open_log(nullptr, {.to_stderr = false});
    return disk.read("log");
  };
  const std::string begin = "check the size of the rewards (algorithm.reward_clip) and the learning rate";
  CHECK(log_of("none").find(begin + " (trainer.policy_lr). ") != std::string::npos);
  CHECK(log_of("shared").find(begin + "s (trainer.policy_lr, trainer.value_lr). ") != std::string::npos);
}

namespace {

const UpdateReport kApplied = {.steps = 1, .skipped = 15, .epochs = 1, .metrics = {}},
                   kSkipped = {.steps = 0, .skipped = 16, .epochs = 1, .metrics = {}}, kEmpty = {};

RunConfig with_max_skipped(int64_t updates) {
  RunConfig config = limited(0, 100);
  config.trainer.max_skipped = updates;
  config.algorithm.incomplete = "drop";
  return config;
}

}  // namespace

TEST_CASE("trainer: a run ends after trainer.max_skipped updates in a row that skipped every step") {
  OneTrainer f(with_max_skipped(3));
  const auto update = [&](const UpdateReport& report) {
    f.learner->report = report;
    f.update();
  };
  update(kSkipped);
  update(kSkipped);
  update(kApplied);  // one applied step restarts the count
  update(kSkipped);
  update(kEmpty);  // an update without optimizer steps does not restart the count
  update(kSkipped);
  REQUIRE(f.peer.heard->ended.empty());
  update(kSkipped);
  REQUIRE(f.peer.heard->ended.size() == 1);
  CHECK(f.peer.heard->ended[0].reason == "non-finite updates");
  CHECK(f.peer.heard->ended[0].error == "3 updates in a row were not finite, the last at update 7");
  std::vector<bool> failed;
  for (const UpdateMessage& message : f.peer.heard->updates) failed.push_back(message.failed);
  CHECK(failed == std::vector<bool>{true, true, false, true, false, true, true});
}

TEST_CASE("trainer: updates with nothing to train on log one warning and do not end the run") {
  OneTrainer f(with_max_skipped(2));
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.learner->report = kEmpty;
  for (int i = 0; i < 5; ++i) f.update();
  CHECK(f.peer.heard->ended.empty());
  CHECK(f.peer.heard->updates.size() == 5);
  for (const UpdateMessage& message : f.peer.heard->updates) CHECK_FALSE(message.failed);
  const std::string log = disk.read("log");
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  CHECK(log.find("warning trainer: update 1: nothing to train on in a super-batch of 0 samples") != std::string::npos);
  CHECK(log.find("algorithm.incomplete \"drop\"") != std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer: waits while as many evaluations are open as memory may hold, and goes on when one has ended") {
  RunConfig config = limited(0, 1000);
  config.evaluation.every_updates = 1;
  OneTrainer f(config);
  const uint64_t most = most_open_evaluations(f.learner->snapshot({})->flat.bytes());
  for (uint64_t i = 0; i < most; ++i) {
    CHECK(f.peer.heard->batches_asked == i + 1);
    f.update();
  }
  CHECK(f.peer.heard->batches_asked == most);  // the next one is not asked for
  f.pass(7s);
  f.peer.tell(f.trainer, Evaluation{.version = {0, 1}, .return_mean = 1});
  f.run();
  CHECK(f.peer.heard->batches_asked == most + 1);
  f.pass(2s);
  f.update();
  CHECK(f.peer.heard->updates.back().evaluation_wait_seconds == 7);
  CHECK(f.peer.heard->updates.back().wait_seconds == 9);  // that for data included
  CHECK(f.peer.heard->updates[0].evaluation_wait_seconds == 0);
  CHECK(f.peer.heard->batches_asked == most + 1);
  f.peer.tell(f.trainer, Evaluation{.version = {0, 2}, .error = "no episode ended"});
  f.run();
  CHECK(f.peer.heard->batches_asked == most + 2);
}

namespace {

std::vector<uint64_t> updates_of(const std::vector<CheckpointMessage>& checkpoints) {
  std::vector<uint64_t> result;
  for (const CheckpointMessage& message : checkpoints) result.push_back(message.version.number);
  return result;
}

}  // namespace

TEST_CASE("trainer: waits when a checkpoint is due before the last one is written, and warns once") {
  RunConfig config = limited(0, 100);
  config.checkpoint.every_updates = 1;
  OneTrainer f(config);
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  f.update();
  CHECK(f.peer.heard->batches_asked == 2);
  for (uint64_t number = 2; number < 5; ++number) {
    f.update();
    CHECK(f.peer.heard->batches_asked == number);  // the next one is not asked for
    f.peer.tell(f.trainer, CheckpointWritten{{0, number - 1}, false, number == 3 ? "disk full" : ""});
    f.run();
    CHECK(f.peer.heard->batches_asked == number + 1);
  }
  CHECK(updates_of(f.peer.heard->checkpoints) == std::vector<uint64_t>{1, 2, 3, 4});
  f.update();
  f.peer.tell(f.trainer, Stop{"interrupted"});
  f.run();
  REQUIRE(f.peer.heard->checkpoints.size() == 5);
  CHECK(f.peer.heard->checkpoints.back().last);
  CHECK(f.peer.heard->checkpoints.back().version.number == 5);
  f.peer.tell(f.trainer, CheckpointWritten{{0, 4}, false, {}});
  f.run();
  CHECK(f.peer.heard->checkpoints.size() == 5);
  const std::string log = disk.read("log");
  CHECK(std::count(log.begin(), log.end(), '\n') == 1);
  CHECK(log.find("update 2: training waits until the checkpoint before this one is written") != std::string::npos);
  open_log(nullptr, {.to_stderr = false});
}

TEST_CASE("trainer: reports how long it waited for the disk, as a part of its wait") {
  RunConfig config = limited(0, 100);
  config.checkpoint.every_updates = 1;
  OneTrainer f(config);
  f.update();
  f.update();
  f.pass(3s);
  f.peer.tell(f.trainer, CheckpointWritten{{0, 1}, false, {}});
  f.run();
  f.pass(1s);
  f.update();
  REQUIRE(f.peer.heard->updates.size() == 3);
  CHECK(f.peer.heard->updates[2].update_seconds == 0);
  CHECK(f.peer.heard->updates[2].wait_seconds == 4);
  CHECK(f.peer.heard->updates[2].checkpoint_wait_seconds == 3);
  CHECK(f.peer.heard->updates[1].checkpoint_wait_seconds == 0);
}

TEST_CASE("trainer: time in which both evaluations and the disk hold training is counted once") {
  RunConfig config = limited(0, 1000);
  config.evaluation.every_updates = config.checkpoint.every_updates = 1;
  for (const bool disk_first : {true, false}) {
    CAPTURE(disk_first);
    OneTrainer f(config);
    const auto written = [&] {
      f.peer.tell(f.trainer, CheckpointWritten{{0, 1}, false, {}});
      f.run();
    };
    const auto evaluated = [&] {
      f.peer.tell(f.trainer, Evaluation{.version = {0, 1}, .return_mean = 1});
      f.run();
    };
    const uint64_t most = most_open_evaluations(f.learner->snapshot({})->flat.bytes());
    for (uint64_t i = 0; i < most; ++i) {
      f.update();
      if (i + 2 < most) written();
    }
    CHECK(f.peer.heard->batches_asked == most);  // held by both
    f.pass(3s);
    disk_first ? written() : evaluated();
    f.pass(4s);
    CHECK(f.peer.heard->batches_asked == most);
    disk_first ? evaluated() : written();
    CHECK(f.peer.heard->batches_asked == most + 1);
    f.pass(2s);
    f.update();
    const UpdateMessage& update = f.peer.heard->updates.back();
    CHECK(update.wait_seconds == 9);
    CHECK(update.evaluation_wait_seconds == (disk_first ? 7 : 3));
    CHECK(update.checkpoint_wait_seconds == (disk_first ? 0 : 4));
  }
}

TEST_CASE("trainer: the evaluations that an earlier start left open are made first") {
  RunConfig config = limited(0, 1000);
  config.evaluation.every_updates = 1;
  ReplayStart start;
  for (const uint64_t updates : {20, 40}) {
    auto weights = std::make_shared<WeightSnapshot>();
    weights->version = {0, updates};
    start.evaluations.push_back(weights);
  }
  OneTrainer f(config, start);
  CHECK(f.peer.heard->evaluated == std::vector<uint64_t>{20, 40});
  CHECK(f.peer.heard->batches_asked == 1);  // training does not wait for them
}

TEST_CASE("trainer: a run without a warm-up has no word of it in its checkpoints") {
  OneTrainer f(limited(0, 1));
  f.update();
  REQUIRE(f.peer.heard->checkpoints.size() == 1);
  for (const auto& [name, value] : f.peer.heard->checkpoints[0].learner->scalars)
    CHECK(name.find("warmup") == std::string::npos);
}
