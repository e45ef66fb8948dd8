#include "tools/bench/verdict_cases.h"

#include <utility>

#include "runtime/base/machine.h"
#include "tools/bench/support.h"

namespace troupe {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A small run in which nothing is slow: 2 workers with 2 groups of 4 rows, and room for samples of several versions.
SlowRun small_run() {
  SlowRun run{bench_config(4), {.step = microseconds(200), .forward = microseconds(200)}};
  run.config.workers.count = 2;
  run.config.workers.groups = 2;
  run.config.inference.batch_size = 64;
  run.config.rollout.length = 16;
  run.config.model.hidden = {16};
  run.config.trainer.super_batch = 256;
  run.config.trainer.epochs = 1;
  run.config.trainer.minibatches = 1;
  run.config.replay.max_policy_lag = 4;
  run.config.stats.interval = milliseconds(250);
  return run;
}

// Both changes are made to the small run, the second one to what the first has made.
VerdictCase make_case(std::string name, Resource right, std::string change, void (*build)(SlowRun&),
                      void (*advise)(SlowRun&)) {
  VerdictCase result{std::move(name), right, std::move(change), small_run(), {}};
  build(result.run);
  result.advised = result.run;
  advise(result.advised);
  return result;
}

void one_worker(SlowRun& run) {
  run.config.workers.count = 1;
  run.costs.step = milliseconds(4);
}

void one_group(SlowRun& run) {
  run.config.workers.count = run.config.workers.groups = 1;
  run.costs.step = run.costs.forward = milliseconds(2);
}

// Some group is in a long step most of the time, for which the others wait until the deadline.
void long_deadline(SlowRun& run) {
  run.config.workers.count = 8;
  run.config.workers.groups = 1;
  run.config.inference.timeout = milliseconds(15);
  run.config.replay.max_policy_lag = 8;
  run.costs.stall = milliseconds(40);
  run.costs.stall_probability = 0.1;
}

// A batch has the requests of two groups at most, with rows for values as well as for actions.
void small_batches(SlowRun& run) {
  run.config.workers.groups = 4;
  run.config.inference.batch_size = 4;
  run.config.inference.max_batch = 8;
  run.costs.forward = milliseconds(2);
}

// Sampling a super-batch takes about as long as an update.
void turns(SlowRun& run) {
  run.config.workers.count = 1;
  run.config.trainer.super_batch = 128;
  run.config.replay.max_policy_lag = 0;
  run.costs.step = milliseconds(2);
  run.costs.update = milliseconds(60);
}

// Updates take no time, so that samples are drawn again and again.
void many_draws(SlowRun& run) {
  run.config.trainer.super_batch = 16'384;
  run.config.replay.mode = "reuse";
  run.config.replay.draw = "sample";
  run.config.replay.max_reuse = 1'000'000;
  run.config.replay.max_policy_lag = 1'000'000;
  run.config.replay.capacity = 65'536;
  run.costs.learns = false;
}

void slow_saves(SlowRun& run) {
  run.config.checkpoint.every_updates = 1;
  run.costs.update = milliseconds(20);
  run.costs.save = milliseconds(200);
}

void crowded(SlowRun& run) {
  run.config.workers.count = run.config.workers.groups = 1;
  run.costs.busy = true;
  run.costs.step = milliseconds(1);
  run.costs.other_programs = 2 * static_cast<int>(processors());
}

// Updates wait for the rollouts of the slow worker.
void straggler(SlowRun& run) {
  run.config.workers.count = 3;
  run.config.workers.groups = 1;
  run.config.replay.late = "wait";
  run.config.replay.max_policy_lag = 1;
  run.costs.step = milliseconds(1);
  run.costs.first_step = milliseconds(40);
}

}  // namespace

std::vector<VerdictCase> verdict_cases() {
  return {
      make_case("slow environment", Resource::env_stepping, "a second worker", one_worker,
                [](SlowRun& run) { run.config.workers.count = 2; }),
      make_case("few environments", Resource::workers, "a second group, inference.batch_size 4", one_group,
                [](SlowRun& run) {
                  run.config.workers.groups = 2;
                  run.config.inference.batch_size = 4;
                }),
      make_case(
          "slow forward pass", Resource::inference, "a model of half the time",
          [](SlowRun& run) { run.costs.forward = milliseconds(10); },
          [](SlowRun& run) { run.costs.forward = milliseconds(5); }),
      make_case("long deadline", Resource::deadline, "inference.timeout_us 1000", long_deadline,
                [](SlowRun& run) { run.config.inference.timeout = milliseconds(1); }),
      make_case("small batches", Resource::batch_size, "inference.batch_size 32", small_batches,
                [](SlowRun& run) {
                  run.config.inference.batch_size = 32;
                  run.config.inference.max_batch = 64;
                }),
      make_case(
          "slow update", Resource::trainer, "a device of half the time",
          [](SlowRun& run) { run.costs.update = milliseconds(100); },
          [](SlowRun& run) { run.costs.update = milliseconds(50); }),
      make_case("lag cap", Resource::lag_cap, "replay.max_policy_lag 1", turns,
                [](SlowRun& run) { run.config.replay.max_policy_lag = 1; }),
      make_case("replay buffer", Resource::replay, "replay.draw column", many_draws,
                [](SlowRun& run) { run.config.replay.draw = "column"; }),
      make_case("slow disk", Resource::disk, "checkpoint.every_updates 50", slow_saves,
                [](SlowRun& run) { run.config.checkpoint.every_updates = 50; }),
      make_case("crowded processors", Resource::oversubscribed, "no other programs", crowded,
                [](SlowRun& run) { run.costs.other_programs = 0; }),
      make_case("slow worker", Resource::straggler, "without it", straggler,
                [](SlowRun& run) {
                  run.config.workers.count = 2;
                  run.costs.first_step = microseconds(0);
                }),
  };
}

}  // namespace troupe
