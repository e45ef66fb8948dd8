#include "runtime/run_folder/run_metrics.h"

#include <algorithm>
#include <utility>

#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("run_folder: a resume keeps evaluations of what it keeps, wherever their lines are") {
  MemoryDisk disk;
  const auto line = [](int updates, const char* eval = "null") {
    return "{\"updates\":" + std::to_string(updates) + ",\"env_steps\":" + std::to_string(10 * updates) +
           ",\"eval\":" + eval + "}\n";
  };
  struct Case {
    std::string before, after;
    uint64_t lost = 0;  // updates
  };
  const std::string two = line(1) + line(2);
  for (const Case& each :
       std::vector<Case>{{two + line(2, "{}"), two + line(2, "{}")},
                         {two + line(3) + line(2, "{}") + line(4), two + line(2, "{}"), 4},
                         {two + line(3) + line(1, "{}") + line(2, "{}"), two + line(1, "{}") + line(2, "{}"), 3},
                         {two + line(5) + line(3, "{}"), two, 5},
                         {two + "damaged\n" + line(1, "{}"), two + "damaged\n" + line(1, "{}")}}) {
    CAPTURE(each.before);
    disk.write_atomic("run/config.json", std::string("{}"));
    disk.write_atomic("run/metrics.jsonl", each.before);
    RunFolder run(disk, "run", "{}");
    run.begin_metrics(1.0, RunFolder::ResumePoint{2, 20});
    CHECK(disk.read("run/metrics.jsonl") == each.after);
    CHECK(run.metrics_lines() == static_cast<uint64_t>(std::ranges::count(each.after, '\n')));
    CHECK(run.cut_updates() == each.lost);
  }
}

TEST_CASE("run_folder: a resume cuts off the lines of later steps of the warm-up, and keeps the others") {
  const auto warmup = [](int step) {
    return R"({"updates":0,"env_steps":0,"warmup":{"step":)" + std::to_string(step) + "}}\n";
  };
  const std::string three = warmup(1) + warmup(2) + warmup(3), update = "{\"updates\":1,\"env_steps\":10}\n";
  struct Case {
    std::string before, after;
    RunFolder::ResumePoint resume;
    uint64_t step = 0;  // of the last line that is kept
  };
  for (const Case& each : std::vector<Case>{{three, three, {.warmup_steps = 3}, 3},
                                            {three, warmup(1) + warmup(2), {.warmup_steps = 2}, 2},
                                            {three, "", {}, 0},
                                            {three + update, warmup(1), {.warmup_steps = 1}, 1},
                                            {three + update, three, {.warmup_steps = 3}, 3},
                                            {three + update, three + update, {1, 10, {}, 0, {}, 3}, 0},
                                            {three + update, three, {.lines = 3, .warmup_steps = 3}, 3}}) {
    CAPTURE(each.before);
    MemoryDisk disk;
    disk.write_atomic("run/config.json", std::string("{}"));
    disk.write_atomic("run/metrics.jsonl", each.before);
    RunFolder run(disk, "run", "{}");
    run.begin_metrics(1.0, each.resume);
    CHECK(disk.read("run/metrics.jsonl") == each.after);
    CHECK(run.warmup_step() == each.step);
  }
}

TEST_CASE("run_folder: lines of a warm-up are not those of an update, so the settings may still change") {
  MemoryDisk disk;
  {
    RunFolder run(disk, "run", R"({"seed": 1})");
    run.begin_metrics(1.0, std::nullopt);
    run.write_metrics(R"({"updates":0,"env_steps":0,"warmup":{"step":1}})");
  }
  RunFolder run(disk, "run", R"({"seed": 2})");
  CHECK(run.replaced_settings());
}

TEST_CASE("run_folder: at a resume TensorBoard keeps the steps of the warm-up, also where there were fewer env steps") {
  for (const auto& [env_steps, forgotten] : {std::pair<uint64_t, int64_t>{0, 401}, {64, 401}, {1000, 1001}}) {
    CAPTURE(env_steps);
    MemoryDisk disk;
    disk.write_atomic("run/config.json", std::string("{}"));
    disk.write_atomic("run/metrics.jsonl", std::string());
    RunFolder run(disk, "run", "{}");
    run.begin_metrics(7.0, RunFolder::ResumePoint{.updates = 1, .env_steps = env_steps, .warmup_steps = 400});
    run.write_scalars(7.0, 1, {{"x", 1}});
    CHECK(disk.read("run/" + event_file_name(7.0, 0)).find(event_restart(7.0, forgotten)) != std::string::npos);
  }
}
