#include "runtime/stats/verdict.h"

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/expected_gain.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// A run whose parts have time left.
StatsSnapshot running() {
  StatsSnapshot s;
  s.env_steps = 100'000;
  s.env_steps_per_second = 1000;
  s.updates = 500;
  s.updates_per_second = 5;
  s.trainer_wait_fraction = 0.5;
  s.workers_up = s.workers_total = s.inference_up = s.inference_own = 1;
  s.lag_max = s.lag_cap = 1;
  s.recent = {.produced = 10'000, .trainer_wait = 0.05, .since_update = 0.1, .longest_update = 0.2};
  s.busy = {.workers = 0.5,
            .stepping = 0.4,
            .credit_wait = 0.1,
            .action_wait = 0.1,
            .inference = 0.5,
            .replay = 0.1,
            .prefetcher = 0.1,
            .trainer = 0.5,
            .machine = 0.6};
  return s;
}

template <class Change>
Bottleneck verdict_with(Change change) {
  StatsSnapshot s = running();
  change(s);
  return find_bottleneck(s);
}

}  // namespace

TEST_CASE("verdict: each resource has a name of its own, and the name gives it back") {
  for (int value = 0; value <= static_cast<int>(Resource::waste); ++value) {
    const auto resource = static_cast<Resource>(value);
    CAPTURE(name_of(resource));
    CHECK(resource_of(name_of(resource)) == resource);
  }
  CHECK(resource_of("of a later version") == Resource::unknown);
  CHECK(resource_of("") == Resource::unknown);
}

TEST_CASE("verdict: the resource, its share of time and who waits are values") {
  struct Case {
    void (*change)(StatsSnapshot&);
    Resource resource;
    double share;
    std::string waits, limit;
  };
  const std::vector<Case> cases = {
      {[](auto&) {}, Resource::none, kUnknown, "", ""},
      {[](auto& s) { s.busy.trainer = 0.97; }, Resource::trainer, 0.97, "", "trainer"},
      {[](auto& s) { s.busy.trainer = 0.97, s.busy.credit_wait = 0.5; }, Resource::trainer, 0.97, "workers", "trainer"},
      {[](auto& s) { s.busy.prefetcher = 0.96; }, Resource::prefetcher, 0.96, "trainer", "prefetcher"},
      {[](auto& s) { s.busy.replay = 0.96; }, Resource::replay, 0.96, "", "replay"},
      {[](auto& s) { s.busy.credit_wait = 0.5; }, Resource::lag_cap, 0.5, "trainer", "replay"},
      {[](auto& s) { s.busy.credit_wait = 0.5, s.lag_max = 0; }, Resource::replay, 0.5, "workers", "replay"},
      {[](auto& s) { s.busy.workers = 0.95, s.busy.stepping = 0.9; }, Resource::env_stepping, 0.9, "trainer",
       "workers"},
      {[](auto& s) { s.busy.workers = 0.95, s.busy.stepping = 0.2; }, Resource::workers, 0.95, "trainer", "workers"},
      {[](auto& s) { s.busy.inference = 0.9; }, Resource::inference, 0.9, "trainer", "inference"},
      {[](auto& s) { s.busy.inference = 0.9, s.recent.batches_full = 9; }, Resource::batch_size, 0.9, "trainer",
       "inference"},
      {[](auto& s) { s.recent.batches_timeout = 9; }, Resource::deadline, 0.1, "workers", "inference"},
      {[](auto& s) { s.busy.action_wait = 0.6; }, Resource::workers, 0.6, "trainer", "workers"},
      {[](auto& s) { s.busy.machine = 0.99; }, Resource::machine, 0.99, "", "machine"},
      {[](auto& s) { s.busy.machine = 0.99, s.busy.run = 0.3; }, Resource::oversubscribed, 0.99, "", "machine"},
      {[](auto& s) { s.recent.checkpoint_wait = 0.5; }, Resource::disk, 0.5, "trainer", ""},
      {[](auto& s) { s.recent.evaluation_wait = 0.5; }, Resource::evaluation, 0.5, "trainer", ""},
      {[](auto& s) { s.recent.dropped_stale = 5000; }, Resource::waste, kUnknown, "", ""},
      {[](auto& s) { s.workers_up = 0; }, Resource::workers, kUnknown, "", "workers"},
      {[](auto& s) {
         s.recent.busiest_worker = 0.99, s.recent.other_workers = 0.2, s.recent.others_wait = 0.7;
         s.busy.credit_wait = 0.6;
       },
       Resource::straggler, 0.99, "workers", "workers"},
  };
  for (const Case& c : cases) {
    const Bottleneck verdict = verdict_with(c.change);
    CAPTURE(text_of(verdict));
    CHECK(name_of(verdict.resource) == name_of(c.resource));
    CHECK((verdict.share == c.share || (std::isnan(verdict.share) && std::isnan(c.share))));
    CHECK(verdict.waits == c.waits);
    CHECK(verdict.limit == c.limit);
    if (c.resource != Resource::straggler && c.resource != Resource::oversubscribed) continue;
    CHECK(13 + verdict.what.size() + 2 + verdict.why.size() <= 80);
    CHECK(13 + verdict.advice.size() <= 80);
  }
}

