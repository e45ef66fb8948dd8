#include "runtime/stats/console.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "actors/experience/answers/answer_words.h"
#include "runtime/base/rng.h"
#include "runtime/stats/bottleneck.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;

namespace {

StatsSnapshot running() {
  StatsSnapshot s;
  s.elapsed_seconds = 12.4;
  s.progress = 0.625;
  s.eta_seconds = 3725;
  s.env_steps = 312'500;
  s.env_steps_per_second = 103'512.4;
  s.env_steps_per_second_60s = 98'001;
  s.updates = 152;
  s.updates_per_second = 12.34;
  s.reuse = 1;
  s.trainer_wait_fraction = 0.03;
  s.lag_p50 = 0;
  s.lag_p95 = 1;
  s.lag_max = 1;
  s.lag_cap = 1;
  s.ledger = {313'000, 311'296, 1'000, 0, 64, 640};
  s.batch_size_p50 = 64;
  s.batches_full = 80;
  s.batches_all_waiting = 20;
  s.recent = {.batches_full = 80, .batches_all_waiting = 20, .trainer_wait = 0.03};
  s.inference_p50_ms = 0.211;
  s.inference_p99_ms = 0.8;
  s.episodes = 900;
  s.return_mean = 421.34;
  s.return_std = 88.06;
  s.length_mean = 421;
  s.learner = {{"kl", 0.0123}, {"clip_fraction", 0.081}, {"ess", 0.94}};
  s.workers_up = s.workers_total = 2;
  s.inference_up = s.inference_own = 1;
  s.weights_behind = {{"inference/0", 0}, {"10.0.0.2:4000", 1}};
  s.rss_bytes = 182'400'000;
  return s;
}

}  // namespace

TEST_CASE("console: the block of a running run") {
  const std::vector<std::string> expected = {"demo [#######.....] 63 %  0:12  ETA 1:02:05  182 MB",
                                             "  steps      312,500 env steps  103,512/s (60 s: 98,001/s)",
                                             "  workers    2 up  dropped 1,000 stale, 0 buffer full",
                                             "  failures   64 samples lost",
                                             "  inference  batch 64  p50 0.21 ms  p99 0.80 ms",
                                             "  batches    started full 80 %, at timeout 0 %, all workers waiting 20 %",
                                             "  training   152 updates (12.3/s)  reuse 1.0  waits 3 %",
                                             "  lag        median 0  p95 1  max 1  cap 1",
                                             "  return     421.3 +- 88.1  length 421  success -",
                                             "  learning   KL 0.0123  clipped 8 %  ESS 0.94",
                                             "  bottleneck training: the trainer is busy 97 % of the time"};
  StatsSnapshot s = running();
  s.progress = 0.63;
  CHECK(console_block("demo", s, 80) == expected);
}

TEST_CASE("console: the block before there is any data") {
  const std::vector<std::string> expected = {"demo [............] -  0:00  ETA -  - MB",
                                             "  steps      0 env steps  -/s (60 s: -/s)",
                                             "  workers    0 up  dropped 0 stale, 0 buffer full",
                                             "  inference  batch -  p50 - ms  p99 - ms",
                                             "  batches    started full -, at timeout -, all workers waiting -",
                                             "  training   0 updates (-/s)  reuse -  waits -",
                                             "  lag        median -  p95 -  max -  cap 0",
                                             "  return     no episode is complete yet",
                                             "  learning   KL -  clipped -  ESS -",
                                             "  bottleneck waiting for workers and inference: neither is connected"};
  CHECK(console_block("demo", {}, 80) == expected);
}

TEST_CASE("console: an evaluation, failures and receivers that are behind are shown if there are any") {
  StatsSnapshot s = running();
  s.evaluation = EvaluationResult{100, 20, 499.5, 1.25, 499, 1.0};
  s.evaluation->failed_episodes = 3;
  s.env_failures = {{"CartPole-v1", 3}};
  s.weights_behind["inference 1"] = 7;
  const auto lines = console_block("demo", s, 80);
  const auto holds = [&](const std::string& line) { return std::ranges::count(lines, line) == 1; };
  CHECK(holds("  failures   environments failed 3 times, 64 samples lost"));
  CHECK(holds("  weights    7 versions behind at one inference actor"));
  CHECK(holds("  evaluation at update 100: return 499.5 +- 1.2, success 100 %, 3 failed"));
  s.updates = s.ledger.lost_in_crash = 1;
  s.evaluating = EvaluationUnderWay{.updates = 1, .episodes = 0, .of = 1, .seconds = 2};
  const auto ones = console_block("demo", s, 80);
  CHECK(std::ranges::count(ones, "  failures   environments failed 3 times, 1 sample lost") == 1);
  CHECK(std::ranges::count(ones, "  training   1 update (12.3/s)  reuse 1.0  waits 3 %") == 1);
  s.words = &kAnswerWords;
  CHECK(std::ranges::count(console_block("demo", s, 80), "  failures   workers failed 3 times, 1 sample lost") == 1);
  CHECK(std::ranges::count(ones, "  evaluating the policy after update 1: 0 of 1 episode, 0:02") == 1);
}

TEST_CASE("console: the newest evaluation is shown if it failed, beside the last one that did not") {
  StatsSnapshot s = running();
  s.evaluation = EvaluationResult{100, 20, 499.5, 1.25, 499, 1.0};
  s.failed_evaluations = {.count = 3, .updates = 150, .error = "the environment failed: boom\n\x1b[2J"};
  const std::string line = "  evaluation at update 150 failed (3 so far): the environment failed: boom\\x0a\\x1b[2J";
  const auto lines = console_block("demo", s, 120);
  CHECK(std::ranges::count(lines, line) == 1);
  CHECK(std::ranges::count(lines, "  evaluation at update 100: return 499.5 +- 1.2, success 100 %") == 1);
  s.evaluation->updates = 200;
  for (const std::string& other : console_block("demo", s, 120)) CHECK(other.find("failed (") == std::string::npos);
  s.evaluation.reset();
  CHECK(std::ranges::count(console_block("demo", s, 120), line) == 1);
  CHECK(std::ranges::count(console_block("demo", s, 80), fitted(line, 80)) == 1);
  s.failed_evaluations.error.clear();  // of an earlier start
  for (const std::string& other : console_block("demo", s, 120)) CHECK(other.find("failed (") == std::string::npos);
}

TEST_CASE("console: filtered answers are shown beside the dropped ones if there are any") {
  StatsSnapshot s = running();
  s.words = &kAnswerWords;
  s.ledger = {.produced = 157'296, .trained = 31'232, .filtered = 126'064};
  CHECK(console_line(s).ends_with("  filtered 126,064  dropped 0"));
  CHECK(std::ranges::count(console_block("demo", s, 80),
                           "  filtered   126,064 answers (80 %), whose group has equal rewards") == 1);
  s.ledger.filtered = 0;
  CHECK(console_line(s).find("filtered") == std::string::npos);
  for (const std::string& line : console_block("demo", s, 80)) CHECK(line.find("filtered") == std::string::npos);
}

TEST_CASE("console: workers that were started again are not shown as missing") {
  StatsSnapshot s = running();
  s.workers_total = 9;
  CHECK(console_block("demo", s, 80)[2].starts_with("  workers    2 up, 9 joined  dropped"));
  CHECK(console_line(s).find("  workers 2  ") != std::string::npos);
}

TEST_CASE("console: the reason why sampling is slow is on a separate line") {
  StatsSnapshot s = running();
  s.trainer_wait_fraction = s.recent.trainer_wait = 0.63;
  const auto lines = console_block("demo", s, 80);
  REQUIRE(lines.size() > 2);
  CHECK(lines[lines.size() - 2] == "  bottleneck sampling: the trainer waits 63 % of the time");
  CHECK(lines.back() == "             batches start full: more inference actors, or a larger batch_size");
}

namespace {

// A snapshot with random extreme values: long, tiny, negative and non-finite ones.
StatsSnapshot extreme(Rng& rng) {
  constexpr double kNumbers[] = {kUnknown, INFINITY,  -INFINITY,  0,          -0.0,      1e-300, -1e-300, 0.00012345,
                                 0.5,      -123456.7, 99999.4999, -99998.996, 123456789, 1e18,   1e300,   -1.2345e-7};
  constexpr uint64_t kCounts[] = {0, 1, 999, 9'999'999, 10'000'000, 999'500'000, UINT64_MAX / 8, UINT64_MAX};
  const auto number = [&] { return kNumbers[rng.below(std::size(kNumbers))]; };
  const auto count = [&] { return kCounts[rng.below(std::size(kCounts))]; };
  StatsSnapshot s;
  for (double* value : {&s.elapsed_seconds,
                        &s.progress,
                        &s.eta_seconds,
                        &s.env_steps_per_second,
                        &s.env_steps_per_second_60s,
                        &s.updates_per_second,
                        &s.reuse,
                        &s.trainer_wait_fraction,
                        &s.recent.trainer_wait,
                        &s.lag_p50,
                        &s.lag_p95,
                        &s.lag_max,
                        &s.batch_size_p50,
                        &s.inference_p50_ms,
                        &s.inference_p99_ms,
                        &s.return_mean,
                        &s.return_std,
                        &s.length_mean,
                        &s.success_rate,
                        &s.learner["kl"],
                        &s.learner["clip_fraction"],
                        &s.learner["ess"]})
    *value = number();
  for (uint64_t* value : {&s.env_steps,
                          &s.updates,
                          &s.lag_cap,
                          &s.ledger.produced,
                          &s.ledger.dropped_stale,
                          &s.ledger.dropped_full,
                          &s.ledger.lost_in_crash,
                          &s.ledger.filtered,
                          &s.ledger.unscored,
                          &s.ledger.verifier_failed,
                          &s.batches_full,
                          &s.batches_timeout,
                          &s.batches_all_waiting,
                          &s.workers_up,
                          &s.workers_total,
                          &s.inference_up,
                          &s.inference_own,
                          &s.rss_bytes,
                          &s.weights_behind["inference 0"],
                          &s.env_failures["Env"]})
    *value = count();
  if (rng.below(2) == 0) s.evaluation = EvaluationResult{count(), count(), number(), number(), number(), number()};
  return s;
}

}  // namespace

TEST_CASE("console: the block fits 80 columns and the line 159, for any figures") {
  Rng rng(1);
  for (int i = 0; i < 20'000; ++i) {
    const StatsSnapshot s = extreme(rng);
    // At 500 columns nothing is cut, so the lines are this short without cutting.
    for (const std::string& line : console_block("a run", s, 500)) CHECK_MESSAGE(display_width(line) <= 80, line);
    const std::string line = console_line(s);
    CHECK_MESSAGE(display_width(line) < 160, line);
    for (const char* part :
         {"steps ", "/s)", "  updates ", "  return ", "  bottleneck: ", "  workers ", "  lag p95 ", "  dropped "})
      CHECK_MESSAGE(line.find(part) != std::string::npos, line);
  }
}

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

TEST_CASE("console: a terminal with few rows gets the most important lines, and no more than fit") {
  const std::vector<std::string> expected = {"demo [#######.....] 62 %  0:12  ETA 1:02:05  182 MB",
                                             "  steps      312,500 env steps  103,512/s (60 s: 98,001/s)",
                                             "  return     421.3 +- 88.1  length 421  success -",
                                             "  bottleneck training: the trainer is busy 97 % of the time"};
  CHECK(console_block("demo", running(), 80, 4) == expected);
  for (size_t height = 0; height < 20; ++height)
    CHECK(console_block("demo", running(), 80, height).size() == std::clamp<size_t>(height, 1, 11));
}

TEST_CASE("console: if the head is too wide, figures are dropped before the run's name is cut") {
  const auto head = [](size_t width) { return console_block("cartpole-long-run-17", running(), width)[0]; };
  CHECK(head(80) == "cartpole-long-run-17 [#######.....] 62 %  0:12  ETA 1:02:05  182 MB");
  CHECK(head(60) == "cartpole-long-run-17 62 %  0:12  ETA 1:02:05  182 MB");
  CHECK(head(40) == "cartpole-long-ru 62 %  0:12  ETA 1:02:05");
  CHECK(head(20) == "cartpole- 62 %  0:12");
  CHECK(head(5) == "cartp");
}

TEST_CASE("console: no line is wider than the terminal, cut inside a character or has control characters") {
  for (size_t width : {0, 1, 5, 6, 40, 80})
    for (const std::string& line : console_block("\u00e9\u4e16\u754c\U0001F600\x1b[31m", running(), width))
      CHECK(display_width(line) <= width);
  CHECK(display_width("a\u00e9\u4e16\U0001F600\xff") == 7);
  const std::string head = console_block("\u4e16\u754c\u4e16\u754c", running(), 50)[0];
  CHECK(head.starts_with("\u4e16\u754c\u4e16\u754c 62 %"));
  CHECK(console_block("\u4e16\u754c", running(), 3)[0] == "\u4e16");  // the second wide character does not fit
  CHECK(console_block("a\x1b\n", running(), 80)[0].starts_with("a?? ["));
}

TEST_CASE("console: a block overwrites the one before it") {
  CHECK(console_redraw({"a", "b"}, 0) == "\r\x1b[2Ka\n\r\x1b[2Kb\n\x1b[J");
  CHECK(console_redraw({"a"}, 2) == "\x1b[2A\r\x1b[2Ka\n\x1b[J");
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

TEST_CASE("console: after the end of training neither a bottleneck nor an ETA is shown") {
  StatsSnapshot s = running();
  s.training_ended = true;
  s.workers_up = 0;
  s.ledger.dropped_stale = s.ledger.produced;
  CHECK(text_of(find_bottleneck(s)).empty());
  CHECK(console_line(s).find("bottleneck") == std::string::npos);
  CHECK(console_line(s).find("  training has ended  ") != std::string::npos);
  CHECK(console_line(s).find("ETA") == std::string::npos);
  for (const std::string& line : console_block("demo", s, 80)) {
    CHECK(line.find("bottleneck") == std::string::npos);
    CHECK(line.find("ETA") == std::string::npos);
  }
}

TEST_CASE("console: a token run counts answers and tokens") {
  StatsSnapshot s = running();
  s.words = &kAnswerWords;
  s.ledger.lost_in_crash = 0;
  s.answer_tokens_per_second = 20480;
  s.trained_tokens_per_second = 19000;
  s.cut_fraction = 0.02;
  s.evaluation = EvaluationResult{.updates = 40, .episodes = 200, .success_rate = 0.97};
  const std::string line = console_line(s);
  std::string block;
  for (const std::string& each : console_block("reverse", s, 100)) block += each + '\n';
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  CAPTURE(line);
  CAPTURE(block);
  for (const char* absent : {"steps ", "return", "success", "  batches "}) {
    CHECK_FALSE(has(line, absent));
    CHECK_FALSE(has(block, absent));
  }
  CHECK(has(line, "  answers "));
  CHECK(has(line, "  reward "));
  CHECK(has(line, "  tokens 20,480/s"));
  CHECK(has(block, "tokens 20,480/s, trained 19,000/s"));
  CHECK(has(block, "cut off 2 %"));
  CHECK(has(block, "pass@1 97 % of 200 prompts"));
}

TEST_CASE("console: answers without a score are shown if there are any") {
  StatsSnapshot s = running();
  s.words = &kAnswerWords;
  s.ledger.lost_in_crash = 0;
  const auto shown = [&](const std::string& part) {
    std::string block;
    for (const std::string& each : console_block("reverse", s, 80)) block += each + '\n';
    return std::pair(console_line(s).find(part) != std::string::npos, block.find(part) != std::string::npos);
  };
  CHECK(shown("no score") == std::pair(false, false));
  s.ledger.unscored = 120;
  CHECK(shown("no score 120") == std::pair(true, false));
  CHECK(shown("  no score   120 answers\n") == std::pair(false, true));
  s.ledger.verifier_failed = 1'000;
  CHECK(shown("no score 1,120") == std::pair(true, false));
  CHECK(shown("  no score   1,120 answers, the verifier failed on 1,000\n") == std::pair(false, true));
}

TEST_CASE("console: the lengths of answers are shown if some came too late") {
  StatsSnapshot s = running();
  s.words = &kAnswerWords;
  const auto block = [&] {
    std::string text;
    for (const std::string& each : console_block("reverse", s, 100)) text += each + '\n';
    return text;
  };
  s.produced_length = s.trained_length = 9;
  CHECK(block().find("  lengths ") == std::string::npos);
  s.dropped_length = 21.26;
  CHECK(block().find("  lengths    answers 9.0  trained 9.0  dropped 21.3\n") != std::string::npos);
  s.dropped_length = kUnknown;
  s.masked_tokens = 1'204;
  CHECK(block().find("  lengths    answers 9.0  trained 9.0  dropped -  masked 1,204 tokens\n") != std::string::npos);
}

TEST_CASE("console: counts, numbers, seconds and bytes are formatted readably") {
  for (const auto& [value, text] : std::map<uint64_t, std::string>{
           {0, "0"}, {999, "999"}, {1000, "1,000"}, {1234567, "1,234,567"}, {UINT64_MAX, "18,446,744,073,709,551,615"}})
    CHECK(format_count(value) == text);
  CHECK(format_counted(0, "update") == "0 updates");
  CHECK(format_counted(1, "update") == "1 update");
  CHECK(format_counted(5120, "environment step") == "5,120 environment steps");
  for (const auto& [value, text] : std::map<uint64_t, std::string>{{9'999'999, "9,999,999"},
                                                                   {10'000'000, "10M"},
                                                                   {123'456'789, "123M"},
                                                                   {999'600'000, "1G"},
                                                                   {UINT64_MAX, "18.4E"}})
    CHECK(format_short(value) == text);
  CHECK(format_number(-0.01, 1) == "0.0");
  CHECK(format_number(-0.06, 1) == "-0.1");
  CHECK(format_number(INFINITY, 1) == "-");
  CHECK(format_number(1.5e300, 1) == "1.5e+300");
  CHECK(format_seconds(59.6) == "1:00");
  CHECK(format_seconds(3600) == "1:00:00");
  CHECK(format_seconds(-1) == "-");
  CHECK(format_seconds(1e300) == "-");
  CHECK(format_bytes(12'345'678'901) == "12 GB");
}

TEST_CASE("stats_snapshot: an empty snapshot is one line of valid JSON, with null for unknown values") {
  const std::string text = to_json(StatsSnapshot{});
  CHECK(text.find('\n') == std::string::npos);
  const json value = json::parse(text);
  CHECK(value["env_steps"] == 0);
  CHECK(value["progress"].is_null());
  CHECK(value["lag"]["p95"].is_null());
  CHECK(value["eval"].is_null());
  CHECK(value["learner"] == json::object());
}

TEST_CASE("stats_snapshot: the JSON is valid with non-finite figures and names that are not UTF-8") {
  StatsSnapshot s = running();
  s.learner["value_loss"] = INFINITY;
  s.env_failures["\xff"] = 2;
  s.evaluation = EvaluationResult{3, 4, 5, 6, 7, 0.5};
  const json value = json::parse(to_json(s));
  CHECK(value["env_steps_per_second"] == 103'512.4);
  CHECK(value["ledger"]["lost_in_crash"] == 64);
  CHECK(value["learner"]["value_loss"].is_null());
  CHECK(value["weights_behind"]["10.0.0.2:4000"] == 1);
  CHECK(value["eval"] == json::parse(to_json(*s.evaluation)));
  CHECK(s.ledger.balances());
}

TEST_CASE("stats_snapshot: scalars_of gives the finite numbers by their paths") {
  const auto scalars = scalars_of(running());
  CHECK(scalars.at("lag/p95") == 1);
  CHECK(scalars.at("learner/kl") == 0.0123);
  CHECK(scalars.count("episodes/success_rate") == 0);
  CHECK(scalars.count("eval/return_mean") == 0);
}
