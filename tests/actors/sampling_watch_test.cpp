#include "actors/sampling_watch.h"

#include "actors/experience/answers/answer_words.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct Driven {
  SamplingWatch watch{60s};
  SamplingWatch::Clock::time_point now{};

  void fail_for(std::initializer_list<uint64_t> workers, std::chrono::seconds time) {
    for (const auto end = now + time; now < end; now += 1s)
      for (const uint64_t worker : workers) watch.failing(worker, "row 0: broken", now);
  }
  void step(uint64_t worker, uint64_t env_steps, std::chrono::microseconds stepping = 0s) {
    watch.stepped(worker, env_steps, stepping, now);
  }
  bool failed() const { return watch.verdict(now).has_value(); }
};

}  // namespace

TEST_CASE("sampling_watch: a run without workers waits forever") {
  Driven run;
  run.now += 24h;
  CHECK(!run.failed());
}

TEST_CASE("sampling_watch: if every worker fails for the whole time, the reason contains the environment's error") {
  Driven run;
  run.watch.joined(0, run.now);
  run.watch.joined(1, run.now);
  run.fail_for({0, 1}, 60s);
  const auto verdict = run.watch.verdict(run.now);
  REQUIRE(verdict);
  CHECK(verdict->find("row 0: broken") != std::string::npos);
  CHECK(verdict->find("workers.failure_timeout_ms") != std::string::npos);
}

TEST_CASE("sampling_watch: the time counts from the first failure, not from the start of the run") {
  Driven run;
  run.now += 1h;
  run.watch.joined(0, run.now);
  run.fail_for({0}, 59s);
  CHECK(!run.failed());
  run.fail_for({0}, 1s);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: one step of one worker restarts the time") {
  Driven run;
  run.watch.joined(0, run.now);
  run.watch.joined(1, run.now);
  run.fail_for({0, 1}, 50s);
  run.step(1, 1);
  run.fail_for({0, 1}, 59s);
  CHECK(!run.failed());
  run.step(1, 1);  // the same count as before: no new step
  run.fail_for({0, 1}, 1s);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: samples that arrive restart the time") {
  Driven run;
  run.watch.joined(0, run.now);
  run.fail_for({0}, 59s);
  run.watch.sampled(run.now);
  run.fail_for({0}, 59s);
  CHECK(!run.failed());
}

TEST_CASE("sampling_watch: a worker that is silent or has no work keeps the run alive until it leaves") {
  Driven run;
  run.watch.joined(0, run.now);
  run.watch.joined(1, run.now);
  run.fail_for({0}, 600s);
  CHECK(!run.failed());
  run.watch.left(1, /*failed=*/false);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: workers that end with an error before they join, or soon after, count") {
  Driven run;
  for (uint64_t worker = 0; worker < 70; ++worker) {
    run.watch.failing(worker, "cannot be made", run.now);
    run.now += 1s;
  }
  CHECK(run.failed());
  run.watch.joined(70, run.now);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: after its last worker left while failing, a run waits for another worker") {
  Driven run;
  run.watch.joined(0, run.now);
  run.fail_for({0}, 5s);
  run.watch.left(0, /*failed=*/false);  // the worker was killed
  run.now += 55s;
  CHECK(!run.failed());
  run.now += 240s;
  CHECK(!run.failed());
  run.watch.joined(1, run.now);
  run.fail_for({1}, 59s);
  CHECK(!run.failed());
  run.fail_for({1}, 1s);
  CHECK(run.failed());
}

TEST_CASE(
    "sampling_watch: the time continues if the last worker ended with an error, and restarts if it left the run") {
  for (const bool failed : {true, false}) {
    CAPTURE(failed);
    Driven run;
    run.watch.joined(0, run.now);
    run.fail_for({0}, 55s);
    run.watch.left(0, failed);
    run.now += 1s;
    run.watch.joined(1, run.now);
    run.fail_for({1}, 10s);
    CHECK(run.failed() == failed);
  }
}