TEST_CASE(
    "verdict: ranks that wait for each other for the largest part of updates are named, with what one would take") {
  const auto verdict = [](double exchange, uint64_t ranks, double wait = 0.05) {
    return verdict_with([&](auto& s) {
      s.stages.update =
          UpdateStages{.draw = 9, .forward = 0.25, .backward = 0.5, .exchange = exchange, .publish = 0.25};
      s.ranks_up = s.ranks_total = ranks;
      s.recent.trainer_wait = wait;
    });
  };
  const Bottleneck slow = verdict(3, 2);
  CHECK(name_of(slow.resource) == "exchange");
  CHECK(slow.what == "exchange");
  CHECK(slow.limit == "trainer");
  CHECK(slow.share == 0.95 * 0.75);
  CHECK(std::isnan(slow.gain));
  CHECK(slow.why == "ranks wait for each other for 75 % of an update");
  CHECK(slow.advice == "fewer ranks: one rank computes an update in about 1,750 ms, these in 4,000 ms");
  CHECK(verdict(3, 8).advice.find("ranks") == std::string::npos);  // one alone would take longer
  const auto full_with = [](uint64_t here) {
    return verdict_with([&](auto& s) {
      s.stages.update = UpdateStages{.draw = 9, .forward = 0.25, .backward = 0.5, .exchange = 3, .publish = 0.25};
      s.ranks_up = s.ranks_total = 8;
      s.ranks_here = here;
      s.recent.trainer_wait = 0.05;
      s.busy.machine = s.busy.run = 0.99, s.busy.waiting = 0.9;
    });
  };
  const Bottleneck full = full_with(8);
  CHECK(full.advice == "fewer ranks on this machine: its processors are always busy");
  const Bottleneck elsewhere = full_with(1);
  CHECK(elsewhere.advice.find("ranks") == std::string::npos);  // the others are on other machines
  CHECK(verdict(0.4, 2).resource != Resource::exchange);
  CHECK(verdict(3, 1).resource != Resource::exchange);
  CHECK(verdict(3, 2, /*wait=*/0.5).resource != Resource::exchange);
  CHECK(verdict(3, 2, kUnknown).resource != Resource::exchange);
}

