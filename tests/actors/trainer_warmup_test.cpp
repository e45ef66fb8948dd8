#include <algorithm>
#include <span>

#include "actors/trainer.h"
#include "tests/actors/one_trainer.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

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
  OneTrainer f(warming_up(3, 0));
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
  OneTrainer f(warming_up(100, 0.5));
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
  OneTrainer f(warming_up(301, 0));
  const std::vector<uint64_t>& points = f.peer.heard->warmup_points;
  REQUIRE(points.size() == 204);  // 127 alone, 64 of two steps, 12 of four, and the last
  CHECK(std::ranges::equal(std::span(points).first(3), std::vector<uint64_t>{1, 2, 3}));
  CHECK(std::ranges::equal(std::span(points).last(3), std::vector<uint64_t>{296, 300, 301}));
}

TEST_CASE("trainer: a stopped warm-up is saved, and a resume continues it") {
  ReplayStart start;
  {
    OneTrainer f(warming_up(100, 0.5));
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
  OneTrainer f(warming_up(100, 0.5), start);
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
  OneTrainer f(config, start);
  f.pass(4s);
  f.peer.tell(f.trainer, Stop{"interrupted"});
  f.run();
  REQUIRE(f.peer.heard->checkpoints.size() == 1);
  CHECK(f.peer.heard->checkpoints[0].learner->scalars.at("stats.time_progress") == 0.25);
}

TEST_CASE("trainer: a warm-up that is not wanted any more ends, and the optimizer begins anew") {
  ReplayStart start;
  start.warmup = {.step = 7, .checked = 5};
  OneTrainer f(warming_up(0, 0.5), start);
  CHECK(f.learner->rates.empty());
  CHECK(f.learner->warmed_up);
  CHECK(f.peer.heard->evaluated.empty());
  CHECK(f.peer.heard->weights == 1);
  CHECK(f.peer.heard->batches_asked == 1);
}

TEST_CASE("trainer: a check of the warm-up that fails leaves pass@1 as it was") {
  OneTrainer f(warming_up(100, 0.5));
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
  OneTrainer f(config);
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

TEST_CASE("trainer: a warm-up of few, slow steps is saved by the time") {
  OneTrainer f(warming_up(100, 0.5));  // checkpoint.every_updates is 50
  const auto& checkpoints = f.peer.heard->checkpoints;
  const auto step_after = [&](std::chrono::seconds time) {  // each step follows a check
    f.pass(time);
    f.peer.tell(f.trainer, check_of(0.1));
    f.run();
  };
  step_after(9s);
  CHECK(checkpoints.empty());
  step_after(1s);
  REQUIRE(checkpoints.size() == 1);
  CHECK(checkpoints[0].learner->scalars.at("warmup.steps") == 7.0);
  CHECK_FALSE(checkpoints[0].last);
  step_after(30s);
  CHECK(checkpoints.size() == 1);  // it is not written yet
  f.peer.tell(f.trainer, CheckpointWritten{});
  step_after(1s);
  CHECK(checkpoints.size() == 1);
}

TEST_CASE("trainer: a warm-up is not saved by the time if checkpoints are only made at the end") {
  RunConfig config = warming_up(100, 0.5);
  config.checkpoint.every_updates = 0;
  OneTrainer f(config);
  f.pass(1h);
  f.peer.tell(f.trainer, check_of(0.1));
  f.run();
  CHECK(f.learner->rates.size() == 6);
  CHECK(f.peer.heard->checkpoints.empty());
}

TEST_CASE("warm-up saves: one is due 10 s after the last was written, or later where writing takes long") {
  WarmupSaves saves;
  WarmupSaves::Clock::time_point now{};
  saves.begin(now);
  CHECK_FALSE(saves.due(now + 9s));
  CHECK(saves.due(now += 10s));
  saves.saving(now);
  saves.written(now += 100ms);
  CHECK_FALSE(saves.due(now + 9s));
  CHECK(saves.due(now += 10s));
  saves.saving(now);
  saves.written(now += 2s);
  CHECK_FALSE(saves.due(now + 39s));
  CHECK(saves.due(now + 40s));
}

TEST_CASE("trainer: a warm-up that diverges ends the run without a checkpoint") {
  OneTrainer f(warming_up(100, 0.5));
  f.peer.tell(f.trainer, check_of(0, true));
  f.run();
  const Heard& heard = *f.peer.heard;
  REQUIRE(heard.ended.size() == 1);
  CHECK(heard.ended[0].error ==
        "warmup.policy_lr: 0.5 makes the warm-up diverge: logits are not finite after 5 steps; use a smaller rate");
  CHECK_FALSE(heard.ended[0].weights);
  CHECK(heard.checkpoints.empty());
}
