#include "actors/alarm_watch.h"

#include <cmath>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "actors/config/config.h"
#include "actors/experience/answers/answer_words.h"
#include "actors/experience/common/state_bytes.h"
#include "tests/actors/watched_alarms.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Metrics = std::map<std::string, double>;

// Figures of a run that learns.
Metrics healthy() {
  return {{"kl", 0.01},        {"clip_fraction", 0.1}, {"dead_gradient_fraction", 0.1},
          {"ess", 0.95},       {"entropy", 1},         {"explained_variance", 0.8},
          {"return_mean", 10}, {"return_std", 5}};
}

Metrics with(const std::string& name, double value) {
  Metrics metrics = healthy();
  metrics[name] = value;
  return metrics;
}

}  // namespace

TEST_CASE("alarm_watch: a run that learns raises no alarm") {
  WatchedUpdates run;
  run.updates(500, healthy());
  CHECK(run.watch.raised().empty());
  CHECK(run.watch.take_lines().empty());
  CHECK(reports(1000, [](StatsSnapshot&, int) {}).raised().empty());
}

TEST_CASE("alarm_watch: each condition on an update raises its alarm after as many updates as the table says") {
  struct Case {
    std::string name;
    Metrics metrics;
    bool skipped = false;
    double newest_return = 200;
  };
  const auto noise = [&](double log_std) {
    Metrics metrics = healthy();
    metrics["log_std"] = log_std;
    return metrics;
  };
  const std::vector<Case> cases = {{"steps_skipped", healthy(), true},
                                   {"non_finite", healthy(), true},
                                   {"kl_high", with("kl", 0.11)},
                                   {"kl_extreme", with("kl", 1.1)},
                                   {"clip_high", with("clip_fraction", 0.51)},
                                   {"dead_gradients", with("dead_gradient_fraction", 0.51)},
                                   {"ess_low", with("ess", 0.19)},
                                   {"entropy_low", with("entropy", 0.019)},
                                   {"entropy_dead", with("entropy", 0.0009)},
                                   {"noise_low", noise(-4.1)},
                                   {"noise_high", noise(1.6)},
                                   {"value_useless", with("explained_variance", 0)},
                                   {"return_drop", healthy(), false, 100},
                                   {"return_collapse", healthy(), false, 60}};
  for (const Case& c : cases) {
    CAPTURE(c.name);
    WatchedUpdates run;
    run.updates(50, healthy());
    const int hold = static_cast<int>(alarm_rule(c.name).hold);
    run.updates(hold - 1, c.metrics, c.skipped, c.newest_return);
    CHECK_FALSE(run.raised(c.name));
    run.updates(1, c.metrics, c.skipped, c.newest_return);
    REQUIRE(run.raised(c.name));
    CHECK(run.watch.raised().at(c.name).since_update == run.number);
    CHECK(run.watch.raised().at(c.name).text.find(alarm_rule(c.name).advice) != std::string::npos);
    // It is over when the figures have been good for long enough.
    run.updates(std::max(hold, static_cast<int>(kLeastClear)) - 1, healthy());
    CHECK(run.raised(c.name));
    run.updates(1, healthy());
    CHECK_FALSE(run.raised(c.name));
  }
}

TEST_CASE("alarm_watch: a figure that moves about its limit writes fewer and fewer lines") {
  WatchedUpdates run;
  for (int i = 0; i < 1000; ++i) {
    run.updates(5, with("clip_fraction", 0.51));
    run.updates(5, healthy());
  }
  const auto lines = run.watch.take_lines();
  CHECK(lines.size() == 3);  // raised, over, and raised until it has been well for 10 updates in a row
  CHECK(lines[0].warns);
  CHECK_FALSE(lines[1].warns);
  CHECK(lines[2].warns);
  run.updates(10, healthy());
  CHECK_FALSE(run.raised("clip_high"));
}

TEST_CASE("alarm_watch: a KL that is large in the whole run is the usual one") {
  WatchedUpdates run;
  run.updates(2, with("kl", 0.09));
  run.updates(100, with("kl", 0.09));
  run.updates(20, with("kl", 0.4));
  CHECK_FALSE(run.raised("kl_high"));
  run.updates(3, with("kl", 0.5));
  CHECK(run.raised("kl_high"));
}