TEST_CASE("verdict: ranks that share processors are advised to be fewer, not to make fewer steps") {
  const auto advice = [](uint64_t here, uint64_t threads, uint64_t processors, double exchange) {
    return verdict_with([&](auto& s) {
             s.stages.update = UpdateStages{.forward = 0.25, .backward = 0.5, .exchange = exchange, .publish = 0.25};
             s.ranks_up = s.ranks_total = 4;
             s.ranks_here = here, s.rank_threads = threads, s.rank_processors = processors;
             s.recent.trainer_wait = 0.05;
           })
        .advice;
  };
  const std::string steps = "fewer optimizer steps (trainer.minibatches, trainer.epochs), or a faster network";
  CHECK(advice(4, 1, 2, 2) == "fewer ranks on this machine: 4 of 1 thread each share 2 processors");
  CHECK(advice(2, 4, 4, 2) == "fewer ranks on this machine: 2 of 4 threads each share 4 processors");
  CHECK(advice(4, 1, 4, 2) == steps);
  CHECK(advice(1, 4, 2, 2) == steps);  // the others are on other machines
  CHECK(advice(4, 1, 0, 2) == steps);  // not known
  // What rank 0 computes would take less time alone.
  CHECK(advice(4, 1, 2, 3) == "fewer ranks: one rank computes an update in at most 3,250 ms, these in 4,000 ms");
  CHECK(advice(4, 1, 4, 3) == "fewer ranks: one rank computes an update in about 3,250 ms, these in 4,000 ms");
}

TEST_CASE("verdict: a run whose ranks have not all come says how many are there; one that has lost some does not") {
  const auto verdict = [](bool waits) {
    return verdict_with([&](auto& s) {
      s.ranks_up = 1, s.ranks_total = 4;
      s.waits_for_ranks = waits;
      s.env_steps = s.updates = 0;
    });
  };
  CHECK(text_of(verdict(true)) == "waiting for ranks: 1 of 4 is there; troupe rank adds one");
  CHECK(name_of(verdict(true).resource) == "exchange");
  CHECK(verdict(false).what == "not known yet");
}

TEST_CASE("verdict: a worker is slow only if the others wait for it") {
  const auto resource = [](double others, double waits) {
    return verdict_with([&](auto& s) {
             s.recent.busiest_worker = 0.99, s.recent.other_workers = others, s.recent.others_wait = waits;
             s.busy.credit_wait = 0.6;
           })
        .resource;
  };
  CHECK(resource(0.2, 0.7) == Resource::straggler);
  CHECK(resource(0.9, 0.7) == Resource::lag_cap);
  CHECK(resource(0.2, 0.1) == Resource::lag_cap);
  CHECK(resource(kUnknown, kUnknown) == Resource::lag_cap);  // a single worker
}

TEST_CASE("verdict: other programs that use the processors are named, whichever part is busy") {
  const auto verdict = [](double run, double inference) {
    return verdict_with(
        [&](auto& s) { s.busy.machine = 1, s.busy.run = run, s.busy.inference = inference, s.busy.trainer = 0.5; });
  };
  CHECK(verdict(0.38, 0.5).why == "all busy 100 %, 62 % by others");
  CHECK(verdict(0.38, 0.95).resource == Resource::oversubscribed);
  CHECK(verdict(0.9, 0.5).why == "all processors are busy 100 % of the time");
  CHECK(verdict(0.9, 0.95).resource == Resource::inference);
  CHECK(verdict(kUnknown, 0.5).resource == Resource::machine);
  // Time is left.
  CHECK(verdict_with([](auto& s) { s.busy.machine = 0.8, s.busy.run = 0.1; }).resource == Resource::none);
}

TEST_CASE("verdict: other programs are named only while the run waits for processors") {
  const auto resource = [](double run, double waiting) {
    return verdict_with([&](auto& s) {
             s.busy.machine = 1, s.busy.run = run, s.busy.waiting = waiting, s.busy.inference = 0.95;
           })
        .resource;
  };
  CHECK(resource(0.3, 0.4) == Resource::oversubscribed);
  CHECK(resource(0.3, kUnknown) == Resource::oversubscribed);
  CHECK(resource(0.3, 0.05) == Resource::inference);
  CHECK(resource(0.02, 0.04) == Resource::inference);  // it hardly needs them
  CHECK(resource(0.6, 0.12) == Resource::inference);   // it waits a sixth of the time
}

