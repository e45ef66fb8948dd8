#include "actors/trainer.h"

#include <algorithm>
#include <span>

#include "actors/evaluator.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/actors/one_actor.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// Records the progress that is passed to each update.
class RecordingLearner final : public sim::WholeUpdateLearner {
 public:
  explicit RecordingLearner(sim::World& world) : fake_(world, 0) {}
  std::shared_ptr<const Signature> saved_signature() const override { return fake_.saved_signature(); }
  std::shared_ptr<const Signature> published_signature() const override { return fake_.published_signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return fake_.snapshot(version); }
  std::shared_ptr<const Stager> stager() const override { return fake_.stager(); }
  UpdateReport update_with(StagedBatch&, double progress) override {
    seen.push_back(progress);
    return report;
  }
  double imitate(StagedBatch&, double rate) override {
    rates.push_back(rate);
    return 2;
  }
  void end_warmup() override { warmed_up = true; }
  LearnerState save() const override { return fake_.save(); }
  void begin_from(const std::map<std::string, Array>& model) override { fake_.begin_from(model); }
  void load(const LearnerState& state) override { fake_.load(state); }

  std::vector<double> seen;
  std::vector<double> rates;  // of warm-up steps
  bool warmed_up = false;
  UpdateReport report{.steps = 1};

 private:
  sim::FakeLearner fake_;
};

RunConfig limited(double seconds, int64_t updates = 0) {
  RunConfig config;
  config.stop.env_steps = 0;
  config.stop.updates = updates;
  config.stop.seconds = seconds;
  return config;
}

struct Fixture : OneActor {
  explicit Fixture(const RunConfig& config, const ReplayStart& start = {})
      : OneActor(config), learner(std::make_shared<RecordingLearner>(world)) {
    if (config.warmup.steps > 0) context->tokens = sim::fake_token_run(world);
    const auto all = add_peer();
    trainer =
        keep(system->spawn(troupe::trainer, RunContextPtr(context), std::shared_ptr<Learner>(learner), start,
                           TrainerPeers{all.as<PrefetcherActor>(), all.as<ReplayActor>(), all.as<PublisherActor>(),
                                        all.as<RecorderActor>(), all.as<EvaluatorActor>(), all.as<StatsActor>(),
                                        all.as<decltype(TrainerPeers::supervisor)>()}));
    peer = all;
    peer.tell(trainer, begin_atom_v);
    run();
  }
  void update() {
    StagedMessage staged;
    staged.batch = learner->stager()->stage(SuperBatch{.index = learner->seen.size()});
    peer.tell(trainer, std::move(staged));
    run();
  }

  std::shared_ptr<RecordingLearner> learner;
  TrainerActor trainer;
  Peer peer;
};

}  // namespace

TEST_CASE("trainer: with stop.seconds as the only limit the schedules follow the time") {
  Fixture f(limited(8));
  f.update();
  f.pass(2s);
  f.update();
  f.pass(4s);
  f.update();
  CHECK(f.learner->seen == std::vector<double>{0, 0.25, 0.75});
}

TEST_CASE("trainer: schedules follow updates or time, whichever has progressed further") {
  Fixture f(limited(8, 5));
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
  Fixture f(limited(8), start);
  f.update();
  f.pass(4s);
  f.update();
  CHECK(f.learner->seen == std::vector<double>{0.5, 0.75});
}

TEST_CASE("trainer: only the first update with skipped optimizer steps logs a warning") {
  Fixture f(limited(0, 100));
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
    Fixture f(config);
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
  Fixture f(with_max_skipped(3));
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
  Fixture f(with_max_skipped(2));
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
  Fixture f(config);
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
  Fixture f(config);
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
  Fixture f(config);
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
    Fixture f(config);
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
  Fixture f(config, start);
  CHECK(f.peer.heard->evaluated == std::vector<uint64_t>{20, 40});
  CHECK(f.peer.heard->batches_asked == 1);  // training does not wait for them
}

namespace {

RunConfig warming_up(int64_t steps, double pass_at_1) {
  RunConfig config = limited(0, 100);
  config.model.kind = kDecoderKind;  // a run that has demonstrations
  config.warmup = {.steps = steps, .batch = 2, .learning_rate = 0.5, .pass_at_1 = pass_at_1};
  return config;
}

Evaluation check_of(double success_rate, bool not_finite = false) {
  Evaluation check;
  check.of_warmup = true;
  check.success_rate = success_rate;
  check.not_finite = not_finite;
  if (not_finite) check.error = "logits are not finite";
  return check;
}

}  // namespace

