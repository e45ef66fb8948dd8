#pragma once
// A run folder and the report of its run.

#include <fcntl.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/temp_folder.h"
#include "tools/cli/run_report.h"

namespace troupe::test {

using nlohmann::json;

struct ReportedRun {
  explicit ReportedRun(const ReplayStart& from = {}, const std::string* held = nullptr,
                       Output& console = standard_output())
      : start(from) {
    folder.begin_metrics(1.0, std::nullopt);
    report.emplace(folder, nullptr, config, start, held, console);
  }
  std::vector<json> lines() const {
    std::vector<json> result;
    if (!disk.exists("run/metrics.jsonl")) return result;
    std::istringstream text(disk.read("run/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) result.push_back(json::parse(line));
    return result;
  }
  json summary() const { return json::parse(disk.read("run/summary.json")); }
  static StatsSnapshot at(uint64_t env_steps, uint64_t updates = 0) {
    StatsSnapshot s;
    s.env_steps = env_steps;
    s.updates = updates;
    return s;
  }
  std::string finish(double wall_seconds = 10) {
    RunOutcome outcome;
    outcome.version = {0, start.version.number + 2};
    outcome.reason = "stop.updates reached";
    return report->finish(outcome, wall_seconds);
  }

  MemoryDisk disk;
  RunConfig config;
  ReplayStart start;
  RunFolder folder{disk, "run", "{}"};
  std::optional<RunReport> report;
};

}  // namespace troupe::test