TEST_CASE("sampling_watch: a worker that leaves while another one fails does not restart the time") {
  Driven run;
  run.watch.joined(0, run.now);
  run.watch.joined(1, run.now);
  run.fail_for({0, 1}, 55s);
  run.watch.left(1, /*failed=*/false);
  run.fail_for({0}, 5s);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: the time continues during the pauses of a worker that is restarted") {
  Driven run;
  for (uint64_t worker = 0; worker < 7; ++worker) {
    CHECK(!run.failed());
    run.watch.joined(worker, run.now);
    run.watch.failing(worker, "row 0: broken", run.now);
    run.watch.left(worker, /*failed=*/true);
    if (worker < 6) run.now += 10s;
  }
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: with patience 0 it never fails") {
  Driven run;
  run.watch = SamplingWatch{0s};
  run.watch.joined(0, run.now);
  run.fail_for({0}, 1000s);
  CHECK(!run.failed());
}

TEST_CASE("sampling_watch: a worker that is silent after a failure may be inside a step, so the run waits for it") {
  Driven run;
  run.watch.joined(0, run.now);
  run.fail_for({0}, 30s);
  run.now += 10min;
  CHECK(!run.failed());
  run.fail_for({0}, 2s);  // it reports again and still fails, without a step in all that time
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: in a deterministic run silence does not count as a step that takes long") {
  for (const bool deterministic : {false, true}) {
    CAPTURE(deterministic);
    Driven run;
    run.watch = SamplingWatch(60s, deterministic);
    run.watch.joined(0, run.now);
    run.watch.joined(1, run.now);
    run.watch.failing(0, "row 0: broken", run.now);
    run.now += 30s;
    run.watch.failing(1, "row 0: broken", run.now);
    run.now += 34s;
    run.watch.failing(0, "row 0: broken", run.now);
    CHECK(run.failed() == deterministic);
  }
}

TEST_CASE("sampling_watch: of a run of answers it does not say that environments fail") {
  Driven run;
  run.watch = SamplingWatch(60s, /*deterministic=*/false, kAnswerWords);
  run.watch.joined(0, run.now);
  run.fail_for({0}, 60s);
  CHECK(run.watch.verdict(run.now) ==
        "no worker has made answers for 60000 ms (workers.failure_timeout_ms) because all of them fail; the last "
        "error: row 0: broken");
}

TEST_CASE("sampling_watch: a call that hangs ends a deterministic run, whose clock stands still meanwhile") {
  Driven run;
  run.watch = SamplingWatch(60s, /*deterministic=*/true);
  run.watch.joined(0, run.now);
  run.step(0, 1, 5s);
  run.step(0, 1, 5s + 59s);
  run.watch.failing(0, "row 0: hangs", run.now);
  CHECK(!run.failed());
  run.step(0, 1, 5s + 60s);
  run.watch.failing(0, "row 0: hangs", run.now);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: the time of a call that fails after long is part of the time without a step") {
  Driven run;
  run.watch.joined(0, run.now);
  run.step(0, 1, 1h);
  run.now += 50s;  // in a step that hangs until its limit
  run.step(0, 1, 1h + 50s);
  run.watch.failing(0, "row 0: hangs", run.now);
  CHECK(!run.failed());
  run.now += 9s;
  run.watch.failing(0, "row 0: hangs", run.now);
  CHECK(!run.failed());
  run.now += 1s;
  run.watch.failing(0, "row 0: hangs", run.now);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: a call that fails after long does not count from before the last step of another worker") {
  Driven run;
  run.watch.joined(0, run.now);
  run.watch.joined(1, run.now);
  run.now += 50s;
  run.step(1, 1);
  run.now += 50s;
  run.step(0, 0, 100s);
  run.fail_for({0, 1}, 9s);
  CHECK(!run.failed());
  run.fail_for({0, 1}, 2s);
  CHECK(run.failed());
}

TEST_CASE("sampling_watch: time without work is not part of the time without a step") {
  Driven run;
  run.watch.joined(0, run.now);
  run.step(0, 1, 10s);
  run.now += 1h;  // without a credit
  run.step(0, 1, 11s);
  run.fail_for({0}, 58s);
  CHECK(!run.failed());
  run.fail_for({0}, 2s);
  CHECK(run.failed());
}
