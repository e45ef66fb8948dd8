#include "runtime/stats/bottleneck.h"

#include <string>
#include <vector>

#include "actors/experience/answers/answer_words.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// A run whose shares of time are not known yet.
StatsSnapshot running() {
  StatsSnapshot s;
  s.elapsed_seconds = 100;
  s.env_steps = 100'000;
  s.env_steps_per_second = 1000;
  s.updates = 500;
  s.updates_per_second = 5;
  s.trainer_wait_fraction = 0.5;
  s.workers_up = s.workers_total = s.inference_up = s.inference_own = 1;
  s.lag_max = 1;
  s.lag_cap = 1;
  s.recent = {.produced = 10'000, .trainer_wait = 0.05, .since_update = 0.1, .longest_update = 0.2};
  return s;
}

template <class Change>
Bottleneck verdict_with(Change change) {
  StatsSnapshot s = running();
  change(s);
  return find_bottleneck(s);
}

template <class Change>
std::string text_with(Change change) {
  return text_of(verdict_with(change));
}

}  // namespace

TEST_CASE("bottleneck: before the shares of time are known, the trainer's wait decides") {
  CHECK(text_with([](auto&) {}) == "training: the trainer is busy 95 % of the time");
  CHECK(text_with([](auto& s) {
          s.recent.trainer_wait = 0.2;
        }).starts_with("none: sampling and training keep pace; the trainer waits 20 %"));
  CHECK(text_with([](auto& s) {
          s.trainer_wait_fraction = kUnknown;
          s.updates = 0;
        }) == "not known yet: the first update is not complete");
  CHECK(text_with([](auto& s) { s.trainer_wait_fraction = kUnknown; }) ==
        "not known yet: no update is complete since the run was resumed");
  CHECK(text_with([](auto& s) { s.trainer_wait_fraction = s.elapsed_seconds = kUnknown; }) ==
        "unknown: a deterministic run does one thing at a time");
  const auto hungry = [](uint64_t full, uint64_t timeout, uint64_t waiting) {
    return text_with([&](auto& s) {
      s.recent.trainer_wait = 0.63;
      s.recent.batches_full = full;
      s.recent.batches_timeout = timeout;
      s.recent.batches_all_waiting = waiting;
      s.batches_full = s.batches_timeout = 1'000'000;  // since the start
    });
  };
  CHECK(hungry(0, 0, 0) == "sampling: the trainer waits 63 % of the time");
  CHECK(hungry(1, 9, 0).find("batches start at the timeout") != std::string::npos);
  CHECK(hungry(9, 1, 0).find("batches start full") != std::string::npos);
  CHECK(hungry(1, 1, 8).find("batches wait for all groups") != std::string::npos);
  CHECK(hungry(4, 4, 2).find("groups wait for their actions") != std::string::npos);
  for (const auto& advice : {hungry(1, 9, 0), hungry(9, 1, 0), hungry(1, 1, 8), hungry(4, 4, 2)})
    CHECK(13 + advice.size() - advice.rfind(';') - 2 <= 80);
  CHECK(verdict_with([](auto& s) {
          s.stages.update = UpdateStages{.forward = 0.01, .backward = 0.02, .exchange = 0.3};
          s.ranks_up = s.ranks_total = 2;
        }).resource == Resource::exchange);
  StatsSnapshot fresh;
  fresh.workers_up = fresh.inference_up = 1;
  CHECK(text_of(find_bottleneck(fresh)) == "not known yet: the first rollouts are not complete");
}

