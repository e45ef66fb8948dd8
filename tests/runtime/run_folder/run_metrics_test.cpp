#include "runtime/run_folder/run_metrics.h"

#include <algorithm>

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