namespace {

// Figures of runs on 2 processors beside programs that use all that they get. Steps take `step` seconds on average, and
// the fastest tenth of them at most `fastest`.
StatsSnapshot beside_others(const BusyShares& busy, double step, double fastest) {
  StatsSnapshot s = running();
  s.busy = busy;
  s.workers_up = s.workers_total = 2;
  s.stages.env_step = step;
  s.histograms.step_seconds.add(fastest, 100);
  return s;
}

}  // namespace

TEST_CASE("verdict: steps that sleep limit a run also beside other programs, with what these cost at most") {
  const StatsSnapshot s = beside_others({.workers = 0.95,
                                         .stepping = 0.95,
                                         .credit_wait = 0.15,
                                         .action_wait = 0.37,
                                         .inference = 0.17,
                                         .trainer = 0.19,
                                         .machine = 1,
                                         .run = 0.12,
                                         .waiting = 0.12,
                                         .threads_waiting = 0.24},
                                        0.0205, 0.0201);
  CHECK(text_of(find_bottleneck(s)) ==
        "environment steps: workers are busy 95 % of the time, 95 % in steps; more workers");
  CHECK(std::isnan(find_bottleneck(s).gain));
  // What the run waits altogether is the most that its workers can.
  StatsSnapshot unsteady = s;
  unsteady.stages.env_step = 0.1;
  CHECK(find_bottleneck(unsteady).advice == "more workers; other programs slow it by up to 13 %");
  unsteady.busy.threads_waiting = 1.2;
  unsteady.busy.waiting = 0.6;
  unsteady.busy.run = 0.3;
  CHECK(find_bottleneck(unsteady).resource == Resource::oversubscribed);
}

TEST_CASE("verdict: steps that compute are the limit if they take as long as without other programs") {
  const BusyShares busy{.workers = 1,
                        .stepping = 0.99,
                        .credit_wait = 0,
                        .action_wait = 0.5,
                        .inference = 0.22,
                        .trainer = 0.18,
                        .machine = 1,
                        .run = 0.68,
                        .waiting = 0.6,
                        .threads_waiting = 1.2};
  const Bottleneck own = find_bottleneck(beside_others(busy, 0.0243, 0.02));
  CHECK(own.resource == Resource::env_stepping);
  CHECK(own.advice == "more workers; other programs slow it by up to 9 %");
  const Bottleneck slowed = find_bottleneck(beside_others(busy, 0.06, 0.02));
  CHECK(text_of(slowed) ==
        "processors (other programs): all busy 100 %, 32 % by others; fewer other programs, which slow it by up to 47 "
        "%, or more machines");
}

TEST_CASE("verdict: a trainer that waits for processors most of the time is not what limits the run") {
  const auto verdict = [](double run, double waiting) {
    return verdict_with([&](auto& s) {
      s.busy = {.workers = 0.03,
                .stepping = 0,
                .credit_wait = 0.4,
                .action_wait = 0.6,
                .inference = 0.1,
                .trainer = 0.95,
                .machine = 1,
                .run = run,
                .waiting = waiting,
                .threads_waiting = 2 * waiting};
    });
  };
  CHECK(verdict(0.14, 0.73).resource == Resource::oversubscribed);
  CHECK(verdict(0.5, 0.2).resource == Resource::trainer);
  CHECK(verdict(0.5, 0.2).advice == "a faster device; other programs slow it by up to 29 %");
}

TEST_CASE("verdict: too few environments and small batches are named, however many other programs there are") {
  const auto verdict = [](double action_wait, double inference, uint64_t full) {
    return verdict_with([&](auto& s) {
      s.busy = {.workers = 0.16,
                .stepping = 0.01,
                .credit_wait = 0,
                .action_wait = action_wait,
                .inference = inference,
                .trainer = 0.13,
                .machine = 1,
                .run = 0.42,
                .waiting = 0.28};
      s.recent.batches_full = full;
    });
  };
  CHECK(text_of(verdict(0.94, 0.35, 0)) ==
        "few environments: groups wait 94 % of the time for actions; a larger env.rows, more groups or workers; other "
        "programs slow it by up to 40 %");
  CHECK(verdict(0.94, 0.9, 9).resource == Resource::batch_size);
  CHECK(verdict(0.7, 0.35, 9).resource == Resource::oversubscribed);
}