TEST_CASE("alarm_watch: figures that are unknown raise nothing") {
  WatchedUpdates run;
  Metrics metrics = healthy();
  for (auto& [name, value] : metrics) value = std::nan("");
  run.updates(100, metrics, false, std::nan(""));
  CHECK(run.watch.raised().empty());
  run.updates(100, {}, false, std::nan(""));
  CHECK(run.watch.raised().empty());
}

TEST_CASE("alarm_watch: returns that have not risen by more than their spread cannot collapse") {
  AlarmWatch watch;
  for (uint64_t i = 1; i < 200; ++i)
    watch.add({.number = i,
               .metrics = {},
               .return_mean = i % 2 == 0 ? 10.0 : 20.0,
               .return_std = 30,
               .newest_return_mean = -50});
  CHECK(watch.raised().empty());
}

TEST_CASE("alarm_watch: rare rewards that do not come for a while are no drop, and those that stop coming are") {
  const auto after = [](double best, double spread) {
    AlarmWatch watch;
    const auto add = [&](uint64_t number, double mean, double std, double newest) {
      watch.add(
          {.number = number, .metrics = {}, .return_mean = mean, .return_std = std, .newest_return_mean = newest});
    };
    add(1, 0, 0, 0);
    for (uint64_t i = 2; i < 30; ++i) add(i, best, spread, best);
    for (uint64_t i = 30; i < 60; ++i) add(i, 0, 0, 0);
    return watch.raised().contains("return_drop");
  };
  CHECK_FALSE(after(0.02, 0.14));
  CHECK_FALSE(after(0.05, 0.22));
  CHECK(after(0.6, 0.49));
  CHECK(after(0.9, 0.3));
}

TEST_CASE("alarm_watch: low entropy near the end of a run is no alarm") {
  WatchedUpdates run;
  run.updates(50, healthy());
  run.updates(50, with("entropy", 0.019), false, 200, 0.9);
  CHECK(run.watch.raised().empty());
}

TEST_CASE("alarm_watch: a policy that collapses in its first update is found") {
  for (const double most : {std::log(2.0), kUnknown}) {
    WatchedUpdates run;
    run.watch = AlarmWatch(AlarmWatch::Facts{.most_entropy = most});
    run.updates(9, with("entropy", 1e-4));
    CHECK(run.raised("entropy_dead"));
    CHECK(run.raised("entropy_low") == false);
    run.updates(1, with("entropy", 1e-4));
    CHECK(run.raised("entropy_low") == std::isfinite(most));
  }
}

TEST_CASE("alarm_watch: a run whose advantages need no values has no alarm about them") {
  for (const bool uses_values : {true, false}) {
    WatchedUpdates run;
    run.watch = AlarmWatch(AlarmWatch::Facts{.uses_values = uses_values});
    run.updates(100, with("explained_variance", -1));
    CHECK(run.raised("value_useless") == uses_values);
  }
}

TEST_CASE("alarm_watch: advantages that are all 0 are named, unless everything succeeds") {
  const auto raised = [](int count, double advantage_std, double success_rate) {
    WatchedUpdates run;
    const Metrics metrics = with("advantage_std", advantage_std);
    for (int i = 0; i < count; ++i)
      run.watch.add(
          {.number = static_cast<uint64_t>(i + 1), .metrics = metrics, .progress = 0.3, .success_rate = success_rate});
    return run.raised("no_signal");
  };
  CHECK(raised(20, 0, 0));
  CHECK(raised(20, 0, kUnknown));
  CHECK_FALSE(raised(19, 0, 0));
  CHECK_FALSE(raised(50, 1e-3, 0));
  CHECK_FALSE(raised(50, 0, 0.97));
}

TEST_CASE("alarm_watch: values may be behind the policy in the first quarter of a run, or in its first 200 updates") {
  const auto raised = [](int count, double progress) {
    WatchedUpdates run;
    run.updates(count, with("explained_variance", -1), false, 200, progress);
    return run.raised("value_useless");
  };
  CHECK_FALSE(raised(1000, 0.24));
  CHECK(raised(50, 0.26));
  CHECK_FALSE(raised(49, 0.26));  // 30 that do not count, and 20 that must
  CHECK_FALSE(raised(219, kUnknown));
  CHECK(raised(220, kUnknown));
}

