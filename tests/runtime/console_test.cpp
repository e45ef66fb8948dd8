#include "runtime/console.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/file.h"
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
  s.lag_bound = 1;
  s.ledger = {313'000, 311'296, 1'000, 0, 64, 640};
  s.batch_size_p50 = 64;
  s.batches_full = 80;
  s.batches_all_waiting = 20;
  s.inference_p50_ms = 0.211;
  s.inference_p99_ms = 0.8;
  s.episodes = 900;
  s.return_mean = 421.34;
  s.return_std = 88.06;
  s.length_mean = 421;
  s.learner = {{"kl", 0.0123}, {"clip_fraction", 0.081}, {"ess", 0.94}};
  s.workers_up = s.workers_total = 2;
  s.weights_behind = {{"inference/0", 0}, {"10.0.0.2:4000", 1}};
  s.rss_bytes = 182'400'000;
  return s;
}

std::string verdict_with(auto change) {
  StatsSnapshot s = running();
  change(s);
  return bottleneck(s);
}

void collect_paths(const std::string& path, const json& value, std::vector<std::string>& paths) {
  if (!value.is_object()) return paths.push_back(path);
  for (const auto& [key, inner] : value.items()) collect_paths(path.empty() ? key : path + '.' + key, inner, paths);
}

}  // namespace

TEST_CASE("console: the block of a run under way") {
  const std::vector<std::string> expected = {
      "demo [###############.........] 63 %  312,500 env-steps  0:12  ETA 1:02:05  182 MB",
      "  sampling   103,512 env-steps/s (60 s: 98,001)  workers 2/2  dropped 1,000 stale, 0 full, 64 crashed",
      "  inference  batch 64 (full 80 %, timeout 0 %, all waiting 20 %)  p50 0.21 ms  p99 0.80 ms",
      "  training   152 updates (12.3/s)  reuse 1.0  lag 0/1/1 of 1  waits 3 %  weights behind 1",
      "  learning   return 421.3 +- 88.1  length 421  success -  KL 0.0123  clipped 8 %  ESS 0.94",
      "  bottleneck: training (the trainer is busy 97 % of the time)"};
  StatsSnapshot s = running();
  s.progress = 0.63;
  CHECK(console_block("demo", s, 200) == expected);
}

TEST_CASE("console: the block before there is any data") {
  const std::vector<std::string> expected = {
      "demo [........................] -  0 env-steps  0:00  ETA -  - MB",
      "  sampling   - env-steps/s (60 s: -)  workers 0/0  dropped 0 stale, 0 full, 0 crashed",
      "  inference  batch - (full -, timeout -, all waiting -)  p50 - ms  p99 - ms",
      "  training   0 updates (-/s)  reuse -  lag -/-/- of 0  waits -  weights behind 0",
      "  learning   return - +- -  length -  success -  KL -  clipped -  ESS -",
      "  bottleneck: starting (no worker is up yet)"};
  CHECK(console_block("demo", {}, 200) == expected);
}

TEST_CASE("console: an evaluation and failures of environments are shown when there are any") {
  StatsSnapshot s = running();
  s.evaluation = EvaluationResult{100, 20, 499.5, 1.25, 499, 1.0};
  s.env_failures = {{"CartPole-v1", 3}};
  const auto lines = console_block("demo", s, 200);
  CHECK(lines[1].ends_with("  env failures 3"));
  CHECK(lines[5] == "  evaluation at update 100: return 499.5 +- 1.2, success 100 % (20 episodes)");
}

TEST_CASE("console: no line is wider than the terminal, and none is cut inside a character or holds control bytes") {
  for (size_t width : {0, 1, 5, 6, 40, 80})
    for (const std::string& line : console_block("\u00e9\u00e9\u00e9\x1b[31m", running(), width))
      CHECK(line.size() <= width);
  CHECK(console_block("\u00e9\u00e9\u00e9", running(), 5)[0] == "\u00e9\u00e9");
  CHECK(console_block("a\x1b\n", running(), 3)[0] == "a??");
}

TEST_CASE("console: a block is drawn over the one before it") {
  CHECK(console_redraw({"a", "b"}, 0) == "\r\x1b[2Ka\n\r\x1b[2Kb\n\x1b[J");
  CHECK(console_redraw({"a"}, 2) == "\x1b[2A\r\x1b[2Ka\n\x1b[J");
}