TEST_CASE("bottleneck: the part that is busy all the time, as a field too, and without a gain that nobody measured") {
  struct Case {
    BusyShares busy;
    std::string what, limit;
    uint64_t timeouts = 0;
    double lag_max = 1;
  };
  const std::vector<Case> cases = {
      {{.workers = 0.5,
        .stepping = 0.4,
        .inference = 0.2,
        .replay = 0.1,
        .prefetcher = 0.2,
        .trainer = 0.97,
        .machine = 1},
       "training",
       "trainer"},
      {{.workers = 0.5, .stepping = 0.4, .inference = 0.2, .prefetcher = 0.95, .trainer = 0.6, .machine = 0.6},
       "batch preparation",
       "prefetcher"},
      {{.workers = 0.4, .credit_wait = 0.5, .inference = 0.2, .replay = 1, .prefetcher = 0.1, .trainer = 0.5},
       "replay buffer",
       "replay"},
      {{.workers = 0.4, .credit_wait = 0.5, .inference = 0.2, .replay = 1, .prefetcher = 0.1, .trainer = 0.9},
       "replay buffer",
       "replay"},
      {{.workers = 0.4, .credit_wait = 0.5, .inference = 0.2, .replay = 0.1, .prefetcher = 0.1, .trainer = 0.5},
       "lag cap",
       "replay"},
      // The trainer is slow because it shares the processors with others.
      {{.workers = 0.4,
        .credit_wait = 0.5,
        .inference = 0.2,
        .replay = 0.1,
        .prefetcher = 0.1,
        .trainer = 0.8,
        .machine = 1},
       "processors",
       "machine"},
      {{.workers = 0.4, .credit_wait = 0.5, .inference = 0.2, .replay = 0.1, .prefetcher = 0.1, .trainer = 0.5},
       "credits",  // not because of the cap: no sample is as old as it allows
       "replay",
       0,
       0},
      {{.workers = 0.95, .stepping = 0.9, .inference = 0.2, .prefetcher = 0.1, .trainer = 0.25, .machine = 0.4},
       "environment steps",
       "workers"},
      {{.workers = 0.95, .stepping = 0.2, .inference = 0.2, .prefetcher = 0.1, .trainer = 0.3, .machine = 1},
       "workers",
       "workers"},
      {{.workers = 0.3, .stepping = 0.2, .inference = 0.95, .prefetcher = 0.1, .trainer = 0.3, .machine = 0.5},
       "inference",
       "inference"},
      {{.workers = 0.6, .stepping = 0.5, .inference = 0.6, .prefetcher = 0.1, .trainer = 0.6, .machine = 1},
       "processors",
       "machine"},
      {{.workers = 0.2, .stepping = 0.1, .inference = 0.1, .prefetcher = 0.1, .trainer = 0.1, .machine = 0.2},
       "batch timeout",
       "inference",
       1000},
      {{.workers = 0.2, .stepping = 0.1, .action_wait = 0.6, .inference = 0.1, .trainer = 0.1, .machine = 0.2},
       "few environments",
       "workers"},
      {{.workers = 0.7, .stepping = 0.5, .action_wait = 0.1, .inference = 0.7, .trainer = 0.7, .machine = 0.8},
       "none",
       ""},
  };
  for (const Case& c : cases) {
    const Bottleneck verdict = verdict_with([&](auto& s) {
      s.busy = c.busy;
      s.recent.batches_timeout = c.timeouts;
      s.lag_max = c.lag_max;
    });
    CAPTURE(text_of(verdict));
    CHECK(verdict.what == c.what);
    CHECK(verdict.limit == c.limit);
    CHECK(text_of(verdict).find('+') == std::string::npos);
    CHECK(13 + verdict.what.size() + 2 + verdict.why.size() <= 80);
    CHECK(13 + verdict.advice.size() <= 80);
    CHECK(verdict.what.size() <= 34);
  }
}

TEST_CASE("bottleneck: in updates of many seconds the trainer is busy, although its time counts only when they end") {
  const auto verdict = [](double share, double wait) {
    return text_with([&](auto& s) {
      s.busy = {.workers = 0.3, .action_wait = 0.5, .inference = 0.2, .trainer = share, .machine = 0.5};
      s.recent.longest_update = 30;
      s.recent.trainer_wait = wait;
    });
  };
  CHECK(verdict(0, 0.02) == "training: the trainer is busy 98 % of the time; a faster device");
  CHECK(verdict(1, 0.6).starts_with("few environments: "));
}

TEST_CASE("bottleneck: where each batch waits for all groups, more of them are no help without smaller batches") {
  const auto advice = [](uint64_t all_waiting, const ExperienceWords& words) {
    return verdict_with([&](auto& s) {
             s.busy = {.workers = 0.3, .action_wait = 0.6, .inference = 0.3, .trainer = 0.1, .machine = 0.2};
             s.recent.batches_full = 10;
             s.recent.batches_all_waiting = all_waiting;
             s.words = &words;
           })
        .advice;
  };
  CHECK(advice(90, kStepWords) == "more groups, a batch_size of half of all rows, or a larger env.rows");
  CHECK(13 + advice(90, kStepWords).size() <= 80);
  CHECK(advice(9, kStepWords) == "a larger env.rows, more groups or workers");
  CHECK(advice(90, kAnswerWords) == "more groups or workers");
}