TEST_CASE("alarm_watch: a run that stays slower warns for ten minutes, and one that has lost a worker does not") {
  const auto slower = [](int seconds, uint64_t workers) {
    return reports(seconds, [&](StatsSnapshot& s, int i) {
      s.workers_up = i > 200 ? workers : 2;
      if (i > 200) s.env_steps_per_second_60s = 500;
    });
  };
  CHECK(slower(300, 2).raised().contains("slower"));
  CHECK(slower(780, 2).raised().contains("slower"));
  CHECK_FALSE(slower(900, 2).raised().contains("slower"));
  CHECK_FALSE(slower(300, 1).raised().contains("slower"));
}

TEST_CASE("alarm_watch: a token run is slower if it makes fewer tokens, not if answers grow longer") {
  const auto tokens = [](double rate) {
    return reports(300, [&](StatsSnapshot& s, int i) {
      s.words = &kAnswerWords;
      s.answer_tokens_per_second = i > 200 ? rate : 1000;
      if (i > 200) s.env_steps_per_second_60s = 100;
    });
  };
  CHECK(tokens(600).raised().contains("slower"));
  CHECK_FALSE(tokens(1000).raised().contains("slower"));
}

TEST_CASE("alarm_watch: the first minute of a start is compared with nothing, however long the run has been") {
  const auto resumed = [](int fast_until) {
    return reports(200, [&](StatsSnapshot& s, int i) {
      s.elapsed_seconds += 5000;
      s.env_steps_per_second_60s = i < fast_until ? 3000 : 1000;
    });
  };
  CHECK_FALSE(resumed(55).raised().contains("slower"));
  CHECK(resumed(90).raised().contains("slower"));
}

TEST_CASE("alarm_watch: each condition on a report raises its alarm") {
  CHECK(reports(1, [](StatsSnapshot&, int) {}, {"inference 3 falls behind"}).raised().contains("receiver_behind"));
  CHECK(reports(2, [](StatsSnapshot& s, int) { s.quarantined = 1; }).raised().contains("rows_quarantined"));
  CHECK(reports(130, [](StatsSnapshot& s, int) { s.episodes = 0; }).raised().contains("no_episode"));
  CHECK_FALSE(reports(100, [](StatsSnapshot& s, int) { s.episodes = 0; }).raised().contains("no_episode"));
  const auto drops = [](double share) {
    return reports(100, [&](StatsSnapshot& s, int) {
      s.ledger.dropped_stale = static_cast<uint64_t>(share * static_cast<double>(s.ledger.produced));
    });
  };
  CHECK(drops(0.06).raised().contains("samples_dropped"));
  CHECK_FALSE(drops(0.04).raised().contains("samples_dropped"));
  const auto fails = [](double share) {
    return reports(100, [&](StatsSnapshot& s, int) {
      s.ledger.verifier_failed = static_cast<uint64_t>(share * static_cast<double>(s.ledger.produced));
    });
  };
  CHECK(fails(0.06).raised().contains("verifier_fails"));
  CHECK_FALSE(fails(0.04).raised().contains("verifier_fails"));
  const auto slow = [](double rate) {
    return reports(200, [&](StatsSnapshot& s, int i) {
      if (i > 100) s.env_steps_per_second_60s = rate;
    });
  };
  CHECK(slow(690).raised().contains("slower"));
  CHECK_FALSE(slow(710).raised().contains("slower"));
  const auto growth = [](uint64_t bytes_a_minute) {
    return reports(1300,
                   [&](StatsSnapshot& s, int i) { s.rss_bytes += bytes_a_minute * static_cast<uint64_t>(i) / 60; });
  };
  CHECK(growth(20'000'000).raised().contains("memory_grows"));
  CHECK_FALSE(growth(9'000'000).raised().contains("memory_grows"));
  const auto child =
      reports(1300, [](StatsSnapshot& s, int i) { s.environment_bytes = 1'000'000'000 + 400'000ULL * i; });
  REQUIRE(child.raised().contains("memory_grows"));
  CHECK(child.raised().at("memory_grows").text.find("the memory of the environments' processes grew from ") !=
        std::string::npos);
}