TEST_CASE("trainer: nothing is published and no super-batch asked for before the warm-up is over") {
  Fixture f(warming_up(3, 0));
  CHECK(f.learner->rates == std::vector<double>{0.5, 0.5, 0.5});
  CHECK(f.learner->warmed_up);
  CHECK(f.learner->seen.empty());
  const Heard& heard = *f.peer.heard;
  REQUIRE(heard.warmup.size() == 5);  // at the start, after each step, and at the end
  CHECK(heard.warmup.front().step == 0);
  CHECK(heard.warmup.back().step == 3);
  CHECK(heard.warmup.back().loss == 2.0);
  CHECK(heard.warmup.back().complete);
  CHECK_FALSE(heard.warmup[3].complete);
  CHECK(heard.weights == 1);
  CHECK(heard.batches_asked == 1);
  REQUIRE(heard.checkpoints.size() == 1);
  CHECK(heard.checkpoints[0].version.number == 0);
  CHECK(heard.checkpoints[0].learner->scalars.at("warmup.steps") == 3.0);
  CHECK_FALSE(heard.checkpoints[0].learner->scalars.contains("warmup.checked"));
}

TEST_CASE("trainer: the warm-up waits for its checks, and ends when enough prompts are answered right") {
  Fixture f(warming_up(100, 0.5));
  const Heard& heard = *f.peer.heard;
  const auto check = [&](double right) {
    f.peer.tell(f.trainer, check_of(right));
    f.run();
  };
  CHECK(f.learner->rates.size() == 5);
  CHECK(heard.evaluated == std::vector<uint64_t>{0});
  check(0);  // none is right: the next check is after five steps
  CHECK(f.learner->rates.size() == 10);
  CHECK(heard.warmup_points == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9});  // a step is one when it is checked
  check(0.2);  // some are right: the next check is after one step
  CHECK(f.learner->rates.size() == 11);
  CHECK(heard.weights == 0);
  CHECK(heard.batches_asked == 0);
  check(0.5);
  CHECK(f.learner->rates.size() == 11);
  CHECK(heard.evaluated.size() == 3);
  CHECK(heard.warmup.back().pass_at_1 == 0.5);
  CHECK(heard.warmup.back().complete);
  CHECK(heard.warmup_points == std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  CHECK(heard.weights == 1);
  CHECK(heard.batches_asked == 1);
}

TEST_CASE("warm-up: it ends with an error when no answer gets a score in three checks in a row") {
  auto run = std::make_shared<RunSpec>();
  run->config = warming_up(100, 0.5);
  Warmup warmup(run, {.step = 5});
  Evaluation failed = check_of(kUnknown);
  failed.failed_episodes = 64;
  failed.error = "no answer has a score; the last problem: the verifier ended";
  warmup.take_check(failed);
  warmup.take_check(failed);
  Evaluation lost = check_of(kUnknown);
  lost.error = "given up";  // which says nothing of scores
  warmup.take_check(lost);
  warmup.take_check(failed);
  warmup.take_check(failed);
  CHECK_THROWS_WITH_AS(warmup.take_check(failed),
                       "warmup.pass_at_1: no answer has got a score in 3 checks in a row: no answer has a score; the "
                       "last problem: the verifier ended",
                       ConfigError);
}

TEST_CASE("trainer: later steps of a long warm-up are fewer points of its curves, and its last step is one") {
  Fixture f(warming_up(301, 0));
  const std::vector<uint64_t>& points = f.peer.heard->warmup_points;
  REQUIRE(points.size() == 204);  // 127 alone, 64 of two steps, 12 of four, and the last
  CHECK(std::ranges::equal(std::span(points).first(3), std::vector<uint64_t>{1, 2, 3}));
  CHECK(std::ranges::equal(std::span(points).last(3), std::vector<uint64_t>{296, 300, 301}));
}