TEST_CASE("verdict: processors that the run need not wait for are left for it") {
  const auto advice = [](double waiting) {
    return verdict_with(
               [&](auto& s) { s.busy.machine = 1, s.busy.run = 0.3, s.busy.waiting = waiting, s.busy.scorers = 0.95; })
        .advice;
  };
  CHECK(advice(0.02) == "more processes of troupe scorer");
}

TEST_CASE("verdict: nothing that needs processors is advised while all are busy") {
  const std::string advice =
      verdict_with([](auto& s) { s.busy.machine = 1, s.busy.run = 1, s.busy.inference = 0.95; }).advice;
  CHECK(advice == "more machines, or a smaller model");
  CHECK(verdict_with([](auto& s) { s.busy.machine = 0.5, s.busy.inference = 0.95; }).advice ==
        "more inference actors or a smaller model");
  CHECK(verdict_with([](auto& s) { s.busy.machine = 1, s.busy.scorers = 0.95; }).advice ==
        "more machines for processes of troupe scorer");
}

TEST_CASE("verdict: it is in the JSON as values, and comes back from there") {
  StatsSnapshot s = running();
  s.busy.inference = 0.9;
  const auto json = nlohmann::json::parse(to_json(s))["bottleneck"];
  CHECK(json["resource"] == "inference");
  CHECK(json["share"] == 0.9);
  CHECK(json["waits"] == "trainer");
  const Bottleneck back = find_bottleneck(snapshot_of(to_json(s), kStepWords));
  CHECK(back.resource == Resource::inference);
  CHECK(back.share == 0.9);
  // A record of an older version has neither.
  const Bottleneck old = find_bottleneck(snapshot_of(R"({"bottleneck": {"what": "inference"}})", kStepWords));
  CHECK(old.what == "inference");
  CHECK(old.resource == Resource::unknown);
  CHECK(std::isnan(old.share));
}

TEST_CASE("verdict: the predicted gain ends where the next part is busy, and at twice the speed") {
  StatsSnapshot s = running();
  const auto gain = [&](Resource resource, double share) {
    return predicted_gain(s, Bottleneck{.resource = resource, .share = share});
  };
  s.busy = {.workers = 0.95, .inference = 0.5, .trainer = 0.3, .machine = 0.2};
  CHECK(gain(Resource::env_stepping, 0.9) == doctest::Approx(0.95 / 0.5 - 1));
  CHECK(gain(Resource::inference, 0.95) == 0);  // the workers are as busy
  s.busy = {.workers = 0.95, .inference = 0.1, .trainer = 0.1, .machine = 0.1};
  CHECK(gain(Resource::env_stepping, 0.9) == 1);
  s.busy = {.workers = 0.1, .inference = 0.1, .trainer = 0.1, .machine = 0.1};
  CHECK(gain(Resource::disk, 0.2) == doctest::Approx(0.25));
  s.busy = {.machine = 1, .run = 0.6};
  CHECK(gain(Resource::oversubscribed, 1) == doctest::Approx(0.95 / 0.6 - 1));
  for (const Resource none : {Resource::none, Resource::unknown, Resource::waste}) CHECK(std::isnan(gain(none, 0.5)));
  CHECK(std::isnan(gain(Resource::inference, kUnknown)));
}

TEST_CASE("verdict: a gain that no benchmark has shown is not told") {
  StatsSnapshot s = running();
  s.busy.inference = 0.9;
  CHECK(std::isnan(find_bottleneck(s).gain));
  s.busy.inference = 0.1;
  s.busy.trainer = 0.95;
  s.recent.trainer_wait = 0.01;
  CHECK(find_bottleneck(s).resource == Resource::trainer);
  CHECK(find_bottleneck(s).gain == doctest::Approx(0.95 / 0.6 - 1));  // until the processors are busy
}