TEST_CASE("bottleneck: the advice for a busy trainer names only what the run can change") {
  const auto advice = [](bool several_epochs, const ExperienceWords& words) {
    return verdict_with([&](auto& s) {
             s.busy = {.workers = 0.3, .inference = 0.2, .trainer = 0.97, .machine = 0.5};
             s.several_epochs = several_epochs;
             s.words = &words;
           })
        .advice;
  };
  CHECK(advice(true, kStepWords) == "fewer epochs, or a faster device");
  CHECK(advice(false, kStepWords) == "a faster device");
  CHECK(advice(true, kAnswerWords) == "fewer epochs, or more processors");
  CHECK(advice(false, kAnswerWords) == "more processors");
}

TEST_CASE("bottleneck: only what the last minute has counted, not the starts before") {
  CHECK(text_with([](auto& s) { s.recent.dropped_stale = 3200; }) ==
        "waste: 32 % of the samples of the last minute are dropped, most as stale");
  CHECK(text_with([](auto& s) {
          s.recent.filtered = 8'000;
          s.recent.dropped_stale = 1'000;
        }) ==
        "waste: 80 % of the answers of the last minute are filtered; prompts that are right at times, or a larger "
        "generation.answers");
  CHECK(text_with([](auto& s) { s.recent.filtered = 4'000; }).starts_with("training: "));
  CHECK(text_with([](auto& s) { s.recent.dropped_full = 5000; }).ends_with("most because the buffer was full"));
  CHECK(text_with([](auto& s) {
          s.ledger.produced = 1'000'000;
          s.ledger.dropped_stale = 900'000;
          s.env_failures = {{"Maze", 1'000'000}};
          s.trainer_wait_fraction = 0.99;
        }).starts_with("training: "));
}

TEST_CASE("bottleneck: the processes that a run waits for") {
  const auto verdict = [](uint64_t workers, uint64_t joined, uint64_t inference, uint64_t own) {
    StatsSnapshot s = joined > 0 ? running() : StatsSnapshot{};
    s.workers_up = workers;
    s.workers_total = joined;
    s.inference_up = inference;
    s.inference_own = own;
    return text_of(find_bottleneck(s));
  };
  CHECK(verdict(0, 0, 1, 1) == "waiting for workers: none has joined");
  CHECK(verdict(0, 3, 1, 1) == "waiting for workers: all have left");
  CHECK(verdict(1, 1, 0, 0) == "waiting for an inference process: none is connected");
  CHECK(verdict(0, 3, 0, 0) == "waiting for workers and inference: neither is connected");
  CHECK(verdict(1, 1, 0, 1) == "waiting for inference: no inference actor is up");
  CHECK(verdict(1, 1, 1, 0).starts_with("training: "));
}

TEST_CASE("bottleneck: workers that start their environments are not waited for as if none had been started") {
  StatsSnapshot s;
  s.inference_up = s.inference_own = 1;
  s.workers_starting = 1;
  CHECK(text_of(find_bottleneck(s)) == "starting environments: 1 worker is not ready yet");
  CHECK(find_bottleneck(s).limit == "workers");
  s.workers_starting = 2;
  CHECK(text_of(find_bottleneck(s)) == "starting environments: 2 workers are not ready yet");
  s.words = &kAnswerWords;
  CHECK(text_of(find_bottleneck(s)) == "starting workers: 2 workers are not ready yet");
  s.inference_up = s.inference_own = 0;
  CHECK(text_of(find_bottleneck(s)) == "waiting for an inference process: none is connected");
  s = running();
  s.workers_starting = 1;  // beside one that samples
  CHECK(text_of(find_bottleneck(s)).starts_with("training: "));
}

TEST_CASE("bottleneck: environments that fail, if nothing is sampled and the trainer has nothing to do") {
  StatsSnapshot fresh;
  fresh.workers_up = 1;
  fresh.recent.env_failures = 1200;
  fresh.last_error = "row 0: no such map";
  CHECK(text_of(find_bottleneck(fresh)) ==
        "environments fail: 1,200 failures in the last minute, the last: row 0: no such map");
  fresh.words = &kAnswerWords;
  CHECK(find_bottleneck(fresh).what == "workers fail");
  const auto verdict = [](uint64_t failures, uint64_t left_out, double updates_per_second, double steps = 0) {
    return text_with([&](StatsSnapshot& s) {
      s.recent.env_failures = failures;
      s.quarantined = left_out;
      s.last_error = "row 3: disk full";
      s.env_steps_per_second = steps;
      s.updates_per_second = updates_per_second;
      s.recent.since_update = updates_per_second > 0 ? 0.1 : 11;
    });
  };
  CHECK(verdict(170, 32, 0) ==
        "environments fail: 170 failures in the last minute, 32 rows in quarantine, the last: row 3: disk full");
  CHECK(verdict(0, 1, 0) == "environments fail: 1 row in quarantine, the last: row 3: disk full");
  CHECK(verdict(1, 0, 0) == "environments fail: 1 failure in the last minute, the last: row 3: disk full");
  CHECK(verdict(170, 32, 4).starts_with("environments fail: "));  // updates train on the remaining samples
  CHECK(verdict(3, 0, 4).starts_with("training: "));              // sampling waits for the trainer
  CHECK(verdict(3, 0, 4, 5).starts_with("training: "));
}

TEST_CASE("bottleneck: no samples, unless an update that is as long as the others explains the pause") {
  const auto verdict = [](double updates_per_second, double since, double longest) {
    return text_with([&](StatsSnapshot& s) {
      s.env_steps_per_second = 0;
      s.updates_per_second = updates_per_second;
      s.recent.since_update = since;
      s.recent.longest_update = longest;
    });
  };
  CHECK(verdict(0, 11, 0.2) == "no samples: none for 10 s, no update: a long step or a hung worker");
  CHECK(verdict(5, 0.1, 0.2).starts_with("training: "));
  CHECK(verdict(0, 11, 10).starts_with("training: "));
  CHECK(verdict(0, 31, 10).starts_with("no samples: "));
}

TEST_CASE("bottleneck: a warm-up, in which neither workers nor inference are connected, is named") {
  StatsSnapshot s;
  CHECK_FALSE(find_bottleneck(s).what.empty());
  s.warmup = WarmupState{.step = 3, .of = 100};
  CHECK(text_of(find_bottleneck(s)) == "warm-up: step 3 of at most 100");
  CHECK(find_bottleneck(s).limit == "trainer");
}

TEST_CASE("bottleneck: training that waits for open evaluations is not taken for the lag cap") {
  StatsSnapshot s = running();
  s.busy = {.workers = 0.4, .credit_wait = 0.5, .inference = 0.2, .replay = 0.1, .prefetcher = 0.1, .trainer = 0.5};
  s.evaluating.emplace();
  s.evaluating->waiting = 31;
  CHECK(find_bottleneck(s).what == "lag cap");
  s.evaluating->holds_training = true;
  CHECK(find_bottleneck(s).what == "evaluations");
  CHECK(find_bottleneck(s).why == "training waits for 32 open evaluations");
  // While none of them ends for 10 s, there is neither a sample nor an update.
  s.env_steps_per_second = s.updates_per_second = s.busy.credit_wait = 0;
  s.recent.since_update = 30;
  s.recent.longest_update = 0.1;
  CHECK(find_bottleneck(s).what == "evaluations");
  s.evaluating.reset();
  CHECK(find_bottleneck(s).what == "no samples");
  // They ended in time, but training waited for them, also before the shares are known.
  s = running();
  s.recent.trainer_wait = 0.6;
  s.recent.evaluation_wait = 0.5;
  CHECK(find_bottleneck(s).what == "evaluations");
  CHECK(find_bottleneck(s).why == "training waits 50 % of the time for open evaluations");
  s.recent.evaluation_wait = 0.1;
  CHECK(find_bottleneck(s).what != "evaluations");
  s.recent.checkpoint_wait = 0.5;
  CHECK(find_bottleneck(s).what == "checkpoints");
  CHECK(find_bottleneck(s).why == "training waits 50 % of the time for the disk");
  s.recent.checkpoint_wait = 0.1;
  CHECK(find_bottleneck(s).what != "checkpoints");
}

TEST_CASE("bottleneck: a run that needs scorers waits for one") {
  StatsSnapshot s = running();
  s.needs_scorers = true;
  CHECK(text_of(find_bottleneck(s)) == "waiting for a scorer: none is up; troupe scorer adds one");
  s.scorers_up = 1;
  CHECK_FALSE(text_of(find_bottleneck(s)).starts_with("waiting"));
  s.busy.scorers = 0.9;
  s.busy.workers = s.busy.inference = s.busy.trainer = 0.3;
  CHECK(text_of(find_bottleneck(s)) == "scorers: scorers are busy 90 % of the time; more processes of troupe scorer");
}