TEST_CASE("console: one line for a pipe") {
  CHECK(console_line(running()) ==
        "0:12  62 %  steps 312,500 (103,512/s)  updates 152 (12.3/s)  return 421.3  KL 0.0123  lag 0/1/1 of 1  dropped "
        "1,064"
        "  workers 2/2  ETA 1:02:05  bottleneck: training (the trainer is busy 97 % of the time)");
  CHECK(console_line({}).find("steps 0 (-/s)") != std::string::npos);
  CHECK(console_line({}).find("nan") == std::string::npos);
}

TEST_CASE("console: the verdict names what limits the run") {
  CHECK(verdict_with([](auto& s) { s.workers_up = 0; }) == "no worker is up: nothing is sampled");
  CHECK(verdict_with([](auto& s) { s.ledger.dropped_stale = 100'000; }) ==
        "waste (32 % of the samples are dropped, most as stale)");
  CHECK(verdict_with([](auto& s) { s.ledger.dropped_full = 50'000; }).ends_with("most for want of room)"));
  CHECK(verdict_with([](auto& s) {
          s.trainer_wait_fraction = kUnknown;
          s.updates = 0;
        }) == "starting (no update yet)");
  CHECK(verdict_with([](auto& s) { s.trainer_wait_fraction = kUnknown; }) ==
        "unknown (a deterministic run does one thing at a time)");
  CHECK(verdict_with([](auto& s) {
          s.trainer_wait_fraction = 0.2;
        }).starts_with("none (sampling and training keep pace"));
  const auto hungry = [](uint64_t full, uint64_t timeout, uint64_t waiting) {
    return verdict_with([&](auto& s) {
      s.trainer_wait_fraction = 0.63;
      s.batches_full = full;
      s.batches_timeout = timeout;
      s.batches_all_waiting = waiting;
    });
  };
  CHECK(hungry(0, 0, 0) == "sampling (the trainer waits 63 % of the time)");
  CHECK(hungry(1, 9, 0).find("batches leave on timeout") != std::string::npos);
  CHECK(hungry(9, 1, 0).find("batches leave full") != std::string::npos);
  CHECK(hungry(1, 1, 8).find("workers wait for their actions") != std::string::npos);
  StatsSnapshot fresh;
  fresh.workers_up = 1;
  CHECK(bottleneck(fresh) == "starting (no data yet)");
}

TEST_CASE("console: numbers") {
  for (const auto& [value, text] : std::map<uint64_t, std::string>{
           {0, "0"}, {999, "999"}, {1000, "1,000"}, {1234567, "1,234,567"}, {UINT64_MAX, "18,446,744,073,709,551,615"}})
    CHECK(format_count(value) == text);
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

TEST_CASE("stats_snapshot: an empty one is valid JSON in one line, with null for what is unknown") {
  const std::string text = to_json(StatsSnapshot{});
  CHECK(text.find('\n') == std::string::npos);
  const json value = json::parse(text);
  CHECK(value["env_steps"] == 0);
  CHECK(value["progress"].is_null());
  CHECK(value["lag"]["p95"].is_null());
  CHECK(value["eval"].is_null());
  CHECK(value["learner"] == json::object());
}

TEST_CASE("stats_snapshot: every figure is in the JSON, non-finite ones and odd names included") {
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

TEST_CASE("stats_snapshot: the scalars are the finite numbers by path") {
  const auto scalars = scalars_of(running());
  CHECK(scalars.at("lag/p95") == 1);
  CHECK(scalars.at("learner/kl") == 0.0123);
  CHECK(scalars.count("episodes/success_rate") == 0);
  CHECK(scalars.count("eval/return_mean") == 0);
}

TEST_CASE("run folder page: every field of a snapshot is described") {
  const std::string page = posix_disk().read("docs/run_folder.md");
  StatsSnapshot s;
  s.evaluation.emplace();
  std::vector<std::string> paths;
  json value = json::parse(to_json(s));
  for (const char* open : {"learner", "rows_served", "weights_behind", "env_failures"}) value[open] = 0;
  collect_paths("", value, paths);
  CHECK(paths.size() > 40);
  for (const std::string& path : paths) CHECK_MESSAGE(page.find("`" + path + "`") != std::string::npos, path);
}
