#include "runtime/stats/console.h"

#include <algorithm>

#include "runtime/base/rng.h"
#include "tests/runtime/stats/console_figures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("console: the line of a run with a success rate has the ETA") {
  StatsSnapshot s = running();
  s.success_rate = 0.92;
  for (const uint64_t lost : {0, 64})
    for (const double eta : {3.0, 3725.0, 363'725.0}) {
      s.ledger.lost_in_crash = lost;
      s.eta_seconds = eta;
      const std::string line = console_line(s);
      CHECK_MESSAGE((lost > 0 || line.find("  success 92 %  ") != std::string::npos), line);
      CHECK_MESSAGE(line.find("  ETA ") != std::string::npos, line);
    }
}

TEST_CASE("console: steps and updates are formatted the same way whatever else is in the line") {
  StatsSnapshot s = running();
  for (const double success : {kUnknown, 0.0, 1.0})
    for (const double eta : {3.0, 3725.0})
      for (const uint64_t failures : {0, 123'456}) {
        s.success_rate = success;
        s.eta_seconds = eta;
        s.env_failures = {{"Maze", failures}};
        const std::string line = console_line(s);
        CHECK((failures == 0 || line.find("  env failures 123,456  lost 64  ") != std::string::npos));
        CHECK(line.size() < kLineColumns);
        CHECK_MESSAGE(line.find("  steps 312,500 (103,512/s)  updates 152") != std::string::npos, line);
      }
}

TEST_CASE("console: a long line drops the least important figures, then abbreviates numbers") {
  StatsSnapshot s = running();
  s.env_steps = 1'000'000'000'000;
  s.return_mean = 1e6;
  s.ledger.dropped_stale = s.recent.dropped_stale = s.recent.produced = 123'456;
  CHECK(console_line(s) ==
        "0:12  62 %  steps 1T (103,512/s)  updates 152 (12.3/s)  return 1M  lost 64  bottleneck: waste  workers 2  "
        "ETA 1:02:05  lag p95 1 cap 1  dropped 123,456");
  s.elapsed_seconds = s.eta_seconds = 363'725;
  s.success_rate = 0.5;
  s.workers_up = s.workers_total = 10'000'000;
  s.updates = 1'000'000'000'000;
  s.env_failures = {{"Maze", 1'000'000'000}};
  s.inference_up = s.inference_own = 0;
  CHECK(console_line(s) ==
        "101 h  steps 1T (104k/s)  updates 1T  return 1M  bottleneck: waiting for an inference process  workers 10M  "
        "lag p95 1 cap 1  dropped 123k");
}

TEST_CASE("console: a line has the elapsed time, also where it is long, and during an evaluation the time of that") {
  StatsSnapshot s = running();
  s.evaluating = EvaluationUnderWay{.updates = 1, .episodes = 14'398, .of = 20'000, .seconds = 28, .waiting = 31};
  for (const bool ended : {false, true})
    for (const double elapsed : {12.4, 3725.0, 363'725.0})
      for (const uint64_t steps : {69'632, 1'000'000'000}) {
        s.training_ended = ended;
        s.elapsed_seconds = elapsed;
        s.env_steps = steps;
        for (const size_t columns : {60, 80, 120, 160}) {
          const std::string line = console_line(s, columns);
          CAPTURE(line);
          CHECK(line.size() < columns);
          CHECK(
              (line.starts_with(format_seconds(elapsed) + "  ") || (elapsed > 360'000 && line.starts_with("101 h  "))));
          CHECK(line.find("steps ") != std::string::npos);
        }
        const std::string line = console_line(s);
        CAPTURE(line);
        CHECK(line.find("evaluating update 1, 14") != std::string::npos);
        CHECK(line.find(", 0:28, 31 more") != std::string::npos);
      }
}

TEST_CASE("console: the line that is printed to a pipe") {
  StatsSnapshot s = running();
  s.ledger.lost_in_crash = s.ledger.dropped_stale = 0;
  CHECK(console_line(s) ==
        "0:12  62 %  steps 312,500 (103,512/s)  updates 152 (12.3/s)  return 421.3  KL 0.0123  bottleneck: training  "
        "workers 2  ETA 1:02:05  lag p95 1 cap 1  dropped 0");
  CHECK(console_line({}).find("steps 0 (-/s)") != std::string::npos);
  CHECK(console_line({}).find("nan") == std::string::npos);
}

TEST_CASE("console: a line for few columns fits and keeps the most important figures") {
  CHECK(console_line(running(), 80) ==
        "0:12  62 %  steps 312k (104k/s)  updates 152  return 421.3  lost 64  dropped 1k");
  StatsSnapshot s = running();
  s.alarms["kl_high"] = {};
  s.env_failures = {{"Maze", 3}};
  CHECK(console_line(s, 60) == "0:12  62 %  steps 312k (104k/s)  return 421.3  alarms 1");
  Rng rng(2);
  for (int i = 0; i < 5'000; ++i)
    for (const size_t columns : {1, 20, 40, 80, 100, 132, 159}) {
      const std::string line = console_line(extreme(rng), columns);
      CHECK_MESSAGE(display_width(line) < columns, line);
      CHECK_MESSAGE((columns < 80 || line.find("steps ") != std::string::npos), line);
    }
}

TEST_CASE("console: a line without a limit has all figures, and the names of the alarms") {
  StatsSnapshot s = running();
  s.env_steps = 1'234'567'890;
  s.env_failures = {{"Maze", 1'000'000}};
  s.ledger.filtered = s.ledger.unscored = 123'456;
  s.alarms["kl_high"] = {};
  s.alarms["no_signal"] = {.level = AlarmLevel::error};
  s.learner["reference_kl"] = 0.021;
  CHECK(console_line(s, SIZE_MAX) ==
        "0:12  62 %  steps 1.23G (103,512/s)  updates 152 (12.3/s)  return 421.3  KL 0.0123  reference KL 0.0210  env "
        "failures 1,000,000  lost 64  no score 123,456  bottleneck: training  alarms: ERROR no_signal; kl_high  "
        "workers 2  ETA 1:02:05  lag p95 1 cap 1  filtered 123,456  dropped 1,000");
  CHECK(std::ranges::count(console_block("demo", s, 80),
                           "  learning   KL 0.0123  clipped 8 %  ESS 0.94  reference KL 0.0210") == 1);
}

TEST_CASE("console: small returns have three digits after the decimal point") {
  StatsSnapshot s = running();
  s.return_mean = 0.9123;
  s.return_std = 0.0456;
  CHECK(console_line(s).find("  return 0.912  ") != std::string::npos);
  CHECK(std::ranges::count(console_block("demo", s, 80), "  return     0.912 +- 0.046  length 421  success -") == 1);
}

TEST_CASE("console: dropped samples do not include lost ones, which have a separate figure") {
  StatsSnapshot s = running();
  CHECK(console_line(s).find("  lost 64  ") != std::string::npos);
  CHECK(console_line(s).ends_with("  dropped 1,000"));
}

TEST_CASE("console: a small KL is not shown as 0") {
  StatsSnapshot s = running();
  s.ledger.lost_in_crash = s.ledger.dropped_stale = 0;  // with these figures the KL would not fit
  s.learner["kl"] = 0.0000123;
  CHECK(console_line(s).find("KL 1.2e-05") != std::string::npos);
  s.learner["kl"] = 0;
  CHECK(console_line(s).find("KL 0.0000") != std::string::npos);
}
