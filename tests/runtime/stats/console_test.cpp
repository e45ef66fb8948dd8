#include "runtime/stats/console.h"

#include <algorithm>
#include <cmath>

#include "actors/experience/answers/answer_words.h"
#include "runtime/base/rng.h"
#include "runtime/stats/bottleneck.h"
#include "tests/runtime/stats/console_figures.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

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
  s.evaluation = EvaluationResult{
      .updates = 100, .episodes = 20, .return_mean = 499.5, .return_std = 1.25, .length_mean = 499, .success_rate = 1};
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
  s.evaluation = EvaluationResult{
      .updates = 100, .episodes = 20, .return_mean = 499.5, .return_std = 1.25, .length_mean = 499, .success_rate = 1};
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

TEST_CASE(
    "console: a run with several ranks says how many are up, and where there is little room if some are missing") {
  StatsSnapshot s = running();
  const auto lines = [&](size_t height) {
    return std::ranges::count_if(console_block("demo", s, 80, height),
                                 [](const auto& line) { return line.starts_with("  ranks "); });
  };
  CHECK(console_line(s, 500).find("ranks") == std::string::npos);
  CHECK(lines(100) == 0);
  s.ranks_up = s.ranks_total = 4;
  CHECK(console_line(s, 500).find("  workers 2  ranks 4 of 4  ETA ") != std::string::npos);
  CHECK(std::ranges::count(console_block("demo", s, 80), "  ranks      4 of 4 up") == 1);
  CHECK(lines(6) == 0);
  s.ranks_up = 3;
  CHECK(console_line(s).find("  workers 2  ranks 3 of 4  lag ") != std::string::npos);
  CHECK(std::ranges::count(console_block("demo", s, 80), "  ranks      3 of 4 up") == 1);
  CHECK(lines(6) == 1);
}

TEST_CASE("console: the reason why sampling is slow is on a separate line") {
  StatsSnapshot s = running();
  s.trainer_wait_fraction = s.recent.trainer_wait = 0.63;
  const auto lines = console_block("demo", s, 80);
  REQUIRE(lines.size() > 2);
  CHECK(lines[lines.size() - 2] == "  bottleneck sampling: the trainer waits 63 % of the time");
  CHECK(lines.back() == "             batches start full: more inference actors, or a larger batch_size");
}

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
  CHECK(display_width("\u2802\u28ff\u25cf") == 3);  // Braille patterns are narrow
  const std::string head = console_block("\u4e16\u754c\u4e16\u754c", running(), 50)[0];
  CHECK(head.starts_with("\u4e16\u754c\u4e16\u754c 62 %"));
  CHECK(console_block("\u4e16\u754c", running(), 3)[0] == "\u4e16");  // the second wide character does not fit
  CHECK(console_block("a\x1b\n", running(), 80)[0].starts_with("a?? ["));
}

TEST_CASE("console: a block overwrites the one before it") {
  CHECK(console_redraw({"a", "b"}, 0) == "\r\x1b[2Ka\n\r\x1b[2Kb\n\x1b[J");
  CHECK(console_redraw({"a"}, 2) == "\x1b[2A\r\x1b[2Ka\n\x1b[J");
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
  s.answers.cut_fraction = 0.02;
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
  s.verifier = VerifierFigures{.failed_replies = 3};
  CHECK(shown("  no score   1,120 answers, the verifier or the reply failed on 1,000\n") == std::pair(false, true));
}

TEST_CASE("console: the turns of answers are shown where some have several") {
  StatsSnapshot s = running();
  s.words = &kAnswerWords;
  const auto shows_turns = [&] {
    for (const std::string& each : console_block("countdown", s, 100))
      if (each.find("  turns 1.6  cut off ") != std::string::npos) return true;
    return false;
  };
  s.answers.turns_mean = s.answers.turns_max = 1;
  CHECK_FALSE(shows_turns());
  s.answers.turns_mean = 1.6;
  s.answers.turns_max = 3;
  CHECK(shows_turns());
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