TEST_CASE("alarm_watch: every rule of the table is checked") {
  WatchedUpdates run;
  run.updates(1, healthy());
  run.watch.look(report(1), {}, {});
  run.watch.look_at_files({}, 1);
  const std::string state = to_bytes(run.watch);
  for (const AlarmRule& rule : alarm_rules()) CHECK(state.find(std::string(rule.name)) != std::string::npos);
}

TEST_CASE("alarm_watch: the state of a deterministic run is the same after saving and loading") {
  WatchedUpdates run, resumed;
  run.updates(60, healthy());
  run.updates(2, with("kl", 3));
  const std::string state = to_bytes(run.watch);
  from_bytes(state, "stats", resumed.watch);
  resumed.number = run.number;
  CHECK(to_bytes(resumed.watch) == state);
  for (WatchedUpdates* each : {&run, &resumed}) each->updates(1, with("kl", 3));
  CHECK(to_bytes(resumed.watch) == to_bytes(run.watch));
  CHECK(resumed.raised("kl_high"));
}

TEST_CASE("alarm_watch: the advice in a token run names only settings that it has") {
  // How a token run with a critic may change each of them.
  const std::map<std::string, std::vector<std::string>> changes = {
      {"algorithm.entropy_coef", {"algorithm.entropy_coef=0.02"}},
      {"algorithm.reward_clip", {"algorithm.reward_clip=5"}},
      {"algorithm.target_kl", {"algorithm.target_kl=0.05"}},
      {"checkpoint.keep_best", {"checkpoint.keep_best=2", "evaluation.every_updates=1"}},
      {"generation.answers", {"generation.answers=2"}},
      {"replay.capacity", {"replay.mode=reuse", "replay.capacity=256"}},
      {"replay.max_policy_lag", {"replay.max_policy_lag=3"}},
      {"replay.mode", {"replay.mode=reuse"}},
      {"task.verifier_timeout_ms", {"task.verifier=py:module:reward", "task.verifier_timeout_ms=5000"}},
      {"trainer.epochs", {"trainer.epochs=2"}},
      {"trainer.policy_lr", {"trainer.policy_lr=0.002"}},
      {"trainer.value_lr", {"trainer.value_lr=0.002"}},
      {"trainer.value_only_updates", {"trainer.value_only_updates=2"}},
      {"warmup.steps", {"warmup.steps=2"}}};
  const std::regex setting("[a-z]+\\.[a-z_]+");
  size_t named = 0;
  for (const AlarmRule& rule : alarm_rules()) {
    if (rule.name == "no_episode") continue;  // not in token runs
    const std::string advice = advice_of(rule, /*token_run=*/true);
    for (std::sregex_iterator match(advice.begin(), advice.end(), setting), end; match != end; ++match, ++named) {
      CAPTURE(match->str());
      REQUIRE(changes.contains(match->str()));
      RunConfig config = parse_config(R"({"model": {"kind": "decoder", "critic": "separate"}, "stop": {"updates": 9},
                                          "algorithm": {"advantage": "gae"}, "trainer": {"super_batch": 64}})",
                                      "run.json");
      validate(config);
      for (const std::string& change : changes.at(match->str())) apply_override(config, change);
      CHECK_NOTHROW(validate(config));
    }
  }
  CHECK(named > 10);
  CHECK(advice_of(alarm_rule("value_useless"), /*token_run=*/false).ends_with("model.normalize_returns"));
}

TEST_CASE("alarm_watch: a token run has no alarm about episodes that do not end") {
  for (const bool token_run : {false, true}) {
    AlarmWatch watch(AlarmWatch::Facts{.token_run = token_run});
    for (int i = 0; i < 300; ++i) {
      StatsSnapshot s = report(i);
      s.episodes = 0;
      watch.look(s, {}, AlarmWatch::Clock::time_point(std::chrono::seconds(i)));
    }
    CHECK(watch.raised().contains("no_episode") == !token_run);
  }
}