TEST_CASE("trainer: a stopped warm-up is saved, and a resume continues it") {
  ReplayStart start;
  {
    Fixture f(warming_up(100, 0.5));
    f.peer.tell(f.trainer, Stop{"interrupted"});
    f.run();
    const Heard& heard = *f.peer.heard;
    REQUIRE(heard.ended.size() == 1);
    CHECK(heard.ended[0].reason == "interrupted");
    CHECK(heard.weights == 0);
    REQUIRE(heard.checkpoints.size() == 1);
    CHECK(heard.checkpoints[0].last);
    const auto& scalars = heard.checkpoints[0].learner->scalars;
    CHECK(scalars.at("warmup.steps") == 5.0);
    CHECK(scalars.at("warmup.checked") == 0.0);
    start.warmup = {.step = 5, .checked = 0};
    f.peer.tell(f.trainer, check_of(1));  // comes too late
    f.run();
    CHECK(heard.weights == 0);
  }
  Fixture f(warming_up(100, 0.5), start);
  CHECK(f.learner->rates.empty());
  CHECK(f.peer.heard->evaluated.size() == 1);
  f.peer.tell(f.trainer, check_of(0.1));
  f.run();
  CHECK(f.learner->rates.size() == 1);
  CHECK(f.peer.heard->warmup.back().step == 6);
}

TEST_CASE("trainer: a warm-up takes no time from stop.seconds") {
  RunConfig config = warming_up(100, 0.5);
  config.stop.seconds = 8;
  ReplayStart start;
  start.time_progress = 0.25;
  Fixture f(config, start);
  f.pass(4s);
  f.peer.tell(f.trainer, Stop{"interrupted"});
  f.run();
  REQUIRE(f.peer.heard->checkpoints.size() == 1);
  CHECK(f.peer.heard->checkpoints[0].learner->scalars.at("stats.time_progress") == 0.25);
}

TEST_CASE("trainer: a warm-up that is not wanted any more ends, and the optimizer begins anew") {
  ReplayStart start;
  start.warmup = {.step = 7, .checked = 5};
  Fixture f(warming_up(0, 0.5), start);
  CHECK(f.learner->rates.empty());
  CHECK(f.learner->warmed_up);
  CHECK(f.peer.heard->evaluated.empty());
  CHECK(f.peer.heard->weights == 1);
  CHECK(f.peer.heard->batches_asked == 1);
}

TEST_CASE("trainer: a check of the warm-up that fails leaves pass@1 as it was") {
  Fixture f(warming_up(100, 0.5));
  const auto check = [&](Evaluation result) {
    f.peer.tell(f.trainer, std::move(result));
    f.run();
  };
  check(check_of(0.25));
  Evaluation failed = check_of(1);
  failed.error = "no episode ended";
  check(failed);
  CHECK(f.learner->rates.size() == 7);
  CHECK(f.peer.heard->warmup.back().pass_at_1 == 0.25);
  CHECK_FALSE(f.learner->warmed_up);
}

TEST_CASE("trainer: the end of a warm-up is saved, also while its last step is being written") {
  RunConfig config = warming_up(4, 0);
  config.checkpoint.every_updates = 3;
  Fixture f(config);
  const auto& checkpoints = f.peer.heard->checkpoints;
  REQUIRE(checkpoints.size() == 1);
  CHECK(checkpoints[0].learner->scalars.at("warmup.steps") == 3.0);
  CHECK(checkpoints[0].learner->scalars.contains("warmup.checked"));
  f.peer.tell(f.trainer, CheckpointWritten{});
  f.run();
  REQUIRE(checkpoints.size() == 2);
  CHECK(checkpoints[1].learner->scalars.at("warmup.steps") == 4.0);
  CHECK_FALSE(checkpoints[1].learner->scalars.contains("warmup.checked"));
}

TEST_CASE("trainer: a warm-up that diverges ends the run without a checkpoint") {
  Fixture f(warming_up(100, 0.5));
  f.peer.tell(f.trainer, check_of(0, true));
  f.run();
  const Heard& heard = *f.peer.heard;
  REQUIRE(heard.ended.size() == 1);
  CHECK(heard.ended[0].error ==
        "warmup.policy_lr: 0.5 makes the warm-up diverge: logits are not finite after 5 steps; use a smaller rate");
  CHECK_FALSE(heard.ended[0].weights);
  CHECK(heard.checkpoints.empty());
}

TEST_CASE("trainer: a run without a warm-up has no word of it in its checkpoints") {
  Fixture f(limited(0, 1));
  f.update();
  REQUIRE(f.peer.heard->checkpoints.size() == 1);
  for (const auto& [name, value] : f.peer.heard->checkpoints[0].learner->scalars)
    CHECK(name.find("warmup") == std::string::npos);
}
